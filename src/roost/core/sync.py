"""Keeping one document the same on both ends of one link: an event in, effects out; no waiting, no clock.

The node turns frames into ``Received``, carries the effects out in order, and answers those that ask for an answer.
Comparing is in ``core.compare``, the outgoing half in ``core.sending``, the incoming one in ``core.receiving``.
Source: docs/protocol.md "Sync".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from roost.core.compare import Comparison, Held
from roost.core.errors import Busy, Malformed, NotAReader, TooLarge
from roost.core.graph import Position
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.operation import NOT_HELD
from roost.core.outcome import NewOperation
from roost.core.owing import Owing
from roost.core.parked import Space
from roost.core.ranges import Ranges, alone
from roost.core.receiving import Admit, Admitted, Answer, Receiving
from roost.core.sending import LIVE_MAX, Read, Sending, Stored
from roost.core.wire import (
    Acknowledge,
    AskHave,
    AuthorDigests,
    Compare,
    Contents,
    Digest,
    Error,
    Have,
    Message,
    Operations,
    Refuse,
    Wait,
    WantContents,
    Withhold,
)

ADMITTING_MAX = 1024  # batches handed over and not answered: an honest sender stops long before
FAULTS_MAX = 16  # frames with operations that no honest peer sends, before the link is closed
ABSENT_AT_ONCE = 4096  # contents that are asked for after a comparison


class Copy(Held, Protocol):
    """What the machine asks of this peer's copy of the document and of its access rule."""

    def may_read(self, peer: PeerKey, /) -> bool:
        """Whether the peer holds a role now. While the document is not here yet: whether it is who the ticket names."""

    def may_push(self, peer: PeerKey, /) -> bool:
        """Whether operations are taken from the peer: it holds a role, or is the ticket's peer of one to come."""

    def absent(self, limit: int, /) -> Sequence[OperationId]:
        """Operations whose content is not here and not erased."""


# --- events ---------------------------------------------------------------------------------------------------------


class Started(Struct, frozen=True):
    """The link stands and the document is open, or was asked for with a ticket."""


class Received(Struct, frozen=True):
    """A message about this document came over the link. now is microseconds, this peer's clock."""

    message: Message
    now: int


class Committed(Struct, frozen=True):
    """Operations were committed and ``holdings`` knows it; whoever wrote or sent them, this link's peer included.

    All machines of the document are told, before the ``Admitted`` that answers for them.
    """

    operations: Sequence[NewOperation]


class ChunkRead(Struct, frozen=True):
    """The answer to ``Read``: no rows where the stream has ended."""

    stream: int
    rows: Sequence[Stored]


class ContentsRead(Struct, frozen=True):
    """The answer to ``ReadContents``; None for what is not here."""

    contents: Sequence[tuple[OperationId, bytes | None]]


class ContentsStored(Struct, frozen=True):
    """Contents that were absent have come and are committed."""

    ids: Sequence[OperationId]


class AccessChanged(Struct, frozen=True):
    """Verdicts or roles may have changed."""


class Tick(Struct, frozen=True):
    """Time for anti-entropy: every 30 s, with jitter. now is microseconds, this peer's clock."""

    now: int


class CompareNow(Struct, frozen=True):
    """Somebody waits until both sides hold the same: compare at once, and again when what differed has been sent."""


Event: TypeAlias = (
    Started
    | Received
    | Committed
    | Admitted
    | ChunkRead
    | ContentsRead
    | ContentsStored
    | AccessChanged
    | Tick
    | CompareNow
)


# --- effects; ``Admit`` and ``Read`` stand where they are made ------------------------------------------------------


class Send(Struct, frozen=True):
    """Put a message on the link."""

    message: Message


class ReadContents(Struct, frozen=True):
    """Look the contents up and answer with ``ContentsRead``."""

    ids: tuple[OperationId, ...]


class TakeContents(Struct, frozen=True):
    """Check these contents against their hashes and store those that fit."""

    contents: tuple[tuple[OperationId, bytes], ...]


class ToldToWait(Struct, frozen=True):
    """The other side finds these too far ahead of its clock. Whoever wrote one parks it and writes it again."""

    waits: tuple[Wait, ...]


class Rejected(Struct, frozen=True):
    """The other side does not share this document with us, now; it is asked again with every tick."""

    code: str


class CloseLink(Struct, frozen=True):
    """The other side does what no honest peer does."""

    code: str


