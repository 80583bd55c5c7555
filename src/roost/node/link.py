"""A live connection with one peer: frames in, frames out, one channel per document."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from roost.adapters.carriers.carrier import LinkClosed, Wire
from roost.core import sync, wire
from roost.core.errors import Busy, Malformed, NotAReader, Refused, RoostError
from roost.core.ids import DocumentId
from roost.core.parked import Space
from roost.node.channel import Channel

if TYPE_CHECKING:
    from roost.node.peer import Peer

VERSION = 1
QUEUE_BYTES_MAX = 16 << 20  # frames that wait for a slow peer; beyond, the link is closed and found again later
ROOM_BYTES = 2 << 20  # frames that may wait before more contents are read for it
ADMITTING_BYTES_MAX = 8 << 20  # unpacked, and not committed yet: a kilobyte of frame can hold 4 MiB of it
STRANGE_MAX = 1024  # messages per tick about what the other side may not read; an honest one asks once per document
TICK_SECONDS = 30.0


class Link:
    """Owned by ``Links``; ``run`` returns when the connection is over."""

    def __init__(self, peer: Peer, connection: Wire) -> None:
        self.wire = connection
        self.space = Space()
        self.since = peer.environment.now()
        self.channels: dict[DocumentId, Channel] = {}
        self.clock_ahead = 0  # microseconds that the other side's clock is ahead of ours, as it said in its hello
        self._peer = peer
        self._out: deque[bytes] = deque()
        self._out_bytes = 0
        self._admitting_bytes = 0
        self._moved = asyncio.Event()  # something was sent or admitted
        self._strange = 0  # since the last tick
        self._wake = asyncio.Event()
        self._ended: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Speak with the other side until the connection is closed."""
        writer = asyncio.ensure_future(self._write())
        ticker = asyncio.ensure_future(self._tick())
        try:
            urls = tuple(self._peer.addresses())[: wire.URLS_MAX]
            self.send(wire.Hello(VERSION, self._peer.environment.now(), urls))
            self._open_all()
            await self._read()
        except LinkClosed:
            pass
        except Refused as refusal:
            self._peer.links.count(refusal.code)
            self.end(refusal.code)
        finally:
            await self._finish(writer, ticker)

    async def _finish(self, writer: asyncio.Task[None], ticker: asyncio.Task[None]) -> None:
        if self._ended is not None:
            await self.wire.close(self._ended)
        for channel in self.channels.values():
            channel.close()
        self.channels.clear()
        tasks = [writer, ticker, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.wire.close(self._ended or "")

    def end(self, code: str) -> None:
        """Close the connection, saying why."""
        if self._ended is None:
            self._ended = code
            self.start(self.wire.close, code)

    # --- frames -----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while self._ended is None:
            while self._admitting_bytes > ADMITTING_BYTES_MAX:
                await self._next_move()
            message = wire.decode_frame(await self.wire.receive())
            document = wire.document_of(message)
            match message:
                case wire.Hello():
                    self._on_hello(message)
                case wire.Address():  # it may write to the disk: one at a time, and nothing is read meanwhile
                    await self._guarded(self._peer.links.learn, message, self)
                case wire.Ephemeral():
                    self._peer.links.on_ephemeral(message, self)
                case wire.Close() if document is not None:
                    self.drop(document)
                case wire.Error() if document is None:
                    self.end(message.code)
                case _ if document is not None:
                    self._on_document(document, message)

    def _on_hello(self, hello: wire.Hello) -> None:
        if hello.version != VERSION:
            raise Malformed("link version")
        self.clock_ahead = hello.clock - self._peer.environment.now()
        self._peer.links.on_clock(self)

    def _on_document(self, document: DocumentId, message: wire.Message) -> None:
        channel = self.channels.get(document) or self.open(document)
        if channel is not None:
            channel.receive(message)
        elif not isinstance(message, wire.Error):
            self._peer.links.count(NotAReader.code)
            self._strange += 1
            if self._strange > STRANGE_MAX:
                raise Busy
            self.send(wire.Error(document, NotAReader.code, ""))

    def send(self, message: wire.Message) -> None:
        """Queue a message; a peer that takes nothing for long loses the link, never memory."""
        frame = wire.encode(message)
        self._out.append(frame)
        self._out_bytes += len(frame)
        self._wake.set()
        if self._out_bytes > QUEUE_BYTES_MAX:
            self.end(Busy.code)

    async def _write(self) -> None:
        while True:
            while self._out:
                frame = self._out.popleft()
                try:
                    await self.wire.send(frame)
                except LinkClosed:
                    return
                self._out_bytes -= len(frame)
                self._moved.set()
            self._wake.clear()
            await self._wake.wait()

    async def _tick(self) -> None:
        while True:
            jitter = self._peer.environment.random(1)[0] / 255
            await asyncio.sleep(TICK_SECONDS * (0.8 + 0.4 * jitter))
            now = self._peer.environment.now()
            self._strange = 0
            self._open_all()
            for replica in self._peer.documents.opened():
                self.start(replica.unpark)
            for channel in list(self.channels.values()):
                channel.handle(sync.Tick(now))

    # --- channels ---------------------------------------------------------------------------------------------------

    def _open_all(self) -> None:
        for document in self._peer.links.documents_with(self.wire.peer):
            self.open(document)

    def open(self, document: DocumentId) -> Channel | None:
        """Speak about a document, if the other side may read it; None if it may not."""
        channel = self.channels.get(document)
        if channel is not None:
            return channel
        copy = self._peer.links.copies.of(document)
        if not copy.may_read(self.wire.peer):
            return None
        channel = self.channels[document] = Channel(self._peer, self, document, copy)
        channel.handle(sync.Started())
        self.tell_addresses(document)
        return channel

    def tell_addresses(self, document: DocumentId) -> None:
        if self._peer.documents.holds(document):
            for record in self._peer.membership.records(document):
                self.send(record)

    def recheck(self, document: DocumentId) -> None:
        """Roles may have changed: begin to speak about the document, or fall silent."""
        copy = self._peer.links.copies.of(document)
        if not copy.may_read(self.wire.peer):
            if document in self.channels:
                self.send(wire.Error(document, NotAReader.code, ""))
                self.drop(document)
            return
        channel = self.open(document)
        if channel is not None:
            channel.handle(sync.AccessChanged())

    def drop(self, document: DocumentId) -> None:
        channel = self.channels.pop(document, None)
        if channel is not None:
            channel.close()

    # --- work -------------------------------------------------------------------------------------------------------

    def start(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Do something on behalf of this link; it is cancelled when the link ends."""
        task = asyncio.ensure_future(self._guarded(work, *arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        try:
            await work(*arguments)
        except LinkClosed:
            pass
        except RoostError as error:
            self._peer.links.count(error.code)
            self.end(error.code)

    def admitting(self, size: int) -> None:
        """Operations of so many bytes are being admitted; with too many, nothing further is read."""
        self._admitting_bytes += size

    def admitted(self, size: int) -> None:
        """They are committed, or never will be."""
        self._admitting_bytes -= size
        self._moved.set()

    async def room(self) -> None:
        """Wait until the other side has taken most of what was sent."""
        while self._out_bytes > ROOM_BYTES:
            await self._next_move()

    async def _next_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    def soon(self, action: Callable[..., None], *arguments: object) -> None:
        """Do something in the next round of the loop, so that others come in between."""
        asyncio.get_running_loop().call_soon(action, *arguments)
