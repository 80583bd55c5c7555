"""What a peer tells of what it holds, and what it finds that another lacks."""

from __future__ import annotations

from hashlib import sha256

from roost.core import canonical
from roost.core.graph import Graph, LogKey, Position
from roost.core.have import Holdings, LogTips, Tip, author_digests, digest
from roost.core.ids import LogId, OperationId, PeerKey
from roost.core.ranges import Range

ANN, BOB = PeerKey(b"\1" * 32), PeerKey(b"\2" * 32)
LOG = LogKey(ANN, LogId(b"a" * 8))
OTHER = LogKey(BOB, LogId(b"b" * 8))


def id_at(position: Position) -> OperationId:
    return OperationId(sha256(repr(position).encode()).digest())


def tip(stretch: int, seq: int) -> Tip:
    return Tip(seq, id_at(Position(stretch, seq)))


def a_forked_log() -> Graph:
    """a0 .. a5, and b3 .. b9 on a2 in another stretch."""
    graph = Graph(lambda _: ())
    graph.start(0, LOG, None, 0).last = 5
    graph.start(1, LOG, Position(0, 2), 3).last = 9
    return graph


def holdings_of(graph: Graph) -> Holdings:
    return Holdings(graph, id_at, {})


def test_the_digest_is_that_of_the_canonical_nested_arrays() -> None:
    have = [
        LogTips(ANN, LOG.log, (Tip(4, OperationId(b"x" * 32)),)),
        LogTips(BOB, OTHER.log, (Tip(0, OperationId(b"y" * 32)),)),
    ]
    nested: canonical.Value = [[ANN, LOG.log, [[4, b"x" * 32]]], [BOB, OTHER.log, [[0, b"y" * 32]]]]

    assert digest(have) == sha256(canonical.pack(nested)).digest()
    assert digest(have).hex() == "eed3bf8406b8b4ee581b32ca0bcc2556e074a85fb5102d0283e38aa5a9e1adbc"
    assert digest([]) == sha256(b"\x90").digest()


def test_each_author_has_a_digest_of_that_part_of_the_have() -> None:
    mine, more = (
        LogTips(ANN, LOG.log, (Tip(1, OperationId(b"x" * 32)),)),
        LogTips(ANN, OTHER.log, (Tip(2, OperationId(b"z" * 32)),)),
    )
    other = LogTips(BOB, OTHER.log, (Tip(0, OperationId(b"y" * 32)),))
    assert author_digests([mine, more, other]) == [(ANN, digest([mine, more])), (BOB, digest([other]))]


def test_a_log_has_one_tip_unless_it_is_forked_and_tips_ascend() -> None:
    graph = a_forked_log()
    graph.start(2, OTHER, None, 0)
    assert holdings_of(graph).have() == (
        LogTips(ANN, LOG.log, (tip(0, 5), tip(1, 9))),
        LogTips(BOB, OTHER.log, (tip(2, 0),)),
    )


def test_logs_ascend_by_author_and_log_whatever_the_order_of_arrival() -> None:
    graph = Graph(lambda _: ())
    for number, log in enumerate([LogKey(BOB, LOG.log), LogKey(ANN, OTHER.log), LOG]):
        graph.start(number, log, None, 0)
    assert [log.key for log in holdings_of(graph).have()] == [LOG, LogKey(ANN, OTHER.log), LogKey(BOB, LOG.log)]


def test_only_what_is_committed_is_in_the_have() -> None:
    graph = Graph(lambda _: ())
    holdings = holdings_of(graph)
    graph.start(0, LOG, None, 0).last = 3
    assert holdings.have() == ()

    holdings.stored([Position(0, 0), Position(0, 1)])

    assert holdings.have() == (LogTips(ANN, LOG.log, (tip(0, 1),)),)
    assert holdings.holds(Position(0, 1))
    assert not holdings.holds(Position(0, 2))


def test_a_fork_that_is_not_committed_yet_leaves_the_tip_where_it_is() -> None:
    graph = Graph(lambda _: ())
    graph.start(0, LOG, None, 0).last = 2
    holdings = holdings_of(graph)
    graph.start(1, LOG, Position(0, 2), 3)
    assert holdings.tips(LOG) == (tip(0, 2),)
    holdings.stored([Position(1, 3)])
    assert holdings.tips(LOG) == (tip(1, 3),)


def test_what_is_parked_is_in_no_have() -> None:
    parked: dict[int, tuple[int, int]] = {}
    graph = a_forked_log()
    holdings = Holdings(graph, id_at, parked)
    whole = holdings.digest()

    parked[1] = (3, 0)
    parked[0] = (5, 0)
    holdings.reparked()

    assert holdings.tips(LOG) == (tip(0, 4),)
    assert holdings.digest() != whole
    parked.clear()
    holdings.reparked()
    assert holdings.digest() == whole


def test_the_digest_changes_with_every_tip() -> None:
    graph = a_forked_log()
    holdings = holdings_of(graph)
    before = holdings.digest()
    graph.stretches[1].last = 10
    holdings.stored([Position(1, 10)])
    assert holdings.digest() != before


def test_what_is_beyond_the_chains_of_some_tips_is_exact_in_a_forked_log() -> None:
    holdings = holdings_of(a_forked_log())

    def beyond(*tips: Position) -> list[Range]:
        return list(holdings.beyond(LOG, holdings.covered(tips)))

    assert beyond() == [Range(0, 0, 5), Range(1, 3, 9)]
    assert beyond(Position(0, 5)) == [Range(1, 3, 9)]
    assert beyond(Position(1, 9)) == [Range(0, 3, 5)]
    assert beyond(Position(1, 4)) == [Range(0, 3, 5), Range(1, 5, 9)]
    assert beyond(Position(0, 5), Position(1, 9)) == []


def test_samples_are_the_tip_then_1_3_7_below_it_and_0_on_each_branch() -> None:
    graph = Graph(lambda _: ())
    graph.start(0, LOG, None, 0).last = 20
    assert [seq for _, seq in holdings_of(graph).samples(LOG)] == [20, 19, 17, 13, 5, 0]

    samples = holdings_of(a_forked_log()).samples(LOG)
    assert samples == [(0, 5), (0, 4), (0, 2), (0, 0), (1, 9), (1, 8), (1, 6)]
    assert holdings_of(graph).samples(OTHER) == []


def test_a_log_of_one_operation_has_one_sample() -> None:
    graph = Graph(lambda _: ())
    graph.start(0, LOG, None, 0)
    assert holdings_of(graph).samples(LOG) == [Position(0, 0)]
