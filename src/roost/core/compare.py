"""Finding what each side of a link lacks: rounds of digest, have, and, where a log is forked, location of the fork.

One side of a link leads: it begins the rounds. The sides then speak in turns, so a message that is late, doubled or of
an old round is known by its step and ignored; one that is lost ends the round, and the next begins anew. In a turn each
log is settled or answered, and an answer is settled within three more turns. Source: docs/protocol.md "Sync".

    leads    Digest 0           Compare 2             Compare 4
    follows            Have 1               Compare 3            Compare 5

Where nothing differs, Digest 1 ends the round. A long have is told author by author: AuthorDigests 1, AskHave 2, and
Have 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from roost.core.graph import LogKey, Position
from roost.core.have import Holdings, LogTips, Tip, author_digests
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.index import Known
from roost.core.ranges import Ranges
from roost.core.turns import Turn, by_log, cut_ids, cut_logs, numbered
from roost.core.wire import AskHave, AuthorDigests, Compare, Digest, Have, LogIds

LOGS_AT_ONCE = 64  # with more logs a have is told author by author, where the authors' digests differ

RoundMessage: TypeAlias = Digest | AuthorDigests | AskHave | Have | Compare


class Held(Protocol):
    """What a comparison asks of this peer's copy of the document; none of it loads the document."""

    @property
    def holdings(self) -> Holdings:
        """What is committed; empty while the document is not here yet."""

    def find(self, operation: OperationId, /) -> Known | None:
        """An operation of the set by its id."""

    def ids_between(self, stretch: int, low: int, high: int, /) -> Iterable[OperationId]:
        """The ids of committed operations along a stretch, both ends included."""


