"""Sets of operations by where they stand: runs of seqs on stretches, so that 100,000 in a row cost as much as 10."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from roost.core.graph import Position


class Range(NamedTuple):
    """The operations of one stretch from ``low`` to ``high``, both included."""

    stretch: int
    low: int
    high: int


class Ranges:
    """A set of positions that grows and shrinks by ranges."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._runs: dict[int, list[tuple[int, int]]] = {}  # ascending, apart by at least one seq
        self.update(ranges)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __iter__(self) -> Iterator[Range]:
        for stretch, runs in self._runs.items():
            for low, high in runs:
                yield Range(stretch, low, high)

    def __contains__(self, position: Position) -> bool:
        return any(low <= position.seq <= high for low, high in self._runs.get(position.stretch, ()))

    def __len__(self) -> int:
        """The number of operations."""
        return sum(high - low + 1 for _, low, high in self)

    def add(self, new: Range) -> None:
        stretch, low, high = new
        before = self._runs.get(stretch, [])
        if not before or before[-1][1] + 1 < low:
            self._runs.setdefault(stretch, []).append((low, high))
            return
        apart = []
        for run in before:
            if run[1] + 1 < low or high + 1 < run[0]:
                apart.append(run)
            else:
                low, high = min(low, run[0]), max(high, run[1])
        self._runs[stretch] = sorted([*apart, (low, high)])

    def remove(self, gone: Range) -> None:
        stretch, low, high = gone
        left = []
        for first, last in self._runs.get(stretch, ()):
            if first < low:
                left.append((first, min(last, low - 1)))
            if last > high:
                left.append((max(first, high + 1), last))
        if left:
            self._runs[stretch] = left
        else:
            self._runs.pop(stretch, None)

    def update(self, new: Iterable[Range]) -> None:
        for one in new:
            self.add(one)

    def remove_all(self, gone: Iterable[Range]) -> None:
        for one in gone:
            self.remove(one)

    def clear(self) -> None:
        self._runs = {}


def alone(position: Position) -> Range:
    return Range(*position, position.seq)


def spans(positions: Iterable[Position]) -> list[Range]:
    """The shortest range per stretch that holds all of them."""
    found: dict[int, list[int]] = {}
    for stretch, seq in positions:
        span = found.get(stretch)
        if span is None:
            found[stretch] = [seq, seq]
        elif seq > span[1]:
            span[1] = seq
        elif seq < span[0]:
            span[0] = seq
    return [Range(stretch, low, high) for stretch, (low, high) in found.items()]
