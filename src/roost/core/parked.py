"""Operations that came over one link and cannot be taken yet: a parent is not known, or nothing vouches for them.

Bounded, oldest out: whoever sent them shows them again in the next comparison. Source: docs/protocol.md "Parked".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from roost.core.ids import OperationId
from roost.core.operation import Operation

PARKED_MAX = 256
PARKED_BYTES_MAX = 4 << 20


class _Parked(Struct):
    operation: Operation
    missing: set[OperationId]
    verified: bool


class Ready(Struct, frozen=True):
    """Operations to be tried again, in the total order, and those of them whose own signature was verified."""

    operations: tuple[Operation, ...]
    verified: frozenset[OperationId]


class Space(Struct):
    """How much is parked on one link, over all documents; they share the bounds."""

    operations: int = 0
    size: int = 0

    def exceeded(self) -> bool:
        return self.operations > PARKED_MAX or self.size > PARKED_BYTES_MAX


class Parked:
    """What is parked of one document on one link."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._waiting: dict[OperationId, _Parked] = {}  # authentic, for want of parents
        self._doubtful: dict[OperationId, Operation] = {}  # nothing vouches for them yet

    def __len__(self) -> int:
        return len(self._waiting) + len(self._doubtful)

    def __contains__(self, operation: object) -> bool:
        return operation in self._waiting or operation in self._doubtful

    def wait(self, operation: Operation, missing: Iterable[OperationId], *, verified: bool) -> None:
        """Keep an authentic operation until its parents come."""
        self._forget(operation.id)
        self._waiting[operation.id] = _Parked(operation, set(missing), verified)
        self._bound(operation)

    def doubt(self, operation: Operation) -> None:
        """Keep an operation whose signature is false until one that follows it vouches for it."""
        self._forget(operation.id)
        self._doubtful[operation.id] = operation
        self._bound(operation)

    def followed_by(self, batch: Sequence[Operation]) -> list[Operation]:
        """Take out what the batch, or one that is taken out with it, might vouch for."""
        if not self._doubtful:
            return []
        found: list[Operation] = []
        todo = [one.backlink for one in batch]
        while todo:
            backlink = todo.pop()
            if backlink is not None and backlink in self._doubtful:
                found.append(self._doubtful[backlink])
                self._forget(backlink)
                todo.append(found[-1].backlink)
        return found

    def ready(self, arrived: Iterable[OperationId], known: Callable[[OperationId], bool]) -> Ready | None:
        """Take out what lacked only parents that arrived now, and what then lacks only these."""
        if not self._waiting:
            return None
        available = set(arrived)
        found: list[_Parked] = []
        grown = True
        while grown:
            grown = False
            for identity, one in list(self._waiting.items()):
                if one.missing & available:
                    one.missing = {parent for parent in one.missing - available if not known(parent)}
                if not one.missing:
                    found.append(one)
                    self._forget(identity)
                    available.add(identity)
                    grown = True
        if not found:
            return None
        return Ready(
            tuple(sorted((one.operation for one in found), key=order)),
            frozenset(one.operation.id for one in found if one.verified),
        )

    def _forget(self, identity: OperationId) -> None:
        waiting = self._waiting.pop(identity, None)
        gone = self._doubtful.pop(identity, None) if waiting is None else waiting.operation
        if gone is not None:
            self._space.operations -= 1
            self._space.size -= gone.size

    def _bound(self, new: Operation) -> None:
        """The oldest out; doubtful ones first, as only a peer at fault sends them."""
        self._space.operations += 1
        self._space.size += new.size
        while self._space.exceeded() and len(self):
            self._forget(next(iter(self._doubtful or self._waiting)))

    def clear(self) -> None:
        """Give the space back; the link or the document is closed."""
        for identity in [*self._waiting, *self._doubtful]:
            self._forget(identity)


def order(operation: Operation) -> tuple[int, OperationId]:
    """The total order of operations; it never contradicts causality."""
    return operation.time, operation.id
