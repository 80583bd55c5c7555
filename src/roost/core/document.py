"""One document as a peer holds it: which operations are in the set, which count, which are its heads.

``receive`` takes well-formed operations in any order that has parents first, says what becomes of each, and returns
what the store commits. It never waits and never reads a clock. Memory holds logs, groups, access operations and heads;
single operations are looked up in the index, so a document of a million entries opens as fast as an empty one.
Source: docs/protocol.md "Admission" and "Access".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from roost.core.access import EVERYTHING, Access, Group, Parked
from roost.core.errors import BadChain, BadProof, BadTime, Refused, WrongDocument
from roost.core.graph import Graph, LogKey, Position, Stretch
from roost.core.heads import AccessHead, GenesisHead, RedactHead
from roost.core.ids import OperationId, PeerKey
from roost.core.index import Index, Known
from roost.core.liveness import Liveness, Runs
from roost.core.operation import Operation
from roost.core.outcome import GroupRow, NewOperation, StretchRow, Verdict

MODES = frozenset(["persistent", "incognito", "temporary"])
JUMP_AHEAD_MICROSECONDS = 24 * 3600 * 1_000_000
JUMP_STEP_MICROSECONDS = 1_000
RECENT_MAX = 2048  # operations whose place is kept at hand, twice over: 1.5 MB; what waits for its commit comes on top


class Received(Struct):
    """What became of a batch. The node commits ``operations`` with the rows of ``Document.changes``, then answers."""

    operations: list[NewOperation]
    known: list[Operation]  # were in the set before; a content that was absent may come with them
    missing: list[tuple[Operation, tuple[OperationId, ...]]]  # and the parents that are not known
    withheld: list[tuple[Operation, int]]  # and for how many microseconds
    refused: list[tuple[Operation, Refused]]
    forked: list[LogKey]  # logs in which a second operation took a place that was taken: the key writes in two places
    rejudged: bool = False


class Changes(Struct):
    """Rows that changed since the last call of ``Document.changes``."""

    stretches: list[StretchRow]
    groups: list[GroupRow]
    verdicts: list[Verdict]
    heads: tuple[OperationId, ...]


class Document:
    """The set of operations that grow from one genesis."""

    def __init__(self, genesis: Operation, index: Index) -> None:
        assert isinstance(genesis.head, GenesisHead)
        self.id = genesis.document
        self.genesis = genesis
        self.head = genesis.head
        self.graph = Graph(index.merges)
        parked: Parked = {}
        self.access = Access(self.id, genesis.author, PeerKey(genesis.head.owner), self.graph, parked)
        self.runs = Runs(self.access)
        self.liveness = Liveness(self.graph, self.runs, parked)
        self.has_redactions = False
        self.redactions: dict[OperationId, list[OperationId]] = {}  # by target: redacts that the index may lack yet
        self._index = index
        self._recent: dict[OperationId, Known] = {}
        self._older: dict[OperationId, Known] = {}
        self._begun = self._stored = self._oldest = 0  # batches: handed out, stored, and up to which ``_older`` reaches
        self._touched: set[int] = set()
        self._stored_groups: set[int] = set()
        self._new_groups: list[Group] = []
        self._due: dict[tuple[int, int], None] = {}  # (stretch, group) to be judged anew in the store, in order
        self._next_stretch = 0

    @classmethod
    def restore(
        cls,
        genesis: Operation,
        index: Index,
        stretches: Iterable[StretchRow],
        groups: Iterable[GroupRow],
        access_operations: Iterable[NewOperation],
        heads: Iterable[OperationId],
        has_redactions: bool,
    ) -> Document:
        """Open a stored document: proportionate to its logs and access operations, not to its length."""
        document = cls(genesis, index)
        stored = {row.number: row for row in groups}
        for row in stretches:
            stretch = Stretch(row.number, row.log, row.base, row.first, row.last)
            document.graph.restore(stretch)
            document.runs.restore(row.number, row.runs)
            document.liveness.restore(row.number, row.live, row.parked_from, row.parked_until)
            document._next_stretch = max(document._next_stretch, row.number + 1)
        document._restore_access(stored, access_operations)
        for identity in heads:
            document.liveness.heads[document.known(identity).position] = identity
        document.has_redactions = has_redactions
        return document

    def _restore_access(self, stored: dict[int, GroupRow], operations: Iterable[NewOperation]) -> None:
        for item in operations:  # in the total order: a proof before what it proves
            row = stored[item.group]
            group = self.access.group(row.author, row.proof, row.number)
            assert isinstance(item.operation.head, AccessHead)
            self._add_access(item.operation, item.position, group)
        for row in stored.values():
            self.access.group(row.author, row.proof, row.number)
        self._stored_groups = set(stored)
        self.access.judge()

    # --- looking up -------------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether the mode can be read; a closed document is not served, searched, run or listed, and never deleted."""
        return self.head.mode in MODES

    @property
    def heads(self) -> list[OperationId]:
        """The accepted heads, ascending."""
        return sorted(self.liveness.heads.values())

    def find(self, identity: OperationId) -> Known | None:
        """What is known of an admitted operation, or None."""
        return self._recent.get(identity) or self._older.get(identity) or self._index.find(identity)

    def known(self, identity: OperationId) -> Known:
        """Like ``find``, of an operation that must be in the set."""
        found = self.find(identity)
        assert found is not None, "an operation that the document rests on is gone from the store"
        return found

    def id_at(self, position: Position) -> OperationId:
        """The id at a position in the set."""
        head = self.liveness.heads.get(position)
        if head is not None:
            return head
        try:
            return self._index.id_at(position)
        except LookupError:  # it waits for its commit
            recent = (item for at in (self._recent, self._older) for item in at.items())
            return next(identity for identity, known in recent if known.position == position)

    def is_live(self, identity: OperationId) -> bool:
        """Whether an operation of the set is accepted, or an ancestor of something accepted."""
        position = self.known(identity).position
        return self.liveness.frontier.get(position.stretch, -1) >= position.seq

    def accepted(self, known: Known) -> bool:
        if self.liveness.parked and self.liveness.is_parked(known.position):
            return False
        return self.access.accepts(self.access.by_number[known.group], known.kind, known.position)

    # --- receiving --------------------------------------------------------------------------------------------------

    def receive(
        self, operations: Sequence[Operation], *, now: int, local: bool, verified: frozenset[OperationId] | None = None
    ) -> Received:
        """Admit what can be admitted. ``verified`` are those whose own signature was checked; None means all were.

        now is microseconds since the epoch. The operations are authentic already (``core.authentic``).
        """
        outcome = Received([], [], [], [], [], [])
        pending: list[tuple[Operation, Known, tuple[Position, ...]]] = []
        due = False
        for operation in operations:
            try:
                admitted = self._admit(operation, now, outcome)
            except Refused as refusal:
                outcome.refused.append((operation, refusal))
                continue
            if admitted is not None:
                known, deps, judge = admitted
                due |= judge
                pending.append((operation, known, deps))
        if due:
            self._rejudge()
            outcome.rejudged = True
        for operation, known, deps in pending:
            accepted = self.accepted(known)
            if accepted and not due:
                self.liveness.accept(known.position, operation.id, deps)
            checked = verified is None or operation.id in verified
            outcome.operations.append(
                NewOperation(operation, known.position, deps, known.group, accepted, checked, local, now)
            )
        if due:
            self.liveness.rebuild(self)
        return outcome

    def _admit(
        self, operation: Operation, now: int, outcome: Received
    ) -> tuple[Known, tuple[Position, ...], bool] | None:
        """Put an operation into its place, or note why it has none. Raises Refused for what no peer may admit."""
        if operation.document != self.id:  # the document of another genesis is its own
            raise WrongDocument
        find = self.find
        if not self._ends_in(operation.backlink) and find(operation.id) is not None:
            outcome.known.append(operation)
            return None
        parents: list[Known] = []
        for identity in operation.parents:
            found = find(identity)
            if found is None:
                missing = tuple(identity for identity in operation.parents if find(identity) is None)
                outcome.missing.append((operation, missing))
                return None
            parents.append(found)
        latest = self._check(operation, parents)
        wait = operation.time - now - JUMP_AHEAD_MICROSECONDS
        if wait > 0 and operation.time - latest > JUMP_STEP_MICROSECONDS:
            outcome.withheld.append((operation, wait))
            return None
        return self._place(operation, parents, outcome)

    def _ends_in(self, identity: OperationId | None) -> bool:
        """Whether no operation follows this one in its log: then one that does is new, which spares looking it up."""
        known = None if identity is None else self.find(identity)
        if known is None:
            return False
        return self.graph.stretches[known.position.stretch].last == known.position.seq and not self.graph.forks.get(
            known.position
        )

    def _check(self, operation: Operation, parents: Sequence[Known]) -> int:
        """Check what the ancestors show; return the time of the latest parent."""
        if operation.kind == "genesis":
            return operation.time
        if operation.backlink is not None:
            before = parents[0]
            stretch, seq = before.position
            log = self.graph.stretches[stretch].log
            if seq + 1 != operation.seq or log.log != operation.log or log.author != operation.author:
                raise BadChain
            proof = operation.proof
            inherited = self.access.by_number[before.group].proof_id
            if proof not in (inherited, self.genesis.id) and proof not in operation.deps:
                raise BadProof
        latest = parents[0].time
        for parent in parents:
            latest = max(latest, parent.time)
        if operation.time <= latest:
            raise BadTime
        return latest

    def _place(
        self, operation: Operation, parents: Sequence[Known], outcome: Received
    ) -> tuple[Known, tuple[Position, ...], bool]:
        group = self.access.group(operation.author, operation.proof)
        if group.number not in self._stored_groups:
            self._stored_groups.add(group.number)
            self._new_groups.append(group)
        before = None if operation.backlink is None else parents[0].position
        deps = tuple([parent.position for parent in (parents if before is None else parents[1:])])
        stretch = self._stretch_for(operation, before, outcome)
        if deps:
            stretch.merges.append(operation.seq, deps)
        position = Position(stretch.number, operation.seq)
        self.runs.note(position, group.number)
        self._touched.add(stretch.number)
        known = Known(position, operation.time, group.number, operation.kind, group.author)
        self._recent[operation.id] = known
        if self.liveness.parked:
            self.liveness.park_with(position, (parent.position for parent in parents))
        if type(operation.head) is AccessHead:
            return known, deps, self._add_access(operation, position, group)
        if type(operation.head) is RedactHead:
            self.has_redactions = True
            self.redactions.setdefault(OperationId(operation.head.target), []).append(operation.id)
        return known, deps, False

    def _stretch_for(self, operation: Operation, before: Position | None, outcome: Received) -> Stretch:
        if before is not None:
            stretch = self.graph.stretches[before.stretch]
            if stretch.last == before.seq:
                stretch.last = operation.seq
                return stretch
        log = LogKey(operation.author, operation.log)
        if before is not None or log in self.graph.logs:
            outcome.forked.append(log)
        number, self._next_stretch = self._next_stretch, self._next_stretch + 1
        return self.graph.start(number, log, before, operation.seq)

    def _add_access(self, operation: Operation, position: Position, group: Group) -> bool:
        head = operation.head
        assert isinstance(head, AccessHead)
        known = (self.find(OperationId(identity)) for identity in head.admits)
        listed = [target.position for target in known if target is not None]
        return self.access.add(operation.id, position, group, head, listed)

    # --- judging anew -----------------------------------------------------------------------------------------------

    def _rejudge(self) -> None:
        for group in self.access.judge():
            self._due.update(((stretch, group.number), None) for stretch in self.runs.stretches_of(group.number))

    def _verdict(self, group: Group, stretch: int) -> Verdict:
        limit = min(self.access.limit(group, stretch), self.liveness.parked.get(stretch, (EVERYTHING, 0))[0] - 1)
        admitted = (
            seq
            for seq in self.access.admitted_above(group, stretch, limit)
            if not self.liveness.is_parked(Position(stretch, seq))
        )
        insufficient = self.access.insufficient(group, stretch)
        return Verdict(self.id, stretch, group.number, limit, tuple(admitted), tuple(insufficient))

    def park(self, position: Position, until: int) -> None:
        """Hold back an own operation that jumps, and all that descends from it: no heads, no deps, no have."""
        self._reparked(self.liveness.park(position, until))

    def unpark(self, now: int) -> bool:
        """Take back what was held back until now; True if there was any."""
        stretches = self.liveness.unpark(now)
        self._reparked(stretches)
        return bool(stretches)

    def _reparked(self, stretches: set[int]) -> None:
        if not stretches:
            return
        self._touched |= stretches
        for stretch in sorted(stretches):
            self._due.update(((stretch, group), None) for group in sorted(self.runs.groups_on(stretch)))
        self._rejudge()
        self.liveness.rebuild(self)

    def changes(self) -> Changes:
        """The rows that changed; the caller commits them with the operations, and the verdicts after these."""
        self._touched |= self.liveness.drain_changed()
        rows = [self._row(number) for number in sorted(self._touched)]
        groups = [GroupRow(self.id, group.number, group.author, group.proof_id) for group in self._new_groups]
        verdicts = [self._verdict(self.access.by_number[group], stretch) for stretch, group in self._due]
        self._touched = set()
        self._new_groups = []
        self._due = {}
        self._begun += 1
        if len(self._recent) > RECENT_MAX and self._stored >= self._oldest:
            self._older, self._recent, self._oldest = self._recent, {}, self._begun
        return Changes(rows, groups, verdicts, tuple(self.heads))

    def stored(self) -> None:
        """What the next call of ``changes`` gave, in their order, is committed: it can be looked up in the index."""
        self._stored += 1

    def _row(self, number: int) -> StretchRow:
        stretch = self.graph.stretches[number]
        parked_from, parked_until = self.liveness.parked.get(number, (None, 0))
        live = self.liveness.frontier.get(number, -1)
        return StretchRow(
            self.id, number, stretch.log, stretch.base, stretch.first, stretch.last, live,
            self.runs.of(number), parked_from, parked_until,
        )  # fmt: skip
