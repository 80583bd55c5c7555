"""Which operations are live (accepted, or an ancestor of something accepted), and which are the heads.

The live operations are a frontier, and the heads are the accepted operations without a live child. One more accepted
operation is O(its parents); after a late removal everything is found again from the accepted end of each stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from roost.core.access import EVERYTHING, Access, Parked
from roost.core.graph import Frontier, Graph, Position, Stretch
from roost.core.ids import OperationId


class Names(Protocol):
    def id_at(self, position: Position) -> OperationId: ...


class Runs:
    """Which group wrote which part of a stretch: (first seq, group), ascending. A log rarely changes its proof."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._runs: dict[int, list[tuple[int, int]]] = {}
        self._stretches: dict[int, dict[int, None]] = {}  # group -> the stretches that it wrote in, as an ordered set

    def restore(self, stretch: int, runs: Iterable[tuple[int, int]]) -> None:
        self._runs[stretch] = list(runs)
        for _, group in self._runs[stretch]:
            self._remember(stretch, group)

    def note(self, position: Position, group: int) -> None:
        runs = self._runs.setdefault(position.stretch, [])
        if not runs or runs[-1][1] != group:
            runs.append((position.seq, group))
            self._remember(position.stretch, group)

    def _remember(self, stretch: int, group: int) -> None:
        self._stretches.setdefault(group, {})[stretch] = None

    def of(self, stretch: int) -> tuple[tuple[int, int], ...]:
        return tuple(self._runs.get(stretch, ()))

    def groups_on(self, stretch: int) -> set[int]:
        return {group for _, group in self._runs.get(stretch, ())}

    def stretches_of(self, group: int) -> list[int]:
        return list(self._stretches.get(group, ()))

    def accepted_end(self, stretch: Stretch, below: int) -> Position | None:
        """The last accepted operation of a stretch with a seq under ``below``."""
        end = min(stretch.last, below - 1)
        for first, number in reversed(self._runs.get(stretch.number, ())):
            if first <= end:
                found = self._accepted_in(stretch.number, number, first, end)
                if found is not None:
                    return Position(stretch.number, found)
                end = first - 1
        return None

    def _accepted_in(self, stretch: int, number: int, first: int, end: int) -> int | None:
        group = self._access.by_number[number]
        limit = self._access.limit(group, stretch)
        admitted = [seq for seq in self._access.admitted_above(group, stretch, limit) if first <= seq <= end]
        if admitted:
            return admitted[-1]
        found = min(end, limit)
        insufficient = set(self._access.insufficient(group, stretch))
        while found in insufficient:
            found -= 1
        return found if found >= first else None


class Liveness:
    """The live frontier and the heads of one document, and what this peer holds back for jumping ahead of time."""

    def __init__(self, graph: Graph, runs: Runs, parked: Parked) -> None:
        self._graph = graph
        self._runs = runs
        self.frontier: Frontier = {}
        self.heads: dict[Position, OperationId] = {}
        self.parked = parked
        self._changed: set[int] = set()

    def restore(self, stretch: int, live: int, parked_from: int | None, parked_until: int) -> None:
        if live >= 0:
            self.frontier[stretch] = live
        if parked_from is not None:
            self.parked[stretch] = (parked_from, parked_until)

    def drain_changed(self) -> set[int]:
        """Stretches whose live part changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def accept(self, position: Position, identity: OperationId, deps: tuple[Position, ...]) -> None:
        """One more accepted operation, all of whose parents are in the graph."""
        number, seq = position
        stretch = self._graph.stretches[number]
        frontier = self.frontier
        before = stretch.base if seq == stretch.first else Position(number, seq - 1)
        parents = deps if before is None else (before, *deps)
        for above, at in parents:
            if frontier.get(above, -1) < at:
                self._cover(position)
                break
        else:
            frontier[number] = seq
            for parent in parents:
                self.heads.pop(parent, None)
        self._changed.add(number)
        self.heads[position] = identity

    def _cover(self, position: Position) -> None:
        """Make void ancestors live; heads among what they name, or below them, are heads no longer."""
        before = dict(self.frontier)
        met: set[tuple[int, int]] = set()
        self._graph.extend(self.frontier, position, lambda stretch, seq: met.add((stretch, seq)))
        self._changed.update(stretch for stretch, seq in self.frontier.items() if before.get(stretch, -1) != seq)
        self.heads = {
            head: identity
            for head, identity in self.heads.items()
            if head not in met and self.frontier.get(head.stretch, -1) <= head.seq
        }

    def rebuild(self, names: Names) -> None:
        """Find everything again from the verdicts."""
        ends = [
            end
            for stretch in self._graph.stretches.values()
            if (end := self._runs.accepted_end(stretch, self.parked.get(stretch.number, (EVERYTHING, 0))[0]))
        ]
        candidates = set(ends)
        inner: set[tuple[int, int]] = set()
        frontier: Frontier = {}

        def met(stretch: int, seq: int) -> None:
            if (stretch, seq) in candidates:
                inner.add((stretch, seq))

        for end in ends:
            self._graph.extend(frontier, end, met)
        heads = [end for end in ends if frontier[end.stretch] == end.seq and end not in inner]
        numbers = frontier.keys() | self.frontier.keys()
        self._changed.update(n for n in numbers if frontier.get(n, -1) != self.frontier.get(n, -1))
        self.frontier = frontier
        self.heads = {head: self.heads.get(head) or names.id_at(head) for head in heads}

    # --- parked -----------------------------------------------------------------------------------------------------

    def is_parked(self, position: Position) -> bool:
        held = self.parked.get(position.stretch)
        return held is not None and position.seq >= held[0]

    def park(self, position: Position, until: int) -> set[int]:
        """Hold back an operation and all that descends from it; return the stretches concerned."""
        self._hold(position, until)
        return {position.stretch} | self._spread()

    def unpark(self, now: int) -> set[int]:
        """Take back what was to be held back until now; return the stretches concerned."""
        due = {stretch for stretch, (_, until) in self.parked.items() if until <= now}
        for stretch in due:
            del self.parked[stretch]
        return due | self._spread() if due else due

    def park_with(self, position: Position, parents: Iterable[Position]) -> None:
        """Hold a new operation back if one of its parents is."""
        untils = [self.parked[parent.stretch][1] for parent in parents if self.is_parked(parent)]
        if untils:
            self._hold(position, max(untils))

    def _hold(self, position: Position, until: int) -> bool:
        """Whether this holds back more, or for longer, than before."""
        before = self.parked.get(position.stretch, (EVERYTHING, 0))
        self.parked[position.stretch] = (min(before[0], position.seq), max(until, before[1]))
        return before != self.parked[position.stretch]

    def _spread(self) -> set[int]:
        """Hold back the descendants of what is held back, as long as that; return the stretches concerned."""
        changed: set[int] = set()
        grown = bool(self.parked)
        while grown:
            grown = False
            for stretch in self._graph.stretches.values():
                for seq, parents in self._ties(stretch):
                    untils = [self.parked[parent.stretch][1] for parent in parents if self.is_parked(parent)]
                    if untils and self._hold(Position(stretch.number, seq), max(untils)):
                        changed.add(stretch.number)
                        grown = True
        return changed

    def _ties(self, stretch: Stretch) -> Iterator[tuple[int, tuple[Position, ...]]]:
        """(seq, parents on other stretches) of what ties a stretch to others."""
        if stretch.base is not None:
            yield stretch.first, (stretch.base,)
        yield from self._graph.merges_of(stretch).items()
