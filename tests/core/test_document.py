"""One document as a peer holds it: what is admitted, what waits, what is refused, and what the store is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from roost.core import canonical
from roost.core import document as documents
from roost.core import operation as operations
from roost.core.document import JUMP_AHEAD_MICROSECONDS, JUMP_STEP_MICROSECONDS, Document
from roost.core.graph import LogKey, Position
from roost.core.ids import OperationId
from roost.core.index import Known
from roost.core.operation import Operation
from tests.core.model import BIRTH, NOW, MemoryIndex, Peer, Scene, genesis, grant, head_of, key_of, log_of, verbs
from tests.core.replay import image

DAY = JUMP_AHEAD_MICROSECONDS


def create(scene: Scene, back: Operation, **fields: object) -> Operation:
    """An entry by Kim after ``back``, with some fields other than they should be."""
    proper: dict[str, object] = {
        "document": scene.genesis.document, "log": back.log, "seq": back.seq + 1, "backlink": back.id, "deps": (),
        "proof": back.proof, "kind": "entry", "time": back.time + 1, "head_bytes": head_of("entry"), "content": b"x",
    }  # fmt: skip
    key = key_of(str(fields.pop("by", "kim")))
    return operations.create(key, **{**proper, **fields})  # type: ignore[arg-type]


def chat() -> tuple[Scene, Operation, Operation]:
    """(scene, Kim's grant, Kim's last words)."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write"), grant("lee", "write")))
    scene.write("kim", proof=given)
    return scene, given, scene.write("kim")


# --- admission: what the ancestors show ---------------------------------------------------------------------------

Change = Callable[[Scene, Operation, Operation], dict[str, object]]

REFUSED: list[tuple[str, str, Change]] = [
    ("a gap in the log", "bad_chain", lambda scene, given, last: {"seq": last.seq + 2}),
    ("a place that is behind", "bad_chain", lambda scene, given, last: {"seq": last.seq}),
    ("another log", "bad_chain", lambda scene, given, last: {"log": log_of("other")}),
    ("another's log", "bad_chain", lambda scene, given, last: {"by": "lee"}),
    ("the time of its predecessor", "bad_time", lambda scene, given, last: {"time": last.time}),
    ("a time before a dep's", "bad_time", lambda scene, given, last: {"time": BIRTH + 1, "deps": (given.id,)}),
    ("a proof that it does not depend on", "bad_proof", lambda scene, given, last: {"proof": scene.operations[2].id}),
    ("another document", "wrong_document", lambda scene, given, last: {"document": genesis("lee").document}),
]


@pytest.mark.parametrize(("why", "code", "change"), REFUSED)
def test_what_contradicts_its_ancestors_is_refused_and_its_neighbour_is_not(
    why: str, code: str, change: Change
) -> None:
    scene, given, last = chat()
    peer = scene.peer()
    stored = len(peer.arrived)

    received = peer.deliver([create(scene, last, **change(scene, given, last))])

    assert [refusal.code for _, refusal in received.refused] == [code]
    assert len(peer.arrived) == stored
    neighbour = peer.deliver([create(scene, last)])
    assert [new.accepted for new in neighbour.operations] == [True]


def test_a_proof_may_be_the_genesis_the_predecessors_or_a_dep() -> None:
    scene, given, last = chat()
    second = scene.write("owner", verbs(grant("kim", "admin")))
    peer = scene.peer()
    proofs = [
        create(scene, last, proof=scene.genesis.id),  # void, for Kim is neither owner nor creator, but well formed
        create(scene, last, proof=given.id),
        create(scene, last, proof=second.id, deps=(second.id,), time=NOW),
    ]

    received = peer.deliver(proofs)

    assert received.refused == []
    assert [new.accepted for new in received.operations] == [False, True, True]


def test_a_document_has_one_genesis() -> None:
    scene, _, _ = chat()
    peer = scene.peer()
    received = peer.deliver([genesis("owner", nonce=b"another genesis.")])
    assert [refusal.code for _, refusal in received.refused] == ["wrong_document"]
    assert peer.deliver([scene.genesis]).known == [scene.genesis]


def test_an_operation_without_its_parents_waits_and_says_which() -> None:
    scene, given, last = chat()
    peer = Peer(scene.genesis)

    early = peer.deliver([last])

    assert [missing for _, missing in early.missing] == [(last.backlink,)]
    assert peer.deliver([given]).refused == []
    assert peer.waiting == [last]
    peer.deliver([scene.operations[2]])
    assert peer.waiting == []
    assert peer.document.heads == [last.id]


def test_what_is_known_already_is_told_apart() -> None:
    scene, _, last = chat()
    peer = scene.peer()
    again = peer.deliver([last, last])
    assert (again.known, again.operations, again.missing, again.refused) == ([last, last], [], [], [])