class Comparison:
    """The rounds of one document on one link; ``number`` is the present one."""

    def __init__(self, document: DocumentId, copy: Held, *, leads: bool) -> None:
        self._document = document
        self._copy = copy
        self._leads = leads
        self.number = 0
        self._expected = -1  # the step that the other side speaks next
        self._parts: dict[int, AuthorDigests | AskHave | Have | Compare] = {}
        self._open: set[LogKey] = set()  # logs of which it is not known yet what the other lacks
        self._asked: set[PeerKey] | None = None  # authors whose part of the have was asked for; None: all
        self._told = b""  # the digest that began the round
        self._lacking = Ranges()
        self.running = False
        self._compared = False  # this round has found all that the other side lacks

    # --- speaking first ---------------------------------------------------------------------------------------------

    def begin(self) -> list[RoundMessage]:
        """Begin a round, or, on the side that follows, ask the other to."""
        self._reset(self.number + 1 if self._leads else 0, expected=1)
        self.running = self._leads
        self._told = self._copy.holdings.digest()
        return [Digest(self._document, self.number, 0, self._told)]

    def stop(self) -> None:
        """Give the round up; answers to it are ignored."""
        self._reset(self.number, expected=-1)

    def _reset(self, number: int, *, expected: int) -> None:
        self.number = number
        self._expected = expected
        self._parts = {}
        self._open = set()
        self._asked = None
        self._lacking = Ranges()
        self.running = self._compared = False

    def _settle(self) -> None:
        self._expected = -1  # who waits for nothing is not asked anything either
        self.running = False
        self._compared = True

    def take_difference(self) -> Ranges | None:
        """What the other side lacks, once, when the round has found all of it."""
        if not self._compared:
            return None
        self._compared = False
        lacking, self._lacking = self._lacking, Ranges()
        return lacking

    # --- answering --------------------------------------------------------------------------------------------------

    def receive(self, message: RoundMessage) -> Sequence[RoundMessage] | None:
        """The answers to a message; None if it is not what this round waits for. Raises TooLarge."""
        if type(message) is Digest:
            return self._on_digest(message)
        assert not isinstance(message, Digest)
        if message.round != self.number or message.step != self._expected:
            return None
        other = next(iter(self._parts.values()), message)
        if type(other) is not type(message) or other.parts != message.parts or message.part >= message.parts:
            return None
        self._parts[message.part] = message
        if len(self._parts) < message.parts:
            return []
        parts = [self._parts[part] for part in sorted(self._parts)]
        self._parts = {}
        self._expected += 2
        if self._leads and isinstance(message, AuthorDigests):
            return self._on_author_digests(
                [one for part in parts if type(part) is AuthorDigests for one in part.digests]
            )
        if self._leads and isinstance(message, Have):
            return self._on_have([one for part in parts if type(part) is Have for one in part.logs])
        if not self._leads and isinstance(message, AskHave):
            return self._tell({one for part in parts if type(part) is AskHave for one in part.authors})
        if isinstance(message, Compare):
            return self._on_compare([part for part in parts if type(part) is Compare])
        return None

    def _on_digest(self, message: Digest) -> Sequence[RoundMessage] | None:
        if not self._leads:
            return self._on_led(message)
        if message.step == 0:  # the other side asks for a round
            if message.digest == self._copy.holdings.digest():
                return [Digest(self._document, 0, 1, message.digest)]
            answered = self.running and self._expected > 1  # in a round already
            return None if answered else self.begin()
        if message.round != self.number or message.step != self._expected or not self.running:
            return None
        self._settle()
        return []

    def _on_led(self, message: Digest) -> Sequence[RoundMessage] | None:
        if message.step != 0:
            if message.round == self.number == 0 and message.digest == self._told:  # a round is not needed
                self._settle()
            return None
        if message.round == self.number:
            return None
        self._reset(message.round, expected=2)
        self.running = True
        if message.digest == self._copy.holdings.digest():
            self._settle()
            return [Digest(self._document, self.number, 1, message.digest)]
        have = self._copy.holdings.have()
        if len(have) <= LOGS_AT_ONCE:
            return self._tell(None)
        pieces = numbered(cut_ids(author_digests(have)))
        return [AuthorDigests(self._document, self.number, 1, part, len(pieces), piece) for part, piece in pieces]

    def _tell(self, authors: set[PeerKey] | None) -> Sequence[RoundMessage]:
        """The have, or these authors' part of it."""
        have = [log for log in self._copy.holdings.have() if authors is None or log.author in authors]
        pieces = numbered(cut_logs(have))
        step = self._expected - 1
        return [Have(self._document, self.number, step, part, len(pieces), piece) for part, piece in pieces]

    def _on_author_digests(self, theirs: Sequence[tuple[PeerKey, bytes]]) -> Sequence[RoundMessage]:
        have = self._copy.holdings.have()
        mine = dict(author_digests(have))
        differing = [author for author, digest in theirs if mine.pop(author, None) != digest]
        for log in have:
            if log.author in mine:  # the other side has nothing of this author
                self._lacks(log.key, ())
        self._asked = set(differing)
        pieces = numbered(cut_ids(differing))
        step = self._expected - 1
        return [AskHave(self._document, self.number, step, part, len(pieces), piece) for part, piece in pieces]

    def _on_have(self, logs: Sequence[LogTips]) -> Sequence[RoundMessage]:
        told: dict[LogKey, list[Tip]] = {}
        for log in logs:
            told.setdefault(log.key, []).extend(log.tips)
        turn = Turn()
        for key, tips in told.items():
            self._judge(key, tips, turn, first=True)
        for log in self._copy.holdings.have():
            if log.key not in told and (self._asked is None or log.author in self._asked):
                self._lacks(log.key, ())
        return self._speak(turn, always=True)  # also if it is empty: the other side has nothing to send then

    def _on_compare(self, parts: Sequence[Compare]) -> Sequence[RoundMessage]:
        turn = Turn()
        told: dict[LogKey, list[Tip]] = {}
        for log in (log for part in parts for log in part.tips):
            told.setdefault(log.key, []).extend(log.tips)
        for key, tips in told.items():
            self._judge(key, tips, turn, first=False)
        for key, ids in by_log(log for part in parts for log in part.locate).items():
            self._locate(key, ids, turn)
        extra = by_log(log for part in parts for log in part.extra)
        for key, ids in by_log(log for part in parts for log in part.held).items():
            self._unite(key, [*ids, *extra.get(key, ())], turn)
        for key, ids in by_log(log for part in parts for log in part.common).items():
            if key in self._open:
                self._open.discard(key)
                self._lacks(key, self._positions(key, ids))
        return self._speak(turn, always=False)

    def _speak(self, turn: Turn, *, always: bool) -> Sequence[RoundMessage]:
        step = self._expected - 1
        if not self._open:
            self._settle()
        if not always and not turn:
            return []
        pieces = numbered(turn.cut())
        return [Compare(self._document, self.number, step, part, len(pieces), *piece) for part, piece in pieces]

    # --- one log ----------------------------------------------------------------------------------------------------

    def _judge(self, log: LogKey, tips: Sequence[Tip], turn: Turn, *, first: bool) -> None:
        """Compare a log with the tips that the other side has of it.

        Who holds them all knows what the other lacks. Who lacks one at a seq that it has passed knows a fork. Else the
        other side is told this one's tips, and knows by the same rule.
        """
        holdings = self._copy.holdings
        found = self._positions(log, [tip.id for tip in tips])
        if len(found) == len(tips):
            self._lacks(log, found)
            if not first:
                turn.common.append(LogIds(log.author, log.log, tuple(tip.id for tip in tips)))
            return
        self._open.add(log)
        held = set(found.values())
        passed = any(tip.seq <= holdings.highest(log) for tip in tips if tip.id not in held)
        if first and not passed:
            turn.tips.append(LogTips(log.author, log.log, holdings.tips(log)))
        else:
            named = tuple(holdings.id_at(sample) for sample in holdings.samples(log))
            turn.locate.append(LogIds(log.author, log.log, named))

    def _locate(self, log: LogKey, named: Sequence[OperationId], turn: Turn) -> None:
        """Say which of the ids are held here, and what of the log is not on their chains."""
        self._open.add(log)
        found = self._positions(log, named)
        covered = self._copy.holdings.covered(found)
        extra = [
            identity for part in self._copy.holdings.beyond(log, covered) for identity in self._copy.ids_between(*part)
        ]
        turn.held.append(LogIds(log.author, log.log, tuple(found.values())))
        turn.extra.append(LogIds(log.author, log.log, tuple(extra)))

    def _unite(self, log: LogKey, theirs: Sequence[OperationId], turn: Turn) -> None:
        """Take the answer to ``locate``: all that the other side has of the log lies on the chains of ``theirs``."""
        if log not in self._open:
            return
        self._open.discard(log)
        holdings = self._copy.holdings
        covered = holdings.covered(self._positions(log, theirs))
        bases = {holdings.graph.stretches[stretch].base for stretch in covered}
        ends = [Position(*end) for end in covered.items()]
        ids = tuple(holdings.id_at(end) for end in ends if end not in bases)
        turn.common.append(LogIds(log.author, log.log, ids))
        self._difference(log, covered)

    def _lacks(self, log: LogKey, tips: Iterable[Position]) -> None:
        """The other side has the chains of ``tips`` of what is held here of a log, and no more."""
        self._difference(log, self._copy.holdings.covered(tips))

    def _difference(self, log: LogKey, covered: dict[int, int]) -> None:
        self._lacking.update(self._copy.holdings.beyond(log, covered))

    def _positions(self, log: LogKey, ids: Iterable[OperationId]) -> dict[Position, OperationId]:
        """Where those of the ids stand that are held here, in this log."""
        holdings = self._copy.holdings
        found = {}
        for identity in ids:
            known = self._copy.find(identity)
            if known is None or holdings.graph.stretches[known.position.stretch].log != log:
                continue
            if holdings.holds(known.position):
                found[known.position] = identity
        return found
