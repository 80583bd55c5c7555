"""One history, delivered to a peer in some order, and compared with the oracle after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from roost.core.document import Document
from roost.core.ids import OperationId, PeerKey
from roost.core.operation import Operation
from tests.core.model import Peer, Scene
from tests.core.oracle import Oracle, Verdicts
from tests.core.world import History

AfterStep = Callable[[Peer], Peer]


def replay(history: History, oracle: Oracle, chance: Random, after_step: AfterStep | None = None) -> Peer:
    """Deliver everything in random batches, in any order, opening the document anew now and then.

    ``after_step`` may put another peer in place of the one that just received; then nothing is compared.
    """
    peer = Peer(history.genesis)
    given = {history.genesis.id}
    left = list(history.operations[1:])
    if chance.random() < 0.8:
        _shuffle(left, chance)
    while left:
        size = chance.choice([1, 1, 2, 3, 5, 8, 20])
        batch, left = left[:size], left[size:]
        given.update(operation.id for operation in batch)
        received = peer.deliver(batch)
        assert received.refused == []
        if after_step is not None:
            peer = after_step(peer)
            continue
        compare(peer, oracle, _complete(given, oracle))
        if chance.random() < 0.2:
            _compare_reopened(peer, keep=chance.random() < 0.7)
    assert after_step or peer.waiting == []
    return peer


def lost(peer: Peer, oracle: Oracle) -> frozenset[OperationId]:
    """What counts by the rule, all operations having been delivered, and does not on this peer."""
    verdicts = oracle.judge((1 << len(oracle.operations)) - 1)
    return verdicts.accepted - {operation.id for operation in peer.arrived if peer.accepts(operation)}


def _shuffle(operations: list[Operation], chance: Random) -> None:
    """Any order, or one in which single operations come much later, or authors come one after another."""
    style = chance.randrange(3)
    if style == 0:
        chance.shuffle(operations)
    elif style == 1:
        late = {
            operation.id: chance.random() * (len(operations) if chance.random() < 0.2 else 5)
            for operation in operations
        }
        places = {operation.id: place + late[operation.id] for place, operation in enumerate(operations)}
        operations.sort(key=lambda operation: places[operation.id])
    else:
        turns = {author: chance.random() for author in sorted({operation.author for operation in operations})}
        operations.sort(key=lambda operation: turns[operation.author])


def _complete(given: set[OperationId], oracle: Oracle) -> int:
    """The operations given so far that have all their ancestors: what must be in the set, whatever came first."""
    mask = 0
    for number, operation in enumerate(oracle.operations):
        if operation.id in given and oracle.past[number] & ~mask == 0:
            mask |= 1 << number
    return mask


def compare(peer: Peer, oracle: Oracle, mask: int, held_back: int = 0) -> Verdicts:
    """Whether the peer holds exactly this set, and draws from it, without what it holds back, what the oracle does."""
    verdicts = oracle.judge(mask & ~held_back)
    stored = [oracle.operations[number] for number in oracle.members(mask)]
    assert peer.index.operations.keys() == {operation.id for operation in stored}, "the set"
    accepted = {identity for identity, stands in peer.index.accepted.items() if stands}
    assert accepted == verdicts.accepted, "what the store holds as accepted"
    assert {operation.id for operation in stored if peer.accepts(operation)} == verdicts.accepted, "accepted"
    assert peer.document.heads == list(verdicts.heads), "heads"
    assert peer.heads == verdicts.heads, "heads as stored"
    assert {operation.id for operation in stored if peer.is_live(operation)} == verdicts.live, "live"
    roles = {key: role for key in map(PeerKey, _keys(oracle)) if (role := peer.document.access.role(key))}
    assert roles == verdicts.roles, "roles"
    return verdicts


def _keys(oracle: Oracle) -> set[bytes]:
    keys: set[bytes] = {oracle.owner, oracle.creator}
    for head in oracle.access.values():
        keys.update(grant.key for grant in head.grants)
    return keys


def _compare_reopened(peer: Peer, *, keep: bool) -> None:
    """Whether a document opened from the rows is like the one that wrote them; go on with either."""
    live = peer.document
    before = image(live)
    peer.reopen()
    assert image(peer.document) == before, "opened anew"
    if not keep:
        peer.document = live


def image(document: Document) -> dict[str, object]:
    """What two documents with the same rows must have in common."""
    return {
        "heads": document.heads,
        "frontier": document.liveness.frontier,
        "positions": sorted(document.liveness.heads),
        "parked": document.liveness.parked,
        "runs": {number: document.runs.of(number) for number in document.graph.stretches},
        "ends": {number: (stretch.first, stretch.last) for number, stretch in document.graph.stretches.items()},
        "access": {identity: operation.accepted for identity, operation in document.access.operations.items()},
        "members": sorted(document.access.members()),
        "redactions": document.has_redactions,
    }


def count(history: History, oracle: Oracle, verdicts: Verdicts) -> Counter[str]:
    """How much of what matters occurs in a history."""
    found: Counter[str] = Counter(histories=1, operations=len(history.operations))
    found["void"] = len(history.operations) - len(verdicts.accepted)
    found["live but void"] = len(verdicts.live - verdicts.accepted)
    places = Counter((operation.author, operation.log, operation.seq) for operation in history.operations)
    found["forked logs"] = len({(author, log) for (author, log, _), times in places.items() if times > 1})
    for number, head in oracle.access.items():
        if history.operations[number].id not in verdicts.accepted:
            continue
        found["grants"] += bool(head.grants)
        found["revokes"] += bool(head.revokes)
        found["lowerings"] += bool({grant.key for grant in head.grants} & set(head.revokes))
        found["re-grants"] += any(
            grant.key in earlier.revokes and oracle.past[number] >> other & 1
            for grant in head.grants
            for other, earlier in oracle.access.items()
            if oracle.operations[other].id in verdicts.accepted
        )
        found["admits"] += bool(head.admits)
    oracle.admits_count = False
    found["admitted again"] = len(verdicts.accepted - oracle.judge((1 << len(history.operations)) - 1).accepted)
    oracle.admits_count = True
    return found


def judged(operations: Sequence[Operation]) -> tuple[Oracle, Verdicts]:
    oracle = Oracle(operations)
    return oracle, oracle.judge((1 << len(operations)) - 1)


def peer_of(scene: Scene) -> Peer:
    """A peer that holds the whole scene; in every order of arrival it must come to the same."""
    oracle, _ = judged(scene.operations)
    history = History(0, tuple(scene.operations))
    peer = Peer(scene.genesis)
    peer.deliver(scene.operations[1:])
    compare(peer, oracle, (1 << len(scene.operations)) - 1)
    for seed in range(6):
        replay(history, oracle, Random(seed))
    return peer


def accepted(scene: Scene, *operations: Operation) -> list[bool]:
    peer = peer_of(scene)
    return [peer.accepts(operation) for operation in operations]
