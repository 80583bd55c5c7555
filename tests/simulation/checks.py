"""What must hold when everything is well again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from roost.adapters.store.records import Row
from roost.core.have import Have
from roost.core.heads import RedactHead
from roost.core.ids import DocumentId, OperationId
from roost.core.operation import Operation
from roost.node.commands import registry
from roost.node.replica import Replica
from roost.node.transcript import Json
from roost.node.verification import verify_document
from tests.core.oracle import Oracle
from tests.simulation.machine import Machine
from tests.simulation.world import TICK_SECONDS_MAX, World, failures

COMMANDS = registry()
SETTLING_SECONDS_MAX: Final = 600.0
STEP_SECONDS: Final = 5.0
REUNION_SECONDS: Final = 40.0  # a broken link is noticed after 30; then it is found again
LOCAL_FIELDS: Final = frozenset(["odd_clock"])  # of an entry as shown: what depends on when it came


async def settle(world: World) -> None:
    """Wait until all members hold the same, then two rounds more, in which nothing may be sent again."""
    await world.heal()
    await asyncio.sleep(REUNION_SECONDS)
    world.right_clocks(144)  # what was said before, and was on its way, counted from the first time
    begun = world.loop.time()
    while not all(_is_equal(world, document) for document in world.documents):
        if world.loop.time() - begun > SETTLING_SECONDS_MAX:
            world.problems += [f"they never come to hold the same: {_differences(world)}"]
            return
        await asyncio.sleep(STEP_SECONDS)
    world.say("settled")
    await asyncio.sleep(TICK_SECONDS_MAX)  # what was sent and is on its way, or is asked for
    world.ended = True
    await asyncio.sleep(2 * TICK_SECONDS_MAX)
    if world.carried:
        world.problems.append(f"{world.carried} operations were sent again when all held the same")


def members(world: World, document: DocumentId) -> list[Machine]:
    """Who holds a document and may read it, as its founder sees it."""
    founder = world.machines[world.documents.index(document)]
    access = founder.peer.documents.get(document).document.access
    return [one for one in world.holders(document) if access.may_read(one.key.public)]


def _replica(machine: Machine, document: DocumentId) -> Replica:
    return machine.peer.documents.get(document)


def _have(machine: Machine, document: DocumentId) -> Have:
    return _replica(machine, document).holdings.have()


def _is_equal(world: World, document: DocumentId) -> bool:
    every = members(world, document)
    if any(_replica(one, document).document.liveness.parked for one in every):
        return False
    return len({_replica(one, document).holdings.digest() for one in every}) == 1


def _differences(world: World) -> str:
    told = []
    for document in world.documents:
        for one in members(world, document):
            parked = _replica(one, document).parked_count()
            count = one.peer.store.reader.document(document)
            held = 0 if count is None else count.operations
            told.append(f"{document.hex()[:4]} {one.name}: {held} operations, {parked} parked")
    links = [f"{a}-{b}" for a, b in world.network.links()]
    return "; ".join([*told, f"links {links}"])


# --- at rest --------------------------------------------------------------------------------------------------------


async def check(world: World) -> None:
    """Collect what does not hold in ``world.problems``."""
    world.problems += failures(world.doing)
    world.problems += world.loop.unhandled
    for document in world.documents:
        seen = [await Seen.at(one, document) for one in members(world, document)]
        first = seen[0]
        for other in seen[1:]:
            world.problems += _unequal(first, other)
        for one in seen:
            world.problems += _wrong(one)
        world.problems += _lost(world, document, seen)
        world.problems += _invented(world, document, first)
        world.problems += _judged(first)
        world.say(f"{document.hex()[:8]} {first.heads} {first.state}")


class Seen(Struct):
    """What a peer shows of a document."""

    name: str
    heads: list[OperationId]
    log: list[dict[str, Json]]
    state: dict[str, Json]
    rows: dict[OperationId, Row]
    sound: Json

    @classmethod
    async def at(cls, machine: Machine, document: DocumentId) -> Seen:
        """As its surfaces tell it, in the name of the process."""
        body, peer = machine.running.body, machine.peer

        async def look() -> Seen:
            arguments: dict[str, Json] = {"session": document.hex(), "all": True}
            log = [row async for row in COMMANDS["log"](peer, arguments)]
            state = await peer.states.json(document)
            verified = await verify_document(peer.store, document)
            replica = peer.documents.get(document)
            rows = {row.operation.id: row for row in _rows(replica, machine)}
            return cls(machine.name, replica.document.heads, log, state, rows, verified["ok"])

        return await body.start(look())


def _rows(replica: Replica, machine: Machine) -> list[Row]:
    ids = [
        identity
        for stretch in replica.document.graph.stretches.values()
        for identity in replica.ids_between(stretch.number, stretch.first, stretch.last)
    ]
    return machine.peer.store.reader.operations(ids)


def _unequal(one: Seen, other: Seen) -> list[str]:
    pair = f"{one.name} and {other.name}"
    found = []
    if one.heads != other.heads:
        found.append(f"{pair} have other heads")
    verdicts = [{identity: row.accepted for identity, row in seen.rows.items()} for seen in (one, other)]
    if verdicts[0] != verdicts[1]:
        found.append(f"{pair} judge differently")
    if _differ_in_erased(one, other):
        return found
    if _shown(one.log) != _shown(other.log):
        found.append(f"{pair} show another order or other entries")
    if one.state["automerge_heads"] != other.state["automerge_heads"]:
        found.append(f"{pair} have other Automerge heads {one.state} {other.state}")
    if one.state != other.state:
        found.append(f"{pair} have another state")
    return found


def _differ_in_erased(one: Seen, other: Seen) -> bool:
    """Whether a redact has turned void when one of them had erased the content already: that does not come back.

    The same set with the same contents gives the same state; here the contents are not the same.
    """
    gone = {
        row.operation.head.target
        for row in one.rows.values()
        if isinstance(row.operation.head, RedactHead) and not row.accepted
    }
    here = [{identity for identity, row in seen.rows.items() if row.operation.content is None} for seen in (one, other)]
    differing = here[0] ^ here[1]
    return bool(differing) and differing <= gone


def _shown(log: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    return [{name: value for name, value in row.items() if name not in LOCAL_FIELDS} for row in log]


def _wrong(seen: Seen) -> list[str]:
    """What can be told from one peer alone."""
    found = []
    if seen.sound is not True:
        found.append(f"{seen.name}: verify says it is not sound")
    void = {identity.hex() for identity, row in seen.rows.items() if not row.accepted}
    if any(row["id"] in void for row in seen.log):
        found.append(f"{seen.name} shows what is void")
    accepted = {i.hex() for i, row in seen.rows.items() if row.accepted and row.operation.kind == "entry"}
    if accepted - {row["id"] for row in seen.log}:
        found.append(f"{seen.name} does not show all that is accepted")
    return found


def _lost(world: World, document: DocumentId, seen: Sequence[Seen]) -> list[str]:
    """What was acknowledged is in the author's set, and in everybody's if the author is still a member."""
    found = []
    names = {one.name for one in seen}
    erased = {row.operation.head.target for row in seen[0].rows.values() if type(row.operation.head) is RedactHead}
    shown = Counter(str(row["content"]) for row in seen[0].log)
    removed = _removed(seen[0])
    for ack in world.acks:
        if ack.document != document:
            continue
        author = world.named(ack.machine)
        if author.peer.store.reader.operation(ack.id) is None:
            found.append(f"{ack.machine} lost {ack.id.hex()[:8]} ({ack.text}), which it had acknowledged")
        if ack.machine not in names:
            continue
        lacking = [one.name for one in seen if ack.id not in one.rows]
        found.extend(f"{name} has not got {ack.id.hex()[:8]} ({ack.text}) of {ack.machine}" for name in lacking)
        if author.key.public in removed or ack.text is None or ack.id in erased:
            continue
        if not shown[ack.text]:
            found.append(f"{ack.text} of {ack.machine} is not shown")
        if ack.key is not None and shown[ack.text] > 1 and not world.plan.odd_clocks:
            found.append(f"{ack.text} of {ack.machine} is shown {shown[ack.text]} times, although it has a key")
    return found


def _removed(seen: Seen) -> set[bytes]:
    return {
        key
        for row in seen.rows.values()
        if row.operation.kind == "access"
        for key in row.operation.head.revokes  # type: ignore[union-attr]  # of that kind
    }


def _invented(world: World, document: DocumentId, seen: Seen) -> list[str]:
    """In an honest peer's name there is only what it wrote itself, and committed before anybody saw it."""
    found = []
    for machine in world.machines:
        reader = machine.peer.store.reader
        for identity, row in seen.rows.items():
            if row.operation.author == machine.key.public:
                own = reader.operation(identity)
                if own is None or not own.local:
                    found.append(f"{identity.hex()[:8]} is in the name of {machine.name}, who did not write it")
    return found


def _judged(seen: Seen) -> list[str]:
    """The access rule by brute force agrees."""
    operations: list[Operation] = sorted(
        (row.operation for row in seen.rows.values()), key=lambda one: (one.time, one.id)
    )
    if any(parent not in seen.rows for one in operations for parent in one.parents):
        return [f"{seen.name} holds an operation without its parents"]
    oracle = Oracle(operations)
    verdicts = oracle.judge((1 << len(operations)) - 1)
    found = []
    if verdicts.accepted != {identity for identity, row in seen.rows.items() if row.accepted}:
        found.append(f"{seen.name}: other verdicts than by the rule")
    if list(verdicts.heads) != seen.heads:
        found.append(f"{seen.name}: other heads than by the rule")
    return found
