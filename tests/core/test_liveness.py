"""Live operations, heads, and what a peer holds back for a while."""

from __future__ import annotations

from roost.core.graph import Position
from tests.core.model import NOW, Peer, Scene, grant, verbs

SOON, LATER = NOW + 10, NOW + 20


def heads_of(peer: Peer, scene: Scene) -> list[int]:
    """Places in the scene of the heads."""
    return [place for place, operation in enumerate(scene.operations) if operation.id in peer.document.heads]


def test_a_head_is_what_is_accepted_and_has_no_live_child() -> None:
    scene = Scene("owner")
    one = scene.write("owner", log="1")
    two = scene.write("owner", log="2")
    peer = scene.peer()
    assert peer.document.heads == sorted([one.id, two.id])

    join = scene.write("owner", b"\x80", kind="join", after=[two], log="1")
    peer.deliver([join])

    assert peer.document.heads == [join.id]


def test_a_void_child_takes_no_head_away_until_something_accepted_builds_on_it() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    void = scene.write("eve", after=[given])
    peer = scene.peer()
    assert peer.document.heads == [given.id]
    assert not peer.is_live(void)

    answer = scene.write("kim", after=[void], proof=given)
    peer.deliver([answer])

    assert peer.document.heads == [answer.id]
    assert peer.is_live(void)


def test_a_head_deep_below_void_operations_is_no_head_when_they_become_live() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    other = scene.write("owner", log="2")
    stem = scene.write("eve", after=[given])
    last = [scene.write("eve") for _ in range(3)][-1]
    branch = scene.write("eve", back=stem, after=[other])
    peer = scene.peer()
    assert heads_of(peer, scene) == [1, 2]

    peer.deliver([scene.write("kim", after=[last], proof=given)])
    assert heads_of(peer, scene) == [2, len(scene.operations) - 1]

    peer.deliver([scene.write("kim", log="2", after=[branch], proof=given)])
    assert len(peer.document.heads) == 2
    assert other.id not in peer.document.heads


def test_only_stretches_whose_live_part_changed_are_written_again() -> None:
    scene = Scene("owner")
    scene.write("owner", verbs(grant("kim", "write")))
    for number in range(5):
        scene.write("owner", log=f"quiet {number}")
    peer = scene.peer()
    void = scene.write("eve", after=scene.operations[-1:])
    peer.document.receive([void], now=NOW, local=False)
    touched = peer.document.changes().stretches

    assert [(row.log.log, row.live) for row in touched] == [(void.log, -1)]


# --- held back [11; failing case 7] -------------------------------------------------------------------------------


def test_what_is_held_back_is_no_head_with_all_that_descends_from_it_until_its_time() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    jumped = scene.write("owner")
    after = scene.write("owner")
    answer = scene.write("kim", proof=given, after=[after])
    peer = scene.peer()

    peer.park(jumped, SOON)
    assert peer.document.heads == [given.id]
    assert [peer.accepts(operation) for operation in (given, jumped, after, answer)] == [True, False, False, False]
    assert [peer.index.accepted[operation.id] for operation in (jumped, after, answer)] == [False] * 3

    peer.unpark(SOON - 1)
    assert peer.document.heads == [given.id]
    peer.unpark(SOON)
    assert peer.document.heads == [answer.id]
    assert peer.index.accepted[answer.id]
    assert peer.document.liveness.parked == {}


def test_what_arrives_upon_something_held_back_is_held_back_too() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    jumped = scene.write("owner")
    peer = scene.peer()
    peer.park(jumped, SOON)
    late = [scene.write("kim", proof=given, after=[jumped]), scene.write("kim"), scene.write("owner")]

    received = peer.deliver(late)

    assert [new.accepted for new in received.operations] == [False] * 3
    assert peer.document.heads == [given.id]
    peer.unpark(SOON)
    assert peer.document.heads == sorted([late[1].id, late[2].id])


def test_what_rests_on_two_is_held_back_until_the_later_of_their_times() -> None:
    scene = Scene("owner")
    one, other = scene.write("owner", log="1"), scene.write("owner", log="2")
    upon = scene.write("owner", log="3", after=[one, other])
    peer = scene.peer()
    peer.park(one, SOON)
    peer.park(other, LATER)
    peer.park(one, SOON)

    peer.unpark(SOON)
    assert [peer.accepts(operation) for operation in (one, other, upon)] == [True, False, False]

    peer.park(one, LATER + 10)
    peer.unpark(LATER)
    assert [peer.accepts(operation) for operation in (one, other, upon)] == [False, True, False]
    peer.unpark(LATER + 10)
    assert peer.accepts(upon)


def test_a_removal_that_is_held_back_removes_nobody_yet() -> None:
    """Others have not got it: until it is sent again from a new log, this peer would judge by itself."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    removal = scene.write("owner", verbs(grant("lee", "admin"), revoke=["kim"]))
    words = scene.write("kim", proof=given)
    peer = scene.peer()
    assert not peer.accepts(words)

    peer.park(removal, SOON)
    assert peer.accepts(words)
    assert peer.index.accepted[words.id]
    assert peer.document.access.role(words.author) == "write"
    assert [proof for proof, _ in peer.document.access.held(scene.genesis.author)] == [scene.genesis.id]

    peer.unpark(SOON)
    assert not peer.accepts(words)
    assert not peer.index.accepted[words.id]


def test_what_is_held_back_stays_so_over_a_restart() -> None:
    scene = Scene("owner")
    first = scene.write("owner")
    jumped = scene.write("owner")
    peer = scene.peer()
    peer.park(jumped, SOON)

    peer.reopen()

    assert peer.document.heads == [first.id]
    assert peer.document.liveness.is_parked(peer.position(jumped))
    peer.unpark(SOON)
    assert peer.document.heads == [jumped.id]


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_log_that_changes_its_proof_is_judged_part_by_part() -> None:
    scene = Scene("owner")
    first = scene.write("owner", verbs(grant("ann", "admin"), grant("kim", "write")))
    under_first = [scene.write("kim", proof=first), scene.write("kim")]
    second = scene.write("ann", verbs(grant("kim", "write")), proof=first)
    under_second = [scene.write("kim", proof=second), scene.write("kim")]
    back_under_first = scene.write("kim", proof=first)
    peer = scene.peer()
    stretch = peer.position(back_under_first).stretch
    assert [seq for seq, _ in peer.document.runs.of(stretch)] == [0, 2, 4]

    peer.deliver([scene.write("owner", verbs(revoke=["ann"]), after=[first])])  # and so the second grant is void

    verdicts = [peer.accepts(operation) for operation in (*under_first, *under_second, back_under_first)]
    assert verdicts == [True, True, False, False, True]
    runs, live = peer.document.runs, peer.document.graph.stretches[stretch]
    assert runs.accepted_end(live, below=99) == Position(stretch, 4)
    assert runs.accepted_end(live, below=4) == Position(stretch, 1)
    assert runs.accepted_end(live, below=0) is None
