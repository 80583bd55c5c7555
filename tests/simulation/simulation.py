"""One schedule from its seed to its verdict."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from tests.simulation import checks
from tests.simulation.plan import Plan
from tests.simulation.story import live
from tests.simulation.world import World


class Outcome(Struct):
    """``trace`` is the hash of all that was sent and of all that was done."""

    seed: int
    trace: str
    problems: list[str]
    fired: Counter[str]
    refused: Counter[str]
    story: list[str]
    operations: int
    acknowledged: int
    frames: int
    members: int
    seconds: float  # virtual


async def _whole(world: World) -> None:
    await live(world)
    await checks.settle(world)
    if not world.problems:
        await checks.check(world)


def simulate(seed: int) -> Outcome:
    """Run the schedule of a seed."""
    world = World(Plan.of(seed))
    counted = [0, 0]

    async def story(world: World) -> None:
        await _whole(world)
        for document in world.documents:
            rows = [one.peer.store.reader.document(document) for one in checks.members(world, document)]
            counted[0] += sum(row.operations for row in rows[:1] if row is not None)
            counted[1] += len(rows)

    world.run(story)
    return Outcome(
        seed, world.trace, world.problems, world.fired, world.refused, world.story, counted[0], len(world.acks),
        world.frames, counted[1], world.loop.time(),
    )  # fmt: skip
