"""One document as this peer runs it: the core document, its store, and the order "commit, then answer".

Everything between two awaits sees one consistent document. If a commit fails, the memory is ahead of the disk: the
replica turns ``broken`` and whoever holds it asks ``Documents`` for a fresh one, loaded from what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from roost.adapters.environment import Environment
from roost.adapters.store.records import Batch, Content, DocumentState, Erase, LocalRow, NewDocument, OrderKey
from roost.adapters.store.store import Store
from roost.core import operation as operations
from roost.core.access import ROLES
from roost.core.author import Author
from roost.core.document import Document, Received
from roost.core.errors import NotAnAdmin, RoostError, StoreFailed
from roost.core.graph import Frontier
from roost.core.have import Holdings
from roost.core.heads import AccessHead, EntryHead, GenesisHead, RedactHead
from roost.core.ids import DocumentId, LogId, OperationId
from roost.core.index import Known
from roost.core.keys import SigningKey
from roost.core.operation import Operation
from roost.core.outcome import NewOperation
from roost.core.redaction import effect, erased_by, is_hidden
from roost.node.transcript import Transcript, branch_of

PAGE = 1000
EMPTY_HEAD = b"\x80"  # an empty map: a join says nothing


class End(NamedTuple):
    """The end of the current branch: (time, id) of its last entry."""

    branch: bytes
    last: tuple[int, OperationId] | None


class Listener(Protocol):
    """Whom a replica tells what was committed, in the order of the commits."""

    def committed(self, replica: Replica, new: Sequence[NewOperation], source: object) -> None:
        """New operations; ``source`` is the link that brought them, or None."""

    def redacted(self, replica: Replica, ids: Sequence[OperationId]) -> None:
        """Whether these contents are shown may have changed."""

    def filled(self, replica: Replica, ids: Sequence[OperationId]) -> None:
        """Contents that were absent have come."""


class Replica:
    """A document, opened on this peer."""

    def __init__(
        self,
        document: Document,
        store: Store,
        key: SigningKey,
        environment: Environment,
        listener: Listener,
        log: LogId | None,
    ) -> None:
        self.document = document
        self.id: DocumentId = document.id
        self.broken = False
        self.distrusts_clock = False  # others said that it runs ahead; then time is 1 + the latest parent's
        self._store = store
        self._key = key
        self._environment = environment
        self._listener = listener
        self._author: Author | None = None
        self._index = store.reader.index(document.id)
        self.holdings = Holdings(document.graph, document.id_at, document.liveness.parked)
        self._log = log
        self._sending: dict[str, asyncio.Future[OperationId]] = {}
        self._end: End | None = None

    # --- looking ----------------------------------------------------------------------------------------------------

    def find(self, operation: OperationId) -> Known | None:
        """An operation of the set, committed or about to be."""
        return self.document.find(operation)

    def ids_between(self, stretch: int, low: int, high: int) -> list[OperationId]:
        """The ids of committed operations along a stretch, both ends included."""
        return [identity for _, identity in self._store.reader.ids_between(self.id, stretch, low, high)]

    def hides(self, operation: OperationId) -> bool:
        """Whether an accepted redact says that the operation's content is shown to nobody."""
        return self.document.has_redactions and is_hidden(self.document, operation, self._index)

    def committed_live(self) -> Frontier:
        """The live frontier, as far as it is committed."""
        last = self.holdings.last
        return {stretch: min(seq, last(stretch)) for stretch, seq in self.document.liveness.frontier.items()}

    def parked_count(self) -> int:
        """How many operations this peer holds back for jumping ahead of others' clocks."""
        stretches = self.document.graph.stretches
        return sum(stretches[number].last - first + 1 for number, (first, _) in self.document.liveness.parked.items())

    def may_write(self) -> bool:
        role = self.document.access.role(self._key.public)
        return role is not None and ROLES[role] >= ROLES["write"]

    def require_admin(self) -> None:
        """Raises NotAnAdmin."""
        if self.document.access.role(self._key.public) != "admin":
            raise NotAnAdmin

    # --- writing ----------------------------------------------------------------------------------------------------

    async def append(
        self, kind: str, head: bytes, content: bytes = b"", *, key: str | None = None, rows: Sequence[LocalRow] = ()
    ) -> Operation:
        """Write one operation; returns after its commit. ``rows`` of this peer's own are committed with it.

        Raises NotAWriter or NotAnAdmin, StoreFailed, and what ``operation.create`` refuses. ``key``: see ``sent``.
        """
        writing = self.begin()
        made = writing.add(kind, head, content)
        if key is None:
            await writing.commit(rows)
            return made
        done = self._sending[key] = asyncio.get_running_loop().create_future()
        try:
            await writing.commit(rows)
            done.set_result(made.id)
        except RoostError as error:
            done.set_exception(error)
            done.exception()  # whoever else waits gets it too; nobody waiting is no fault
            raise
        finally:
            del self._sending[key]
        return made

    async def keep(self, rows: Sequence[LocalRow]) -> None:
        """Commit rows of this peer's own."""
        if rows:
            await self._store.commit(Batch(local=list(rows)))

    def sent(self, key: str) -> Awaitable[OperationId] | None:
        """The entry that this peer wrote under an idempotency key, once it is committed; None if there is none."""
        if key in self._sending:
            return asyncio.shield(self._sending[key])
        found = [row for row in self._store.reader.by_key(self.id, self._key.public, key) if row.accepted]
        if not found:
            return None
        done: asyncio.Future[OperationId] = asyncio.get_running_loop().create_future()
        done.set_result(found[0].operation.id)
        return done

    def place(self, transcript: Transcript) -> tuple[OperationId | None, bytes]:
        """(entry that the next one continues, branch): the end of the current branch."""
        if self._end is None:
            branch = transcript.current_branch()
            tip = transcript.tip(branch)
            self._end = End(branch, None if tip is None else (tip.operation.time, tip.operation.id))
        return (None if self._end.last is None else self._end.last[1]), self._end.branch

    def _follow_end(self, new: Sequence[NewOperation]) -> None:
        """Keep the end of the current branch up with what was admitted."""
        for item in new:
            head = item.operation.head
            if self._end is None or type(head) is not EntryHead:
                continue
            if head.type == "select":
                self._end = None
            elif item.accepted and branch_of(item.operation.id, head) == self._end.branch:
                last = (item.operation.time, item.operation.id)
                if self._end.last is None or last > self._end.last:
                    self._end = End(self._end.branch, last)

    def begin(self) -> Writing:
        """Start writing; the caller adds operations and commits before it awaits anything else."""
        if self.broken:
            raise StoreFailed("an earlier write failed; try again")
        return Writing(self)

    def sign(
        self, batch: Batch, kind: str, head: bytes, content: bytes, also: Sequence[OperationId]
    ) -> list[NewOperation]:
        """Sign one operation, after the joins it needs, into the document; the batch takes a new log's number."""
        written: list[NewOperation] = []
        author = self._writing(batch)
        now = self._environment.now()
        for drafted, draft in author.drafts(kind, 0 if self.distrusts_clock else now, also):
            joining = drafted != kind
            made = operations.create(
                self._key,
                document=self.id,
                log=author.log,
                seq=draft.seq,
                backlink=draft.backlink,
                deps=draft.deps,
                proof=draft.proof,
                kind=drafted,
                time=draft.time,
                head_bytes=EMPTY_HEAD if joining else head,
                content=b"" if joining else content,
            )
            received = self.document.receive([made], now=now, local=True)
            assert len(received.operations) == 1, "what this peer drafts it also admits"
            author.wrote(made.id)
            written.extend(received.operations)
        return written

    def _writing(self, batch: Batch) -> Author:
        """The author on a log that may be continued; a new log's number is committed with its first operation."""
        if self._author is None:
            log = self._log or self._fresh_log(batch)
            self._author = Author(self.document, self._key.public, log)
        if self._author.wants_new_log():
            self._author.take_log(self._fresh_log(batch))
        return self._author

    def _fresh_log(self, batch: Batch) -> LogId:
        log = LogId(self._environment.random(8))
        batch.local.append(LocalRow("logs", self.id, log))
        return log

    # --- receiving --------------------------------------------------------------------------------------------------

    async def receive(
        self, incoming: Sequence[Operation], verified: frozenset[OperationId], source: object
    ) -> Received:
        """Take in authentic operations that ``source`` brought; returns after the commit of what was admitted."""
        if self.broken:
            raise StoreFailed("an earlier write failed; try again")
        now = self._environment.now()
        screened = self._screened(incoming)
        received = self.document.receive(screened, now=now, local=False, verified=verified)
        batch = Batch()
        pairs = zip(screened, incoming, strict=True)
        taken = {new.id: OperationId(new.absence) for new, old in pairs if new is not old}
        ids = [item.operation.id for item in received.operations]
        batch.erasures = [Erase(one, taken[one]) for one in ids if one in taken]
        batch.contents = [
            Content(known.id, known.content)
            for known in received.known
            if known.content and self._index.is_absent(known.id)
        ]
        if received.operations or batch.contents:
            await self.commit(batch, received.operations, source)
        elif any(not self.holdings.holds(known.position) for one in received.known if (known := self.find(one.id))):
            await self._store.commit(Batch())  # another link brought it: its commit is over when this one is
        return received

    def _screened(self, incoming: Sequence[Operation]) -> Sequence[Operation]:
        """Throw away the content of what is redacted here already; its hash was checked."""
        if not self.document.has_redactions:
            return incoming
        index = self._index
        screened = []
        for operation in incoming:
            by = erased_by(self.document, operation, index)
            screened.append(operation if by is None else operation.without_content(by))
        return screened

    async def found(
        self, genesis: Operation, document: NewDocument, *, local: bool, rows: Sequence[LocalRow] = ()
    ) -> None:
        """Commit the genesis of a new document."""
        received = self.document.receive([genesis], now=self._environment.now(), local=local)
        batch = Batch(documents=[document], local=list(rows))
        if local:
            self._log = genesis.log
            batch.local.append(LocalRow("logs", self.id, genesis.log))
        await self.commit(batch, received.operations)

    # --- clocks -----------------------------------------------------------------------------------------------------

    async def park(self, identity: OperationId, until: int) -> bool:
        """Hold back an own operation that others find too far ahead, with its descendants; False if it is already."""
        known = self.document.find(identity)
        if known is None or self.document.liveness.is_parked(known.position):
            return False
        self.document.park(known.position, until)
        self.holdings.reparked()
        self.distrusts_clock = True
        await self._commit_changes()
        return True

    async def unpark(self) -> None:
        """Take back what was held back until now."""
        if self.document.liveness.parked and self.document.unpark(self._environment.now()):
            self.holdings.reparked()
            await self._commit_changes()

    async def take_contents(self, contents: Sequence[tuple[OperationId, bytes]]) -> None:
        """Store contents that were absent; their hashes were checked."""
        wanted = [(one, content) for one, content in contents if not self._is_redacted(one)]
        batch = Batch(contents=[Content(one, content) for one, content in wanted])
        batch.stored = lambda: self._listener.filled(self, [one for one, _ in wanted])
        if wanted:
            await self._store.commit(batch)

    def _is_redacted(self, identity: OperationId) -> bool:
        row = self._store.reader.operation(identity)
        return row is None or erased_by(self.document, row.operation, self._index) is not None

    async def _commit_changes(self) -> None:
        batch = Batch()
        await self.commit(batch, [])

    # --- committing -------------------------------------------------------------------------------------------------

    def _complete(self, batch: Batch, new: Sequence[NewOperation]) -> list[OperationId]:
        """Put everything that follows from ``new`` into the batch; returns whose redaction may have changed."""
        changes = self.document.changes()
        if changes.verdicts:
            self._end = None
        self._follow_end(new)
        batch.operations.extend(new)
        batch.stretches = changes.stretches
        batch.groups = changes.groups
        batch.verdicts = changes.verdicts
        batch.states = [DocumentState(self.id, changes.heads)]
        redacts: Iterable[Operation] = [item.operation for item in new]
        if changes.verdicts and self.document.has_redactions:  # one that was void may count again
            redacts = chain(redacts, self._redacts())
        redacted: list[OperationId] = []
        for operation in redacts:
            if type(operation.head) is RedactHead:
                target = OperationId(operation.head.target)
                redacted.append(target)
                if effect(self.document, operation) == "erase":
                    batch.erasures.append(Erase(target, operation.id))
        return redacted

    def _redacts(self) -> Iterator[Operation]:
        """All that are stored."""
        after: OrderKey | None = None
        while True:
            page = self._store.reader.of_kind(self.id, "redact", after=after, limit=PAGE)
            yield from (row.operation for row in page)
            if len(page) < PAGE:
                return
            after = OrderKey(page[-1].operation.time, page[-1].operation.id)

    async def commit(self, batch: Batch, new: Sequence[NewOperation], source: object = None) -> None:
        """Commit what the document took in, then announce it. After a failure the replica is broken."""
        redacted = self._complete(batch, new)
        # Called also if this task is cancelled while the disk is busy.
        batch.stored = lambda: self._stored(redacted, new, source)
        try:
            await self._store.commit(batch)
        except RoostError:
            self.broken = True
            raise

    def _stored(self, redacted: Sequence[OperationId], new: Sequence[NewOperation], source: object) -> None:
        self.document.stored()
        self.holdings.stored(item.position for item in new)
        if redacted:
            self._listener.redacted(self, redacted)
        if new:
            self._listener.committed(self, new, source)


class Writing:
    """Operations that are signed one by one, each seeing the last, and committed together."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._batch = Batch()
        self._written: list[NewOperation] = []

    def add(self, kind: str, head: bytes, content: bytes = b"", also: Sequence[OperationId] = ()) -> Operation:
        """Sign an operation into the document; ``also``: see Author.drafts. Raises NotAWriter, NotAnAdmin."""
        self._written += self._replica.sign(self._batch, kind, head, content, also)
        return self._written[-1].operation

    async def commit(self, rows: Sequence[LocalRow] = ()) -> None:
        """Returns when all of it is durable. Raises StoreFailed or Conflict: then none of it is."""
        self._batch.local.extend(rows)
        await self._replica.commit(self._batch, self._written)


def new_document(genesis: Operation, *, local: bool) -> NewDocument:
    """The store's row for a document."""
    head = genesis.head
    assert isinstance(head, GenesisHead)
    origin = head.origin if isinstance(head.origin, str) else None
    return NewDocument(genesis.document, head.kind, head.mode, head.created, origin, local)


def changes_access(new: Sequence[NewOperation]) -> bool:
    return any(type(item.operation.head) is AccessHead for item in new)