Effect: TypeAlias = Send | Read | Admit | ReadContents | TakeContents | ToldToWait | Rejected | CloseLink


class SyncMachine:
    """One document on one link. Exactly one of its two sides ``leads``; the link decides which."""

    def __init__(self, document: DocumentId, peer: PeerKey, copy: Copy, *, leads: bool, space: Space) -> None:
        self._document = document
        self._peer = peer
        self._copy = copy
        self._leads = leads
        self._comparison = Comparison(document, copy, leads=leads)
        self._sending = Sending(document, self._author_at)
        self._receiving = Receiving(document, copy, space)
        self._owing = Owing(document)
        self._live = False  # all that is committed here is there, on its way or queued; so what is new can follow
        self._fresh = Ranges()  # committed since the round began, while not live
        self._theirs = Ranges()  # committed since the round began, and sent by the other side
        self._due = False  # a round is to begin: sharing begins, or much has come that the other side may have got too
        self._refused = False  # the other side has refused one; not again before the next tick
        self._turned = False  # since the last tick the comparison moved on
        self._bulk = False  # since the last tick many operations came
        self._led = False  # since the last tick the side that leads began a round
        self._settling = False  # somebody waits until both sides are seen to hold the same
        self._shared = False  # the other side may read

    def handle(self, event: Event) -> list[Effect]:
        """Take an event; the effects are carried out in their order."""
        try:
            effects = self._dispatch(event)
            return [*effects, *self._go_on()]
        except TooLarge as error:
            return [CloseLink(error.code)]

    def close(self) -> None:
        """The link or the document is closed: give back the space of what is parked."""
        self._receiving.parked.clear()

    @property
    def parked(self) -> int:
        """Operations of the other side that wait for their parents, or for one that vouches for them."""
        return len(self._receiving.parked)

    @property
    def admitting(self) -> int:
        """Batches that were handed over and not answered."""
        return self._receiving.admitting

    def _dispatch(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(message, now):
                return self._on_message(message, now)
            case Committed(operations):
                return self._on_committed(operations)
            case Admitted():
                answers = self._hand_over(self._receiving.admitted(event))
                self._due |= self._settling and not self._receiving.admitting
                return answers
            case ChunkRead(stream, rows):
                batch = self._sending.read(stream, rows) if self._may_read() else None
                return [] if batch is None else [Send(batch)]
            case ContentsRead(contents):
                return [Send(one) for one in self._owing.give(contents)] if self._may_read() else []
            case ContentsStored(ids):
                due = self._owing.due(ids)
                return [ReadContents(due)] if due else []
            case Started() | AccessChanged():
                self._may_read()
                return []
            case Tick(now):
                return self._on_tick(now)
            case CompareNow():
                self._settling, self._due, self._refused = True, True, False
                return []

    # --- who may ----------------------------------------------------------------------------------------------------

    def _may_read(self) -> bool:
        """Asked anew before anything is told: a removed reader gets no further frame."""
        shared = self._copy.may_read(self._peer)
        if self._shared and not shared:
            self._give_up()
        elif shared and not self._shared:
            self._due, self._refused = True, False
        self._shared = shared
        return shared

    def _give_up(self) -> None:
        self._comparison.stop()
        self._sending.abandon()
        self._live = False

    def _author_at(self, position: Position) -> PeerKey:
        return self._copy.holdings.graph.stretches[position.stretch].log.author

    # --- messages ---------------------------------------------------------------------------------------------------

    def _on_message(self, message: Message, now: int) -> Sequence[Effect]:
        if isinstance(message, Error):
            self._give_up()
            self._refused = True
            return [Rejected(message.code)]
        if isinstance(message, Operations | Contents):
            if not self._copy.may_push(self._peer):
                return [Send(Error(self._document, NotAReader.code, ""))]
            if isinstance(message, Operations):
                return self._on_operations(message)
            expected = self._owing.expected(message)
            return [TakeContents(expected)] if expected else []
        if not self._may_read():
            silent = isinstance(message, Acknowledge | Withhold | Refuse)
            return [] if silent else [Send(Error(self._document, NotAReader.code, ""))]
        return self._on_question(message, now)

    def _on_question(self, message: Message, now: int) -> Sequence[Effect]:
        """A message from a peer that may read."""
        match message:
            case Digest() | AuthorDigests() | AskHave() | Have() | Compare():
                return self._on_turn(message)
            case Acknowledge(_, numbers):
                self._sending.acknowledged(numbers)
                self._due |= self._settling and not self._sending.busy
            case Withhold(_, waits):
                found = [(position, wait) for wait in waits if (position := self._position(wait.id))]
                self._sending.withheld(self._copy.holdings, found, now)
                return [ToldToWait(waits)]
            case Refuse(_, refusals):
                places = [position for refusal in refusals if (position := self._position(refusal.id))]
                self._sending.refused(self._copy.holdings, places)
            case WantContents(_, ids):
                self._owing.take(ids)
                return [ReadContents(ids)] if ids else []
            case _:
                return [CloseLink(Malformed.code)]
        return []

    def _position(self, operation: OperationId) -> Position | None:
        known = self._copy.find(operation)
        return None if known is None else known.position

    def _on_turn(self, message: Digest | AuthorDigests | AskHave | Have | Compare) -> Sequence[Effect]:
        before = self._comparison.number
        answers = self._comparison.receive(message)
        if isinstance(message, Digest) and message.digest == self._copy.holdings.digest():
            self._settling = False
        if answers is None:
            return []
        self._turned = True
        if self._comparison.number != before:
            self._on_round()
            self._led = True
        return [Send(answer) for answer in answers]

    def _on_operations(self, message: Operations) -> Sequence[Effect]:
        self._bulk |= len(message) > LIVE_MAX
        effects = self._hand_over(self._receiving.take(message, self._owing.asked))
        if self._receiving.admitting > ADMITTING_MAX:
            return [*effects, CloseLink(Busy.code)]
        return effects

    def _hand_over(self, answers: Sequence[Admit | Answer]) -> Sequence[Effect]:
        effects: list[Effect] = [one if isinstance(one, Admit) else Send(one) for one in answers]
        if self._receiving.faults > FAULTS_MAX:
            effects.append(CloseLink(Malformed.code))
        return effects

    # --- what is new here -------------------------------------------------------------------------------------------

    def _on_committed(self, operations: Sequence[NewOperation]) -> Sequence[Effect]:
        allowed = self._sending.allowed(operations, self._copy.holdings.graph)
        theirs = {one.operation.id for one in allowed if self._receiving.came_from_here(one.operation.id)}
        others = [one for one in allowed if one.operation.id not in theirs]
        self._theirs.update(alone(one.position) for one in allowed if one.operation.id in theirs)
        effects: list[Effect] = [*self._receiving.arrived([one.operation.id for one in operations])]
        if not self._may_read():
            return effects
        if len(others) > LIVE_MAX:
            self._due, self._live = True, False
        elif self._live:
            effects += [Send(batch) for batch in self._sending.push(others)] if others else []
        else:
            self._fresh.update(alone(one.position) for one in others)
        if self._live:
            effects += map(Send, self._owing.ask([one.operation.id for one in operations if _is_absent(one)]))
        return effects

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _begin(self) -> list[Effect]:
        self._on_round()
        return [Send(one) for one in self._comparison.begin()]

    def _on_round(self) -> None:
        """A round begins: it covers all that is committed up to now."""
        self._due, self._fresh, self._theirs = False, Ranges(), Ranges()

    def _on_tick(self, now: int) -> Sequence[Effect]:
        self._sending.held_back.expire(self._copy.holdings.graph, now)
        turned, bulk, led = self._turned, self._bulk, self._led
        self._turned = self._bulk = self._led = self._refused = False
        lost = self._sending.tick()
        if self._comparison.running and not turned:
            self._comparison.stop()
            lost = True
        if not lost and (self._comparison.running or self._sending.queued or bulk):
            return []  # under way
        if not self._may_read() or (led and not self._leads and not lost):
            return []
        return self._begin()

    def _go_on(self) -> list[Effect]:
        """What can go out now that could not before."""
        effects: list[Effect] = []
        difference = self._comparison.take_difference()
        if difference is not None:
            difference.update(self._fresh)
            difference.remove_all(self._theirs)
            self._fresh.clear()
            self._sending.schedule(difference)
            self._live = not self._due
            effects += map(Send, self._owing.ask(self._copy.absent(ABSENT_AT_ONCE)))
        if self._due and not (self._refused or self._comparison.running or self._sending.queued) and self._may_read():
            effects += self._begin()
        return [*effects, *self._sending.pump()]


def _is_absent(new: NewOperation) -> bool:
    return new.operation.content is None and new.operation.absence == NOT_HELD
