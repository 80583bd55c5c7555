"""What does not fit a frame is cut, and put together again."""

from __future__ import annotations

import pytest

from roost.core import wire
from roost.core.errors import TooLarge
from roost.core.graph import LogKey
from roost.core.have import LogTips, Tip
from roost.core.ids import DocumentId, LogId, OperationId, PeerKey
from roost.core.turns import Turn, by_log, cut_ids, cut_logs, numbered
from roost.core.wire import FRAME_BYTES_MAX, IDS_MAX, PARTS_MAX, Compare, Have, LogIds

DOCUMENT = DocumentId(b"d" * 32)
ANN = PeerKey(b"a" * 32)


def log_of(number: int) -> LogId:
    return LogId(number.to_bytes(8, "big"))


def ids_from(first: int, count: int) -> tuple[OperationId, ...]:
    return tuple(
        OperationId((number * 0x9E3779B97F4A7C15 % 2**256).to_bytes(32, "big"))
        for number in range(first, first + count)
    )


def test_a_have_of_many_logs_is_cut_into_frames_and_keeps_its_order() -> None:
    have = [LogTips(ANN, log_of(number), (Tip(number, ids_from(number, 1)[0]),)) for number in range(20_000)]
    pieces = cut_logs(have)
    frames = [wire.encode(Have(DOCUMENT, 1, 1, part, len(pieces), piece)) for part, piece in numbered(pieces)]
    assert len(frames) > 1
    assert max(map(len, frames)) <= FRAME_BYTES_MAX
    assert [log for piece in pieces for log in piece] == have


def test_a_log_with_more_branches_than_a_frame_holds_goes_on_in_the_next_part() -> None:
    tips = tuple(Tip(7, one) for one in ids_from(0, IDS_MAX * 2))
    pieces = cut_logs([LogTips(ANN, log_of(1), tips)])
    assert [wire.decode_frame(wire.encode(Have(DOCUMENT, 1, 1, 0, 1, piece))) for piece in pieces]
    assert tuple(tip for piece in pieces for log in piece for tip in log.tips) == tips


def test_a_turn_is_cut_and_each_log_comes_together_again() -> None:
    turn = Turn()
    extra = {number: ids_from(number * IDS_MAX, 5_000) for number in range(6)}
    turn.extra += [LogIds(ANN, log_of(number), ids) for number, ids in extra.items()]
    turn.held.append(LogIds(ANN, log_of(0), ()))
    turn.common.append(LogIds(ANN, log_of(9), ids_from(0, 2)))

    sent = [Compare(DOCUMENT, 1, 2, part, 9, *piece) for part, piece in numbered(turn.cut())]
    frames = [wire.encode(message) for message in sent]
    got = [wire.decode_frame(frame) for frame in frames]

    assert got == sent
    found = by_log(one for message in sent for one in message.extra)
    assert {key.log: tuple(ids) for key, ids in found.items()} == {log_of(n): ids for n, ids in extra.items()}
    assert by_log(one for message in sent for one in message.held) == {LogKey(ANN, log_of(0)): []}


def test_an_empty_turn_is_one_empty_message() -> None:
    assert not Turn()
    assert len(Turn().cut()) == 1
    assert cut_ids([]) == [()]


def test_what_takes_more_than_the_parts_of_a_step_is_refused() -> None:
    numbered([()] * PARTS_MAX)
    with pytest.raises(TooLarge):
        numbered([()] * (PARTS_MAX + 1))
