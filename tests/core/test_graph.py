"""Stretches, frontiers and chains, compared with plain sets over random forked logs."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from roost.core.graph import Graph, LogKey, Merges, Position
from roost.core.ids import LogId, PeerKey


def log(name: str) -> LogKey:
    return LogKey(PeerKey(name.encode()), LogId(b"1"))


class Plain:
    """The same operations as a graph, kept as sets: what each has among its ancestors, itself included."""

    def __init__(self) -> None:
        self.merges: dict[int, list[tuple[int, tuple[Position, ...]]]] = {}
        self.loads: list[int] = []
        self.graph = Graph(self._load)
        self.ancestors: dict[Position, set[Position]] = {}
        self.back: dict[Position, Position | None] = {}
        self.logs: dict[Position, LogKey] = {}
        self.children: dict[Position, set[Position]] = {}

    def _load(self, stretch: int) -> Iterable[tuple[int, tuple[Position, ...]]]:
        self.loads.append(stretch)
        return self.merges.get(stretch, ())

    def add(self, key: LogKey, back: Position | None, deps: tuple[Position, ...] = ()) -> Position:
        seq = 0 if back is None else back.seq + 1
        stretch = None if back is None else self.graph.stretches[back.stretch]
        if stretch is not None and back is not None and stretch.last == back.seq:
            stretch.last = seq
        else:
            stretch = self.graph.start(len(self.graph.stretches), key, back, seq)
        position = Position(stretch.number, seq)
        if deps:
            stretch.merges.append(seq, deps)
            self.merges.setdefault(stretch.number, []).append((seq, deps))
        parents = deps if back is None else (back, *deps)
        self.ancestors[position] = {position}.union(*(self.ancestors[parent] for parent in parents))
        self.back[position] = back
        self.logs[position] = key
        if back is not None:
            self.children.setdefault(back, set()).add(position)
        return position

    def chain(self, position: Position) -> set[Position]:
        found = {position}
        while (before := self.back[position]) is not None:
            found.add(before)
            position = before
        return found

    def reopened(self) -> Graph:
        """The graph as it is restored from a store."""
        graph = Graph(self._load)
        for number, stretch in self.graph.stretches.items():
            graph.restore(type(stretch)(number, stretch.log, stretch.base, stretch.first, stretch.last))
        return graph


def grown(seed: int, size: int = 40) -> Plain:
    """Three authors, one log each, which they fork as they like, also at the very first operation."""
    chance, plain = Random(seed), Plain()
    for _ in range(size):
        key = log(chance.choice("abc"))
        own = [position for position, owner in plain.logs.items() if owner == key]
        others = [position for position, owner in plain.logs.items() if owner != key]
        back = chance.choice([own[-1], chance.choice(own)]) if own and chance.random() < 0.95 else None
        deps = tuple(sorted(chance.sample(others, min(len(others), chance.choice([0, 0, 1, 2])))))
        plain.add(key, back, deps)
    return plain


SEEDS = range(60)


def test_a_frontier_covers_exactly_the_ancestors() -> None:
    for seed in SEEDS:
        plain = grown(seed)
        for graph in (plain.graph, plain.reopened()):
            for position, expected in plain.ancestors.items():
                frontier = graph.ancestors(position)
                covered = {p for p in plain.ancestors if frontier.get(p.stretch, -1) >= p.seq}
                assert covered == expected


def test_a_frontier_that_is_extended_covers_the_ancestors_of_both() -> None:
    for seed in SEEDS:
        plain, chance = grown(seed), Random(seed)
        for _ in range(20):
            one, other = chance.choice(list(plain.ancestors)), chance.choice(list(plain.ancestors))
            met: set[tuple[int, int]] = set()
            frontier = plain.graph.ancestors(one)
            plain.graph.extend(frontier, other, lambda stretch, seq, met=met: met.add((stretch, seq)))  # type: ignore[misc]
            covered = {p for p in plain.ancestors if frontier.get(p.stretch, -1) >= p.seq}
            assert covered == plain.ancestors[one] | plain.ancestors[other]
            fresh = covered - plain.ancestors[one]
            named = {
                parent
                for p in fresh
                for parent in covered
                if p in plain.children.get(parent, ()) and parent.stretch != p.stretch
            }
            named |= {
                dep
                for s, merges in plain.merges.items()
                for seq, deps in merges
                if Position(s, seq) in fresh
                for dep in deps
            }
            assert met == named


def test_a_chain_leads_down_the_backlinks_and_nowhere_else() -> None:
    for seed in SEEDS:
        plain = grown(seed)
        for tip in plain.ancestors:
            chain = plain.chain(tip)
            assert {p for p in plain.ancestors if plain.graph.on_chain(p, tip)} == chain
            assert all(part in chain for part in plain.graph.chain(tip))


def test_the_tips_of_a_log_are_the_ends_of_its_branches() -> None:
    for seed in SEEDS:
        plain = grown(seed)
        for name in "abc":
            expected = {p for p, key in plain.logs.items() if key == log(name) and not plain.children.get(p)}
            assert set(plain.graph.tips(log(name))) == expected
            places = [p.seq for p, key in plain.logs.items() if key == log(name)]
            assert plain.graph.forked(log(name)) == (len(places) != len(set(places)))


def test_the_last_sibling_is_the_last_on_the_chain_whose_backlink_has_another_live_child() -> None:
    for seed in SEEDS:
        plain, chance = grown(seed), Random(seed)
        chosen = chance.sample(list(plain.ancestors), 6)
        live = set().union(*(plain.ancestors[position] for position in chosen))
        frontier: dict[int, int] = {}
        for position in chosen:
            plain.graph.extend(frontier, position)
        for position in live:
            expected = None
            for part in sorted(plain.chain(position), key=lambda p: p.seq):
                twins = {p for p in live if plain.back[p] == plain.back[part] and plain.logs[p] == plain.logs[part]}
                if len(twins) > 1:
                    expected = part
            assert plain.graph.last_sibling(position, frontier) == expected


def test_a_store_is_asked_for_the_merges_of_a_stretch_once_and_only_when_a_walk_needs_them() -> None:
    plain = Plain()
    a = plain.add(log("a"), None)
    b = plain.add(log("b"), None, (a,))
    alone = plain.add(log("c"), None)
    graph = plain.reopened()
    assert plain.loads == []

    graph.ancestors(b)
    graph.ancestors(b)

    assert sorted(plain.loads) == [a.stretch, b.stretch]
    assert alone.stretch not in plain.loads


def test_merges_that_came_after_opening_stand_after_those_of_the_store() -> None:
    plain = Plain()
    a = plain.add(log("a"), None)
    b = plain.add(log("b"), None, (a,))
    c = plain.add(log("c"), None)
    graph = plain.reopened()
    stretch = graph.stretches[b.stretch]
    stretch.last = 1
    stretch.merges.append(1, (c,))
    plain.merges[b.stretch].append((1, (c,)))  # it has been committed by the time of the first walk

    assert graph.ancestors(Position(b.stretch, 1)) == {a.stretch: 0, b.stretch: 1, c.stretch: 0}
    assert [seq for seq, _ in graph.merges_of(stretch).items()] == [0, 1]


@pytest.mark.parametrize("first", [0, 1, 4, 5, 9, 10])
def test_merges_can_be_cut_from_a_seq_on(first: int) -> None:
    merges = Merges()
    kept = []
    for seq in (1, 4, 9):
        deps = (Position(7, seq), Position(8, seq))
        merges.append(seq, deps)
        if seq < first:
            kept.append((seq, deps))
    merges.truncate(first)
    assert list(merges.items()) == kept
    merges.append(10, (Position(7, 10),))
    assert list(merges.items()) == [*kept, (10, (Position(7, 10),))]
    assert list(merges.deps_between(9, 10)) == [(7, 10)]
    assert list(merges.deps_between(10, 99)) == []
