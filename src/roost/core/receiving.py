"""What comes in on one link of one document: decoded, vouched for, handed over to be admitted, acknowledged after.

Source: docs/protocol.md "Sync" and "Parked".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import TypeAlias

from msgspec import Struct

from roost.core.authentic import authenticate, is_signed
from roost.core.compare import Held
from roost.core.errors import Refused, WrongDocument
from roost.core.graph import LogKey
from roost.core.ids import DocumentId, OperationId
from roost.core.operation import Operation
from roost.core.parked import Parked, Space, order
from roost.core.wire import Acknowledge, Operations, Refusal, Refuse, Wait, Withhold


class Admit(Struct, frozen=True):
    """Effect: admit these operations, commit, then answer with ``Admitted``. They are authentic and in the total order.

    ``verified`` are those whose own signature was checked.
    """

    ticket: int
    operations: tuple[Operation, ...]
    verified: frozenset[OperationId]


class Admitted(Struct, frozen=True):
    """Event: what became of an ``Admit``, after the commit. What it does not name is in the set now."""

    ticket: int
    missing: Sequence[tuple[Operation, Collection[OperationId]]] = ()  # and the parents that are not known
    withheld: Sequence[tuple[OperationId, int]] = ()  # and for how many microseconds
    refused: Sequence[tuple[OperationId, str]] = ()  # and the code


class _Ticket(Struct, frozen=True):
    number: int | None  # of the batch that it acknowledges
    ids: frozenset[OperationId]
    verified: frozenset[OperationId]


Answer: TypeAlias = Acknowledge | Withhold | Refuse


class Receiving:
    """The incoming half of a link."""

    def __init__(self, document: DocumentId, copy: Held, space: Space) -> None:
        self._document = document
        self._copy = copy
        self._last = 0
        self._tickets: dict[int, _Ticket] = {}
        self.parked = Parked(space)
        self.faults = 0  # frames with operations that no honest peer sends

    @property
    def admitting(self) -> int:
        return len(self._tickets)

    def came_from_here(self, operation: OperationId) -> bool:
        """Whether the other side has sent it and it is being admitted, or parked: it need not be sent back."""
        return operation in self.parked or any(operation in ticket.ids for ticket in self._tickets.values())

    # --- a batch ----------------------------------------------------------------------------------------------------

    def take(self, message: Operations, wanted: Collection[OperationId]) -> list[Admit | Answer]:
        """Decode a batch and hand over what is new in it. ``wanted`` are contents that were asked for."""
        fresh, refusals = self._decode(message, wanted)
        answers: list[Admit | Answer] = []
        if refusals:
            self.faults += 1
            answers.append(Refuse(self._document, tuple(refusals)))
        batch = sorted([*fresh, *self.parked.followed_by(fresh)], key=order)
        result = authenticate(batch, lambda one: is_signed(one, one.author))
        for doubtful in result.parked:
            self.parked.doubt(doubtful)
        if result.operations:
            answers.append(self._admit(message.number, result.operations, result.verified))
        else:
            answers.append(Acknowledge(self._document, (message.number,)))
        return answers

    def _decode(self, message: Operations, wanted: Collection[OperationId]) -> tuple[list[Operation], list[Refusal]]:
        fresh: dict[OperationId, Operation] = {}
        refusals: list[Refusal] = []
        for index, absent in enumerate(message.absences()):
            try:
                operation = message.decode(index, absent)
                if operation.document != self._document:
                    raise WrongDocument
            except Refused as refusal:
                identity = OperationId(sha256(message.headers[index]).digest())
                if not self._is_held(identity):
                    refusals.append(Refusal(identity, refusal.code))
                continue
            fresh[operation.id] = operation
        highest = {log: self._copy.holdings.highest(log) for log in {_log(one) for one in fresh.values()}}
        held = [one for one in fresh.values() if one.seq <= highest[_log(one)] and self._is_held(one.id)]
        for one in held:  # what lies above all that is held of its log was not even looked up
            if one.content is None or one.id not in wanted:
                del fresh[one.id]
        return list(fresh.values()), refusals

    def _is_held(self, operation: OperationId) -> bool:
        known = self._copy.find(operation)
        return known is not None and self._copy.holdings.holds(known.position)

    def _admit(self, number: int | None, operations: tuple[Operation, ...], verified: frozenset[OperationId]) -> Admit:
        self._last += 1
        self._tickets[self._last] = _Ticket(number, frozenset([one.id for one in operations]), verified)
        return Admit(self._last, operations, verified)

    # --- afterwards -------------------------------------------------------------------------------------------------

    def admitted(self, event: Admitted) -> list[Admit | Answer]:
        """Tell the other side what became of its batch."""
        ticket = self._tickets.pop(event.ticket, None)
        if ticket is None:
            return []
        answers: list[Admit | Answer] = []
        if event.withheld:
            waits = tuple(Wait(identity, max(0, microseconds)) for identity, microseconds in event.withheld)
            answers.append(Withhold(self._document, waits))
        if event.refused:
            self.faults += 1
            answers.append(Refuse(self._document, tuple(Refusal(*refusal) for refusal in event.refused)))
        for operation, missing in event.missing:
            self.parked.wait(operation, missing, verified=operation.id in ticket.verified)
        if ticket.number is not None:
            answers.append(Acknowledge(self._document, (ticket.number,)))
        return [*answers, *self.arrived(())]  # a parent may have come over another link meanwhile

    def arrived(self, ids: Iterable[OperationId]) -> list[Admit]:
        """Try again what was parked for want of these."""
        ready = self.parked.ready(ids, self._known)
        return [] if ready is None else [self._admit(None, ready.operations, ready.verified)]

    def _known(self, operation: OperationId) -> bool:
        return self._copy.find(operation) is not None


def _log(operation: Operation) -> LogKey:
    return LogKey(operation.author, operation.log)
