"""One document on one link: runs the sync machine and carries out its effects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from roost.adapters.store.records import Packed
from roost.core import sync, wire
from roost.core.errors import RoostError, Unreachable
from roost.core.ids import DocumentId, OperationId
from roost.core.outcome import NewOperation
from roost.core.receiving import Admit, Admitted
from roost.core.sending import Read
from roost.node.copies import Copy
from roost.node.replica import Replica
from roost.node.rewriting import rewrite

if TYPE_CHECKING:
    from roost.node.link import Link
    from roost.node.peer import Peer

CONTENTS_AT_ONCE = 8  # of at most 944 KiB each


class Channel:
    """A sync machine with what it needs of the node."""

    def __init__(self, peer: Peer, link: Link, document: DocumentId, copy: Copy) -> None:
        self.document = document
        self.rejected: str | None = None  # the code with which the other side last refused this document
        self.last_equal: int | None = None  # microseconds: when both sides were last seen to hold the same
        self._peer = peer
        self._link = link
        self._copy = copy
        self._machine = sync.SyncMachine(document, link.wire.peer, copy, leads=link.wire.dialled, space=link.space)
        self._stream = -1
        self._pieces: Iterator[list[Packed]] = iter(())
        self._equal: set[asyncio.Future[None]] = set()
        self._closed = False

    # --- events in --------------------------------------------------------------------------------------------------

    def handle(self, event: sync.Event) -> None:
        if self._closed:
            return
        for effect in self._machine.handle(event):
            self._carry_out(effect)

    def receive(self, message: wire.Message) -> None:
        self.handle(sync.Received(message, self._peer.environment.now()))
        if isinstance(message, wire.Digest):
            self._note_digest(message.digest)

    def committed(self, new: Sequence[NewOperation]) -> None:
        self.handle(sync.Committed(new))

    def contents_stored(self, ids: Sequence[OperationId]) -> None:
        self.handle(sync.ContentsStored(ids))

    @property
    def parked(self) -> int:
        return self._machine.parked

    def close(self) -> None:
        self._closed = True
        self._machine.close()
        self._fail_waiters()

    # --- effects out ------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: sync.Effect) -> None:
        match effect:
            case sync.Send(message):
                self._link.send(message)
            case Read():
                self._link.soon(self._read, effect)
            case Admit():
                size = sum(operation.size for operation in effect.operations)
                self._link.admitting(size)
                self._link.start(self._admit, effect, size)
            case sync.ReadContents(ids):
                self._link.start(self._read_contents, ids)
            case sync.TakeContents(contents):
                self._link.start(self._take_contents, contents)
            case sync.ToldToWait(waits):
                self._link.start(self._wait, waits)
            case sync.Rejected(code):
                self.rejected = code
                self._fail_waiters()
            case sync.CloseLink(code):
                self._peer.links.count(code)
                self._link.end(code)

    def _read(self, effect: Read) -> None:
        replica = self._copy.replica
        if self._closed or replica is None:
            return
        if effect.stream != self._stream:
            self._stream = effect.stream
            self._pieces = self._peer.store.reader.missing(self.document, effect.ranges, effect.bytes_max)
        self.handle(sync.ChunkRead(effect.stream, next(self._pieces, [])))

    async def _read_contents(self, ids: Sequence[OperationId]) -> None:
        """Piece by piece, as the other side takes them: together they may be a gigabyte."""
        for at in range(0, len(ids), CONTENTS_AT_ONCE):
            await self._link.room()
            if self._closed:
                return
            piece = ids[at : at + CONTENTS_AT_ONCE]
            rows = {row.operation.id: row.operation for row in self._peer.store.reader.operations(piece)}
            found = [
                (one, rows[one].content if one in rows and rows[one].document == self.document else None)
                for one in piece
            ]
            self.handle(sync.ContentsRead(found))

    async def _admit(self, effect: Admit, size: int) -> None:
        try:
            await self._take(effect)
        finally:
            self._link.admitted(size)

    async def _take(self, effect: Admit) -> None:
        new = self._copy.replica is None
        try:
            replica = await self._copy.founded(effect.operations)
            received = await replica.receive(effect.operations, effect.verified, self._link)
        except RoostError as error:
            self._peer.links.count(error.code)
            self._link.end(error.code)
            return
        if new:
            self._link.tell_addresses(self.document)
        for _, refusal in received.refused:
            self._peer.links.count(refusal.code)
        for log in received.forked:
            self._peer.links.warn_fork(replica, log)
        self.handle(
            Admitted(
                effect.ticket,
                received.missing,
                [(operation.id, wait) for operation, wait in received.withheld],
                [(operation.id, refusal.code) for operation, refusal in received.refused],
            )
        )
        if self._equal and not self._machine.admitting:
            self.compare()

    async def _take_contents(self, contents: Sequence[tuple[OperationId, bytes]]) -> None:
        replica = self._copy.replica
        if replica is not None:
            await replica.take_contents(fitting(self._peer, replica, contents))

    async def _wait(self, waits: Sequence[wire.Wait]) -> None:
        """Others find own operations too far ahead: hold them back here too, and write their contents again."""
        replica = self._copy.replica
        if replica is None:
            return
        now = self._peer.environment.now()
        for wait in waits:
            until = now + wait.microseconds
            await rewrite(replica, self._peer.store.reader, self._peer.key.public, wait.id, until)

    # --- being equal ------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Begin a round now."""
        self.handle(sync.CompareNow())

    async def equal(self) -> None:
        """Wait until both sides are seen to hold the same. Raises Unreachable when the link ends before."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._equal.add(future)
        try:
            self.compare()
            await future
        finally:
            self._equal.discard(future)

    def _note_digest(self, digest: bytes) -> None:
        if self._copy.replica is None or digest != self._copy.holdings.digest():
            return
        self.last_equal = self._peer.environment.now()
        if (wanted := self._peer.membership.wanted(self.document)) is not None:
            self._link.start(self._peer.membership.settle_name, self.document, wanted.name)
        for future in self._equal:
            if not future.done():
                future.set_result(None)

    def _fail_waiters(self) -> None:
        for future in self._equal:
            if not future.done():
                future.set_exception(Unreachable("the link ended, or the other side does not share it"))


def fitting(
    peer: Peer, replica: Replica, contents: Sequence[tuple[OperationId, bytes]]
) -> list[tuple[OperationId, bytes]]:
    """The contents that have the hash of an operation of this document whose content is absent."""
    found = []
    by_id = dict(contents)
    for row in peer.store.reader.operations(list(by_id)):
        operation = row.operation
        content = by_id[operation.id]
        right_size = len(content) == operation.body_size - len(operation.head_bytes)
        if operation.document == replica.id and right_size and sha256(content).digest() == operation.content_hash:
            found.append((operation.id, content))
    return found
