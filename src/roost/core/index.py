"""What the core asks of the stored operations of one document. The store answers; the core never waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from roost.core.graph import Position
from roost.core.ids import OperationId, PeerKey


class Known(NamedTuple):
    """What later operations need to know of one that is admitted."""

    position: Position
    time: int
    group: int  # number of the (author, proof) pair it acts under
    kind: str
    author: PeerKey


class Index(Protocol):
    """Synchronous look-ups among the committed operations of one document; each costs microseconds, not a scan."""

    def find(self, operation: OperationId) -> Known | None:
        """The operation by its id, or None if it is not stored."""

    def id_at(self, position: Position) -> OperationId:
        """The id of the committed operation at a position. Raises LookupError if there is none."""

    def merges(self, stretch: int) -> Iterable[tuple[int, tuple[Position, ...]]]:
        """(seq, positions of its deps) of every operation of a stretch that has deps, ascending."""

    def redactions_of(self, target: OperationId) -> Sequence[OperationId]:
        """The stored redact operations that name ``target``, accepted or not."""
