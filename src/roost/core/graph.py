"""The shape of a document: logs, where they fork, and what lies among the ancestors of what.

A *stretch* is a run of one log without a fork: the first operation seen at a (log, seq) continues its stretch, another
one at the same seq starts a new stretch based on their common backlink. Within a stretch an operation is known by its
seq alone, so a *frontier* {stretch: highest seq} says exactly which operations lie among the ancestors of something,
and "is x an ancestor" is one look-up. Only *merges* (operations with deps) can lead from stretch to stretch, so a walk
visits merges and nothing else. Stretch numbers are this peer's own: they depend on the order of arrival and never
leave the machine.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from roost.core.ids import LogId, PeerKey


class LogKey(NamedTuple):
    author: PeerKey
    log: LogId


class Position(NamedTuple):
    """Where an operation stands: the stretch and the seq in its log."""

    stretch: int
    seq: int


Frontier: TypeAlias = dict[int, int]  # stretch -> highest seq covered; closed under backlinks and deps


class Merges:
    """The operations with deps of one stretch, by ascending seq; arrays, since a chat of two has one per line."""

    __slots__ = ("_dep_seqs", "_dep_stretches", "_ends", "_seqs")

    def __init__(self) -> None:
        self._seqs = array("q")
        self._ends = array("q")
        self._dep_stretches = array("q")
        self._dep_seqs = array("q")

    def append(self, seq: int, deps: Iterable[Position]) -> None:
        for dep in deps:
            self._dep_stretches.append(dep.stretch)
            self._dep_seqs.append(dep.seq)
        self._seqs.append(seq)
        self._ends.append(len(self._dep_seqs))

    def deps_between(self, above: int, up_to: int) -> Iterator[tuple[int, int]]:
        """(stretch, seq) of the deps of every merge with above < seq <= up_to."""
        low = bisect_right(self._seqs, above)
        high = bisect_right(self._seqs, up_to)
        if low >= high:
            return iter(())
        start = self._ends[low - 1] if low else 0
        end = self._ends[high - 1]
        return zip(self._dep_stretches[start:end], self._dep_seqs[start:end], strict=True)

    def items(self) -> Iterator[tuple[int, tuple[Position, ...]]]:
        start = 0
        for seq, end in zip(self._seqs, self._ends, strict=True):
            yield seq, tuple(map(Position, self._dep_stretches[start:end], self._dep_seqs[start:end]))
            start = end

    def truncate(self, first: int) -> None:
        """Forget every merge with seq >= first."""
        keep = bisect_left(self._seqs, first)
        del self._seqs[keep:], self._ends[keep:]
        end = self._ends[-1] if keep else 0
        del self._dep_stretches[end:], self._dep_seqs[end:]


class Stretch:
    """A run of one log without a fork; ``base`` is where it leaves another stretch of the same log, if it does."""

    __slots__ = ("base", "first", "last", "log", "merges", "number", "unloaded_up_to")

    def __init__(self, number: int, log: LogKey, base: Position | None, first: int, last: int) -> None:
        self.number = number
        self.log = log
        self.base = base
        self.first = first
        self.last = last
        self.merges = Merges()
        self.unloaded_up_to = -1  # merges up to this seq are in the store and not here yet


LoadMerges: TypeAlias = Callable[[int], Iterable[tuple[int, tuple[Position, ...]]]]


class Graph:
    """Stretches and merges of one document.

    ``load_merges(stretch)`` yields what the store holds, ascending; it is called once per stretch, when a walk first
    needs it, so that opening a document costs the same at any length.
    """

    def __init__(self, load_merges: LoadMerges) -> None:
        self._load_merges = load_merges
        self.stretches: dict[int, Stretch] = {}
        self.logs: dict[LogKey, list[int]] = {}
        self.forks: dict[Position, list[int]] = {}  # base -> stretches that start on it

    def restore(self, stretch: Stretch) -> None:
        """Take back a stretch that is stored; its merges stay in the store until a walk needs them."""
        stretch.unloaded_up_to = stretch.last
        self._register(stretch)

    def start(self, number: int, log: LogKey, base: Position | None, seq: int) -> Stretch:
        """Begin a stretch with its first operation at ``seq``."""
        stretch = Stretch(number, log, base, seq, seq)
        self._register(stretch)
        return stretch

    def _register(self, stretch: Stretch) -> None:
        self.stretches[stretch.number] = stretch
        self.logs.setdefault(stretch.log, []).append(stretch.number)
        if stretch.base is not None:
            self.forks.setdefault(stretch.base, []).append(stretch.number)

    def merges_of(self, stretch: Stretch) -> Merges:
        """The merges of a stretch, read from the store on first need."""
        if stretch.unloaded_up_to >= 0:
            fresh, stretch.merges = stretch.merges, Merges()
            for seq, deps in self._load_merges(stretch.number):
                if seq <= stretch.unloaded_up_to:
                    stretch.merges.append(seq, deps)
            for seq, deps in fresh.items():
                stretch.merges.append(seq, deps)
            stretch.unloaded_up_to = -1
        return stretch.merges

    def extend(self, frontier: Frontier, position: Position, met: Callable[[int, int], None] | None = None) -> None:
        """Raise ``frontier`` until it covers ``position`` and all its ancestors.

        ``met(stretch, seq)`` is called for every dep and base of what is newly covered, whether covered before or not.
        """
        todo: list[tuple[int, int]] = [position]
        while todo:
            number, seq = todo.pop()
            known = frontier.get(number, -1)
            if seq <= known:
                continue
            frontier[number] = seq
            stretch = self.stretches[number]
            if known < 0 and stretch.base is not None:
                todo.append(stretch.base)
                if met is not None:
                    met(*stretch.base)
            for dep in self.merges_of(stretch).deps_between(known, seq):
                if met is not None:
                    met(*dep)
                if dep[1] > frontier.get(dep[0], -1):
                    todo.append(dep)

    def ancestors(self, position: Position) -> Frontier:
        """The frontier of ``position``: itself and all its ancestors."""
        frontier: Frontier = {}
        self.extend(frontier, position)
        return frontier

    def chain(self, position: Position) -> Iterator[Position]:
        """The last position on each stretch of the backlink chain that ends in ``position``, newest first."""
        current: Position | None = position
        while current is not None:
            yield current
            current = self.stretches[current.stretch].base

    def on_chain(self, position: Position, tip: Position) -> bool:
        """Whether ``position`` is ``tip`` or lies on the backlink chain below it."""
        return any(part.stretch == position.stretch and position.seq <= part.seq for part in self.chain(tip))

    def tips(self, log: LogKey) -> list[Position]:
        """The ends of a log's branches: one, unless it is forked. A stretch whose end carries a fork ends in that."""
        found = []
        for number in self.logs.get(log, ()):
            end = Position(number, self.stretches[number].last)
            if end not in self.forks:
                found.append(end)
        return found

    def forked(self, log: LogKey) -> bool:
        return len(self.logs.get(log, ())) > 1

    def last_sibling(self, position: Position, live: Frontier) -> Position | None:
        """The last operation on the chain of ``position`` (itself included) that has a live sibling, and is live.

        Siblings are live operations of one log with the same backlink. Those at seq 0 with no backlink count too.
        """
        log = self.stretches[position.stretch].log
        if not self.forked(log):
            return None
        for end in self.chain(position):
            stretch = self.stretches[end.stretch]
            found = self._sibling_on(stretch, end.seq, live)
            if found is not None:
                return found
            first = Position(end.stretch, stretch.first)
            if self._rivals(first, stretch, live):
                return first
        return None

    def _sibling_on(self, stretch: Stretch, up_to: int, live: Frontier) -> Position | None:
        """The last operation above the first of a stretch whose backlink also carries a live fork."""
        best = -1
        for other in self.logs[stretch.log]:
            base = self.stretches[other].base
            if base is None or base.stretch != stretch.number or not base.seq < up_to:
                continue
            if live.get(other, -1) >= self.stretches[other].first:
                best = max(best, base.seq + 1)
        return Position(stretch.number, best) if best >= 0 else None

    def _rivals(self, first: Position, stretch: Stretch, live: Frontier) -> bool:
        """Whether the first operation of a stretch has a live sibling."""
        for other in self.logs[stretch.log]:
            rival = self.stretches[other]
            if rival is not stretch and rival.base == stretch.base and live.get(other, -1) >= rival.first:
                return True
        if stretch.base is None:
            return False
        return live.get(stretch.base.stretch, -1) > stretch.base.seq