def test_one_bad_operation_in_a_batch_does_not_harm_the_others() -> None:
    scene, _, last = chat()
    peer = scene.peer()
    bad, good = create(scene, last, seq=9), create(scene, last)
    after_bad = create(scene, bad)

    received = peer.deliver([bad, after_bad, good])

    assert [new.operation for new in received.operations] == [good]
    assert [operation for operation, _ in received.refused] == [bad]
    assert [operation for operation, _ in received.missing] == [after_bad]


# --- time [11] ----------------------------------------------------------------------------------------------------


def test_what_jumps_more_than_a_day_ahead_waits_and_says_how_long() -> None:
    scene, _, last = chat()
    peer = scene.peer()
    jumping = create(scene, last, time=NOW + DAY + 5)
    within = create(scene, last, time=NOW + DAY)

    received = peer.deliver([jumping, within])

    assert received.withheld == [(jumping, 5)]
    assert [new.operation for new in received.operations] == [within]
    peer.now += 5
    assert [new.operation for new in peer.deliver([jumping]).operations] == [jumping]


def test_who_follows_a_jump_closely_does_not_jump() -> None:
    """[11]: else one bad clock parks every honest operation on top."""
    scene, _, last = chat()
    peer = scene.peer()
    peer.now += 10 * DAY
    ahead = create(scene, last, time=NOW + 11 * DAY)
    peer.deliver([ahead])
    peer.now = NOW
    follows = create(scene, ahead, time=ahead.time + JUMP_STEP_MICROSECONDS)
    jumps = create(scene, ahead, time=ahead.time + JUMP_STEP_MICROSECONDS + 1)

    received = peer.deliver([jumps, follows])

    assert [new.operation for new in received.operations] == [follows]
    assert [operation for operation, _ in received.withheld] == [jumps]


def test_a_genesis_never_jumps() -> None:
    first = genesis("owner")
    peer = Peer(first, now=BIRTH - 100 * DAY)
    assert peer.document.heads == [first.id]


def test_a_wrong_operation_that_jumps_is_refused_and_not_kept_waiting() -> None:
    scene, _, last = chat()
    received = scene.peer().deliver([create(scene, last, seq=9, time=NOW + 2 * DAY)])
    assert [refusal.code for _, refusal in received.refused] == ["bad_chain"]


# --- forks --------------------------------------------------------------------------------------------------------


def test_two_operations_in_one_place_are_both_in_the_set_and_the_fork_is_told() -> None:
    scene, _, last = chat()
    one, other = create(scene, last, content=b"1"), create(scene, last, content=b"2")
    peer = scene.peer()

    assert peer.deliver([one]).forked == []
    received = peer.deliver([other])

    assert received.forked == [LogKey(last.author, last.log)]
    assert peer.document.heads == sorted([one.id, other.id])
    assert peer.deliver([create(scene, one), create(scene, other)]).forked == []


def test_two_first_operations_of_one_log_are_a_fork_too() -> None:
    scene, given, _ = chat()
    peer = scene.peer()
    first = {"seq": 0, "backlink": None, "deps": (given.id,), "log": log_of("new"), "time": NOW}
    one, other = create(scene, given, **first), create(scene, given, **{**first, "time": NOW + 1})
    assert peer.deliver([one]).forked == []
    assert peer.deliver([other]).forked == [LogKey(one.author, one.log)]


# --- modes [16] ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "opens"), [("persistent", True), ("incognito", True), ("temporary", True), ("eternal", False)]
)
def test_a_document_of_an_unknown_mode_is_closed(mode: str, opens: bool) -> None:
    assert Document(genesis("owner", mode=mode), MemoryIndex()).open is opens


# --- what the store is told ---------------------------------------------------------------------------------------


def test_rows_are_told_once() -> None:
    scene, _, _ = chat()
    peer = scene.peer()
    again = peer.document.changes()
    assert (again.stretches, again.groups, again.verdicts) == ([], [], [])
    assert again.heads == tuple(peer.document.heads)


def test_a_group_is_told_with_its_first_operation_and_not_when_somebody_asks_about_a_role() -> None:
    scene, given, _ = chat()
    peer = scene.peer()
    assert peer.document.access.role(key_of("lee").public) == "write"
    assert peer.document.changes().groups == []

    peer.document.receive([scene.write("lee", proof=given)], now=NOW, local=False)

    assert [(row.author, row.proof) for row in peer.document.changes().groups] == [(key_of("lee").public, given.id)]


def test_a_late_removal_tells_the_store_a_range_and_not_every_operation() -> None:
    scene, given, last = chat()
    for _ in range(50):
        scene.write("kim")
    other = scene.write("lee", proof=given)
    removal = scene.write("owner", verbs(revoke=["kim"]), after=[last])
    peer = scene.peer(scene.operations[:-1])

    received = peer.document.receive([removal], now=NOW, local=False)
    changes = peer.document.changes()

    assert received.rejudged
    assert [(verdict.stretch, verdict.limit) for verdict in changes.verdicts] == [tuple(peer.position(last))]
    assert peer.accepts(other)


