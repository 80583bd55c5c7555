"""Random histories with forked logs, over links that lose, double and reorder frames: all end with the same."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from roost.core.operation import Operation
from tests.core.sync_story import Story, quiet
from tests.core.sync_world import Faults, World

SEEDS = 60


class Schedule:
    """Acts drawn from a seed. Mal writes one log on all peers at once, so it forks everywhere."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.story = Story()
        self.names = ("ann", "bob", "cid")[: self.chance.choice([2, 3, 3])]
        self.world = self.story.world({name: [] for name in self.names}, seed=seed)
        self.acts: Counter[str] = Counter()

    def run(self, acts: int) -> World:
        for _ in range(acts):
            act = self.chance.choice(
                [self._write, self._write, self._fork, self._burst, self._carry, self._carry, self._link]
            )
            act()
            self.acts[act.__name__] += 1
            if self.chance.random() < 0.1:
                self.world.tick()
            if self.chance.random() < 0.2:
                self.world.faults = Faults(*(self.chance.choice([0, 0, 10, 40]) for _ in range(3)))
        self.world.faults = Faults()
        for one, other in zip(self.names, self.names[1:], strict=False):
            if other not in self.world[one].machines or self.chance.random() < 0.2:
                self.world.link(one, other)
        return self.world

    def _peer(self) -> str:
        return self.chance.choice(self.names)

    def _held(self, name: str, log: str) -> list[Operation]:
        log_id = self.story.log_id(log)
        held = self.world[name].index.operations.values()
        return [new.operation for new in held if new.operation.log == log_id]

    def _write(self) -> None:
        name = self._peer()
        self._append(name, name, self._held(name, f"{name} own")[-1:], "own")

    def _fork(self) -> None:
        name = self._peer()
        log = self.chance.choice(["1", "2"])
        held = self._held(name, f"mal {log}")
        self._append(name, "mal", self.chance.sample(held, 1) if held and self.chance.random() < 0.9 else [], log)

    def _burst(self) -> None:
        if self.chance.random() < 0.2:
            name = self._peer()
            for _ in range(self.chance.randrange(5, 60)):
                self._append(name, name, self._held(name, f"{name} own")[-1:], "own")

    def _append(self, name: str, author: str, back: list[Operation], log: str) -> None:
        held = [new.operation for new in self.world[name].index.operations.values()]
        after = self.chance.sample(held, min(len(held), self.chance.choice([0, 0, 1, 3])))
        self.story.forget_tip(author, log)
        made = self.story.write(
            author,
            log=log,
            back=back[0] if back else None,
            proof=self.story.granted,
            after=[one for one in after if one not in back],
        )
        if made.id not in self.world[name].holds():
            self.world.write(name, made)

    def _carry(self) -> None:
        self.world.deliver(self.chance.randrange(1, 12))

    def _link(self) -> None:
        one, other = self.chance.sample(self.names, 2)
        if self.chance.random() < 0.3:
            self.world.cut(one, other)
        else:
            self.world.link(one, other)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_linked_peers_come_to_hold_the_same_and_fall_silent(seed: int) -> None:
    schedule = Schedule(seed)
    world = schedule.run(acts=60)
    world.until_equal()
    tips = {name: world[name].holdings.have() for name in schedule.names}
    assert len(set(tips.values())) == 1
    assert world["ann"].holds() == {one.id for one in schedule.story.operations}
    quiet(world)


def test_the_schedules_fork_logs_and_lose_frames() -> None:
    forks = branches = 0
    for seed in range(20):
        world = Schedule(seed).run(acts=60)
        graph = world["ann"].holdings.graph
        forks += sum(graph.forked(log) for log in graph.logs)
        branches = max(branches, *(len(numbers) for numbers in graph.logs.values()))
    assert forks >= 10
    assert branches >= 4


@pytest.mark.parametrize("seed", range(20))
def test_without_faults_nothing_travels_twice_over_a_link(seed: int) -> None:
    schedule = Schedule(seed)
    chance = schedule.chance
    story = schedule.story
    holds: dict[str, list[Operation]] = {"ann": [], "bob": []}
    for _ in range(chance.randrange(1, 60)):
        author, log = chance.choice([("mal", "1"), ("mal", "2"), ("ann", "1"), ("bob", "1")])
        name = chance.choice(["ann", "bob"])
        mine = [one for one in holds[name] if one.log == story.log_id(f"{author} {log}")]
        story.forget_tip(author, log)
        made = story.write(author, log=log, back=chance.choice(mine) if mine else None, proof=story.granted)
        holds[name].append(made)
        if chance.random() < 0.3 and (made.backlink is None or made.backlink in {one.id for one in holds["bob"]}):
            holds["bob"].append(made)
    world = story.world(holds, ("ann", "bob"), seed=seed)
    lacking = {
        "ann": len(world["ann"].holds() - world["bob"].holds()),
        "bob": len(world["bob"].holds() - world["ann"].holds()),
    }
    world.settle()
    assert world.equal()
    assert dict(world.carried()) == {name: count for name, count in lacking.items() if count}
