"""What a peer holds of a document, told in a few bytes, and what another lacks of it.

A *have* is, per log, its tips; what lies below a tip follows from the backlinks. Only what is committed counts, and
nothing that is parked. Source: docs/protocol.md "Sync".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import groupby
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from roost.core.canonical import INTEGER_MAX
from roost.core.graph import Frontier, Graph, LogKey, Position
from roost.core.ids import ID_BYTES, LOG_BYTES, LogId, OperationId, PeerKey
from roost.core.ranges import Range

Author: TypeAlias = Annotated[PeerKey, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Log: TypeAlias = Annotated[LogId, Meta(min_length=LOG_BYTES, max_length=LOG_BYTES)]
Id: TypeAlias = Annotated[OperationId, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=INTEGER_MAX)]


class Tip(NamedTuple):
    """The end of a branch of a log. One log has one, unless it is forked."""

    seq: Count
    id: Id


class LogTips(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One log with its tips, ascending."""

    author: Author
    log: Log
    tips: tuple[Tip, ...]

    @property
    def key(self) -> LogKey:
        return LogKey(self.author, self.log)


Have: TypeAlias = tuple[LogTips, ...]  # ascending by author and log

_encode = msgspec.msgpack.Encoder().encode


def digest(have: Iterable[LogTips]) -> bytes:
    """SHA-256 of the canonical msgpack of [[author, log, [[seq, id], ...]], ...]."""
    return sha256(_encode(tuple(have))).digest()


def author_digests(have: Iterable[LogTips]) -> list[tuple[PeerKey, bytes]]:
    """Per author the digest of that part of a have."""
    return [(author, digest(logs)) for author, logs in groupby(have, key=lambda log: log.author)]


class Holdings:
    """What of one document is committed on this peer, so that it may be told and served. All links share one.

    The graph runs ahead of the disk; this does not. ``parked`` says, per stretch, from which seq this peer holds
    operations back as they jump ahead in time (``Liveness.parked``).
    """

    def __init__(
        self, graph: Graph, id_at: Callable[[Position], OperationId], parked: Mapping[int, tuple[int, int]]
    ) -> None:
        self.graph = graph
        self.id_at = id_at
        self._parked = parked
        self._ends = {number: stretch.last for number, stretch in graph.stretches.items()}
        self._logs: dict[LogKey, LogTips | None] = {stretch.log: None for stretch in graph.stretches.values()}
        self._have: Have | None = None
        self._digest: bytes | None = None

    def stored(self, positions: Iterable[Position]) -> None:
        """These were committed."""
        for stretch, seq in positions:
            if seq > self._ends.get(stretch, -1):
                self._ends[stretch] = seq
                self._logs[self.graph.stretches[stretch].log] = None
                self._have = self._digest = None

    def reparked(self) -> None:
        """``parked`` has changed."""
        self._logs = dict.fromkeys(self._logs)
        self._have = self._digest = None

    # --- telling ----------------------------------------------------------------------------------------------------

    def last(self, stretch: int) -> int:
        """The highest seq of a stretch that counts, or -1."""
        end = self._ends.get(stretch, -1)
        held_back = self._parked.get(stretch)
        if held_back is not None:
            end = min(end, held_back[0] - 1)
        return end if end >= self.graph.stretches[stretch].first else -1

    def holds(self, position: Position) -> bool:
        return position.seq <= self.last(position.stretch)

    def tips(self, log: LogKey) -> tuple[Tip, ...]:
        found = self._logs.get(log)
        if found is None:
            if log not in self._logs:
                return ()
            found = self._logs[log] = LogTips(log.author, log.log, tuple(sorted(self._find_tips(log))))
        return found.tips

    def _find_tips(self, log: LogKey) -> Iterator[Tip]:
        for end in self.ends(log):
            yield Tip(end.seq, self.id_at(end))

    def ends(self, log: LogKey) -> list[Position]:
        """Where the log's branches end."""
        ends = []
        for number in self.graph.logs.get(log, ()):
            end = Position(number, self.last(number))
            if end.seq >= 0 and all(self.last(fork) < 0 for fork in self.graph.forks.get(end, ())):
                ends.append(end)
        return ends

    def highest(self, log: LogKey) -> int:
        """The highest seq of any branch, or -1."""
        return max((self.last(number) for number in self.graph.logs.get(log, ())), default=-1)

    def have(self) -> Have:
        if self._have is None:
            told = (LogTips(log.author, log.log, self.tips(log)) for log in sorted(self._logs))
            self._have = tuple(log for log in told if log.tips)
        return self._have

    def digest(self) -> bytes:
        if self._digest is None:
            self._digest = digest(self.have())
        return self._digest

    # --- what another lacks -----------------------------------------------------------------------------------------

    def covered(self, tips: Iterable[Position]) -> Frontier:
        """All that lies on the backlink chains of ``tips``: per stretch the highest seq."""
        found: Frontier = {}
        for tip in tips:
            for stretch, seq in self.graph.chain(tip):
                if found.get(stretch, -1) >= seq:
                    break  # the rest of this chain is covered too
                found[stretch] = seq
        return found

    def beyond(self, log: LogKey, covered: Frontier) -> Iterator[Range]:
        """What this peer holds of a log besides ``covered``."""
        for number in self.graph.logs.get(log, ()):
            low = max(self.graph.stretches[number].first, covered.get(number, -1) + 1)
            high = self.last(number)
            if low <= high:
                yield Range(number, low, high)

    def samples(self, log: LogKey) -> list[Position]:
        """On each branch the tip, 1, 3, 7, ... below it, and 0: enough to place a fork within a factor of two."""
        found: dict[Position, None] = {}
        for end in self.ends(log):
            wanted = [end.seq - (1 << power) + 1 for power in range(end.seq.bit_length() + 1)]
            below = [seq for seq in wanted if seq > 0] + [0]
            for stretch, seq in self.graph.chain(end):
                first = self.graph.stretches[stretch].first
                while below and first <= below[0] <= seq:
                    found[Position(stretch, below.pop(0))] = None
        return list(found)
