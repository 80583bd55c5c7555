"""What the other side of a link will not take yet, or ever: its operations and their descendants are kept back.

Source: docs/protocol.md "Sync"; without it a sender with a fast clock offers the same operations in every round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from roost.core.graph import Graph, Position
from roost.core.ranges import Range

FOR_LIFE = 1 << 62  # of the link
HELD_BACK_MAX = 4096  # roots; a receiver that names more than this takes nothing anyway


class HeldBack:
    """Per stretch the first seq that is kept back; what follows on a stretch descends from it."""

    def __init__(self) -> None:
        self._roots: dict[Position, int] = {}  # until when, by this peer's clock
        self._from: dict[int, int] = {}

    def __contains__(self, position: Position) -> bool:
        return position.seq >= self._from.get(position.stretch, FOR_LIFE)

    def hold(self, graph: Graph, roots: Iterable[tuple[Position, int]]) -> None:
        """Keep these and their descendants back until the given times."""
        for position, until in roots:
            if len(self._roots) < HELD_BACK_MAX or position in self._roots:
                self._roots[position] = max(until, self._roots.get(position, 0))
        self._spread(graph)

    def expire(self, graph: Graph, now: int) -> bool:
        """Let go of what was to be kept until now; True if there was any."""
        due = [position for position, until in self._roots.items() if until <= now]
        for position in due:
            del self._roots[position]
        if due:
            self._spread(graph)
        return bool(due)

    def add(self, position: Position, parents: Iterable[Position]) -> bool:
        """Whether a new operation is to be kept back, as one of its parents is."""
        if not self._from:
            return False
        if position in self or any(parent in self for parent in parents):
            self._lower(position)
            return True
        return False

    def allowed(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """What is left of the ranges."""
        for stretch, low, high in ranges:
            high = min(high, self._from.get(stretch, FOR_LIFE) - 1)
            if low <= high:
                yield Range(stretch, low, high)

    def _lower(self, position: Position) -> bool:
        if position in self:
            return False
        self._from[position.stretch] = position.seq
        return True

    def _spread(self, graph: Graph) -> None:
        """Find the descendants again: walk the ties between stretches until nothing more is met."""
        self._from = {}
        for position in self._roots:
            self._lower(position)
        grown = bool(self._roots)
        while grown:
            grown = False
            for number in graph.stretches:
                grown |= any(
                    self._lower(Position(number, seq))
                    for seq, parents in _ties(graph, number)
                    if any(parent in self for parent in parents)
                )


def _ties(graph: Graph, number: int) -> Iterator[tuple[int, Sequence[Position]]]:
    """(seq, parents on other stretches) of what ties a stretch to others, ascending."""
    stretch = graph.stretches[number]
    if stretch.base is not None:
        yield stretch.first, (stretch.base,)
    yield from graph.merges_of(stretch).items()