def test_verdicts_hold_for_what_arrived_after_the_removal_in_the_same_commit() -> None:
    """A verdict is made when it is told: one made at the removal did not list what came in between."""
    scene, _, last = chat()
    removal = scene.write("owner", verbs(grant("kim", "write"), revoke=["kim"]), after=[last])
    peer = scene.peer(scene.operations[:-1])
    undo = scene.write("owner", verbs(admit=[last]))
    grab = create(scene, last, kind="access", head_bytes=verbs(grant("kim", "admin")), content=b"")
    new = []
    for operation in (removal, grab, undo):
        new.extend(peer.document.receive([operation], now=NOW, local=False).operations)

    peer.commit(new, peer.document.changes())

    stored = {item.operation.id: peer.index.accepted[item.operation.id] for item in new}
    assert stored == {removal.id: True, grab.id: False, undo.id: True}
    assert all(peer.accepts(item.operation) == stored[item.operation.id] for item in new)


def test_a_void_removal_or_admit_makes_nobody_judge_anew() -> None:
    """Whoever may write could else keep every peer busy."""
    scene, _, last = chat()
    peer = scene.peer()
    for head in (verbs(revoke=["owner", "lee"]), verbs(admit=[last])):
        assert not peer.document.receive([scene.write("kim", head)], now=NOW, local=False).rejudged


def test_what_waits_for_its_commit_is_found() -> None:
    scene, given, last = chat()
    peer = Peer(scene.genesis)
    peer.document.receive(scene.operations[1:], now=NOW, local=False)

    known = peer.document.known(last.id)

    assert peer.index.find(last.id) is None
    assert (known.time, known.kind, known.author) == (last.time, "entry", last.author)
    assert peer.document.id_at(known.position) == last.id
    assert peer.document.id_at(peer.document.known(given.id).position) == given.id


def test_what_is_stored_is_found_when_it_is_no_longer_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "RECENT_MAX", 3)
    scene, given, _ = chat()
    peer = scene.peer()
    for _ in range(30):
        peer.deliver([scene.write("lee", proof=given)])
    assert len(peer.document._recent) + len(peer.document._older) < 12
    assert peer.document.known(given.id) == peer.index.find(given.id)
    assert peer.document.id_at(peer.position(given)) == given.id
    assert peer.deliver([scene.write("kim", after=[given])]).operations[0].accepted


def test_what_waits_for_its_commit_stays_at_hand_however_much_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "RECENT_MAX", 3)
    scene, given, _ = chat()
    peer = scene.peer()
    waiting = [scene.write("lee", proof=given) for _ in range(30)]
    for operation in waiting:
        peer.document.receive([operation], now=NOW, local=False)
        peer.document.changes()

    assert [peer.document.find(operation.id) for operation in waiting].count(None) == 0


class Watched(MemoryIndex):
    """Notes what it is asked for."""

    def __init__(self, index: MemoryIndex) -> None:
        self.__dict__.update(index.__dict__)
        self.found: list[OperationId] = []
        self.loaded: list[int] = []

    def find(self, operation: OperationId) -> Known | None:
        self.found.append(operation)
        return super().find(operation)

    def merges(self, stretch: int) -> Iterable[tuple[int, tuple[Position, ...]]]:
        self.loaded.append(stretch)
        return super().merges(stretch)


def test_a_document_opens_without_looking_at_its_entries() -> None:
    scene, given, _ = chat()
    for _ in range(200):
        scene.write("kim")
        scene.write("lee", proof=given, after=[scene.operations[-1]])
    peer = scene.peer()
    before = image(peer.document)
    peer.index = watched = Watched(peer.index)

    peer.reopen()

    assert watched.found == list(peer.heads)
    assert watched.loaded == []
    assert image(peer.document) == before


def test_a_redact_is_remembered_so_that_others_need_not_be_looked_for() -> None:
    scene, _, last = chat()
    peer = scene.peer()
    assert not peer.document.has_redactions
    peer.deliver([scene.write("kim", canonical.pack({"target": last.id}), kind="redact")])
    assert peer.document.has_redactions
    peer.reopen()
    assert peer.document.has_redactions


def test_an_operation_whose_own_signature_was_not_checked_is_marked_so() -> None:
    scene, _, _ = chat()
    peer = scene.peer()
    one, other = scene.write("kim"), scene.write("kim")
    received = peer.document.receive([one, other], now=NOW, local=False, verified=frozenset([other.id]))
    assert [new.verified for new in received.operations] == [False, True]
    assert [new.local for new in received.operations] == [False, False]
    assert [new.arrived for new in received.operations] == [NOW, NOW]
