"""What the core found out about a set of operations, as plain values that the store commits together."""

from __future__ import annotations

from msgspec import Struct

from roost.core.graph import LogKey, Position
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.operation import Operation


class NewOperation(Struct, frozen=True):
    """An admitted operation with what the core found out about it."""

    operation: Operation
    position: Position
    deps: tuple[Position, ...]
    group: int
    accepted: bool
    verified: bool  # its own signature was checked here; a log is only cut at such an operation
    local: bool  # written on this peer
    arrived: int  # microseconds, this peer's clock


class StretchRow(Struct, frozen=True):
    """A stretch as it stands after the batch. ``runs`` are (first seq, group); ``live`` is -1 if nothing is live."""

    document: DocumentId
    number: int
    log: LogKey
    base: Position | None
    first: int
    last: int
    live: int
    runs: tuple[tuple[int, int], ...]
    parked_from: int | None  # first seq that this peer holds back, as it jumps ahead of others' clocks
    parked_until: int  # microseconds, this peer's clock


class GroupRow(Struct, frozen=True):
    """All operations of one author under one proof share rank, role and removals."""

    document: DocumentId
    number: int
    author: PeerKey
    proof: OperationId


class Verdict(Struct, frozen=True):
    """Judge the stored operations of one group on one stretch anew: accepted iff ``seq <= limit`` or listed.

    limit is -1 when none is, 2^53 when all are. ``but_not`` lists positions' seqs that are void whatever the limit
    (an access operation under a proof that gives no admin role).
    """

    document: DocumentId
    stretch: int
    group: int
    limit: int
    admitted: tuple[int, ...] = ()
    but_not: tuple[int, ...] = ()
