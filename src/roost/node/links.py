"""All links of a peer: whom to dial, for ever; which link to keep when two peers dial each other; who is told what."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from roost.adapters.carriers.carrier import Carrier, Wire
from roost.core import wire
from roost.core.errors import Pending, Unreachable
from roost.core.graph import LogKey
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.outcome import NewOperation
from roost.node.copies import Copies
from roost.node.dialling import Dialler
from roost.node.link import Link
from roost.node.replica import Replica, changes_access
from roost.node.transcript import Json, iso

if TYPE_CHECKING:
    from roost.node.peer import Peer

ODD_CLOCK_MICROSECONDS = 10 * 60 * 1_000_000
EPHEMERAL_QUEUE_MAX = 256  # frames that wait for a listener; the oldest go first
log = logging.getLogger("roost")


class Links:
    """The live connections, by the key of the peer at the other end."""

    def __init__(self, peer: Peer) -> None:
        self.copies = Copies(peer)
        self.refusals: Counter[str] = Counter()
        self._peer = peer
        self._links: dict[PeerKey, Link] = {}
        self._diallers: dict[PeerKey, Dialler] = {}
        self._carrier: Carrier | None = None
        self._changed: set[asyncio.Future[None]] = set()
        self._listeners: dict[DocumentId, set[asyncio.Queue[wire.Ephemeral]]] = {}
        self._warned: set[object] = set()
        self._closing = False

    def start(self, carrier: Carrier) -> None:
        self._carrier = carrier

    async def close(self) -> None:
        """End everything; what is committed is committed."""
        self._closing = True
        for dialler in self._diallers.values():
            dialler.stop()
        await asyncio.gather(*(dialler.stopped() for dialler in self._diallers.values()))
        for link in list(self._links.values()):
            link.end("")

    # --- connections ------------------------------------------------------------------------------------------------

    def want(self, key: PeerKey, addresses: Sequence[str]) -> None:
        """Keep a link with a peer, dialling these addresses for ever until there is one."""
        if self._carrier is None or key == self._peer.key.public or self._closing:
            return
        dialler = self._diallers.get(key)
        if dialler is None:
            self._diallers[key] = Dialler(
                self._carrier, key, addresses, self.serve, lambda: key in self._links, self._peer.nearby
            )
        else:
            dialler.learn(addresses)

    async def serve(self, connection: Wire) -> None:
        """Run a link until it ends. Of two links with one peer both sides keep the same one."""
        key = connection.peer
        before = self._links.get(key)
        if before is not None and self._keeps(before, connection):
            await connection.close("duplicate")
            return
        link = self._links[key] = Link(self._peer, connection)
        if before is not None:
            before.end("duplicate")
        self._tell_changed()
        try:
            await link.run()
        finally:
            if self._links.get(key) is link:
                del self._links[key]
                if key in self._diallers and not connection.dialled:  # else it knows, and has to wait longer each time
                    self._diallers[key].lost()
            self._tell_changed()

    def _keeps(self, before: Link, new: Wire) -> bool:
        """The link that the smaller key dialled stays; of two in one direction the later, as the other end lost one."""
        if before.wire.dialled == new.dialled:
            return False
        return before.wire.dialled == (self._peer.key.public < new.peer)

    def _tell_changed(self) -> None:
        changed, self._changed = self._changed, set()
        for future in changed:
            if not future.done():
                future.set_result(None)

    # --- documents --------------------------------------------------------------------------------------------------

    def documents_with(self, key: PeerKey) -> list[DocumentId]:
        """Documents to speak about with a peer."""
        return self._peer.membership.documents_with(key)

    def announce(self, replica: Replica, new: Sequence[NewOperation], source: object) -> None:
        """Operations were committed."""
        access = changes_access(new)
        for link in list(self._links.values()):
            channel = link.channels.get(replica.id)
            if channel is not None:
                channel.committed(new)
            if access:
                link.recheck(replica.id)

    async def recheck(self, document: DocumentId) -> None:
        """Roles may have changed."""
        for link in list(self._links.values()):
            link.recheck(document)

    def contents_stored(self, document: DocumentId, ids: Sequence[OperationId]) -> None:
        for link in list(self._links.values()):
            channel = link.channels.get(document)
            if channel is not None:
                channel.contents_stored(ids)

    async def learn(self, record: wire.Address, source: Link) -> None:
        """An address record came; what is news is passed on, and who tells its own for the first time is told all."""
        if self._peer.membership.is_overtaken(record):
            source.tell_addresses(record.document)
        if not await self._peer.membership.learn(record):
            return
        if record.key == source.wire.peer:
            source.tell_addresses(record.document)
        for link in list(self._links.values()):
            if link is not source and link.wire.peer != record.key and record.document in link.channels:
                link.send(record)

    # --- being in sync ----------------------------------------------------------------------------------------------

    async def synced(self, document: DocumentId, key: PeerKey, wait_seconds: float) -> None:
        """Wait until the document is the same here and there. Raises Pending when the time is over."""
        try:
            async with asyncio.timeout(wait_seconds):
                while True:
                    link = self._links.get(key)
                    channel = None if link is None else link.open(document)
                    if channel is not None:
                        try:
                            await channel.equal()
                            return
                        except Unreachable:
                            pass  # the link ended, or the other side does not share it yet
                    await self._next_change(1.0)
        except TimeoutError:
            raise Pending("it goes on by itself while a peer runs here") from None

    async def _next_change(self, seconds: float) -> None:
        """Wait until links come or go, at most so long."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            self._changed.discard(future)

    async def exchange(self, document: DocumentId, wait_seconds: float) -> bool:
        """Compare a document with everybody who can be reached now; True if all that were are equal, and one was."""
        members = [key for key in self._peer.membership.members(document) if key in self._diallers]
        try:
            async with asyncio.timeout(wait_seconds):
                await asyncio.gather(*(self._diallers[key].try_now() for key in members))
        except TimeoutError:
            pass  # with whoever was reached
        reached = [key for key in self._links if self.copies.of(document).may_read(key)]
        results = await asyncio.gather(
            *(self.synced(document, key, wait_seconds) for key in reached), return_exceptions=True
        )
        return bool(results) and all(result is None for result in results)

    # --- presence and the like --------------------------------------------------------------------------------------

    def publish(self, document: DocumentId, topic: str, payload: bytes) -> None:
        """Tell every linked reader something that is never stored."""
        message = wire.Ephemeral(document, topic, payload)
        for link in list(self._links.values()):
            if document in link.channels and self.copies.of(document).may_read(link.wire.peer):
                link.send(message)

    def on_ephemeral(self, message: wire.Ephemeral, link: Link) -> None:
        if not self.copies.of(message.document).may_read(link.wire.peer):
            return
        for queue in self._listeners.get(message.document, ()):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(message)

    async def ephemeral(self, document: DocumentId) -> AsyncGenerator[wire.Ephemeral, None]:
        """What linked readers publish, from now on; it proves nothing."""
        queue: asyncio.Queue[wire.Ephemeral] = asyncio.Queue(EPHEMERAL_QUEUE_MAX)
        self._listeners.setdefault(document, set()).add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners[document].discard(queue)

    # --- what people are told ---------------------------------------------------------------------------------------

    def count(self, code: str) -> None:
        """Something was refused."""
        self.refusals[code] += 1

    def on_clock(self, link: Link) -> None:
        if abs(link.clock_ahead) > ODD_CLOCK_MICROSECONDS and link.wire.peer not in self._warned:
            self._warned.add(link.wire.peer)
            minutes = round(link.clock_ahead / 60e6)
            log.warning("the clock of peer %s differs from this one by %d min", link.wire.peer.hex()[:8], minutes)

    def warn_fork(self, replica: Replica, key: LogKey) -> None:
        if key in self._warned:
            return
        self._warned.add(key)
        whose = "this peer's key" if key.author == self._peer.key.public else f"key {key.author.hex()[:8]}"
        log.warning("%s writes in two places: a log of session %s is forked", whose, replica.id.hex()[:8])

    def rows(self, document: DocumentId | None = None) -> list[Json]:
        """The links, or those that speak about a document."""
        return [
            {
                "peer": key.hex(),
                "url": link.wire.address,
                "state": "up",
                "since": iso(link.since),
            }
            for key, link in sorted(self._links.items())
            if document is None or document in link.channels
        ]

    def last_sync(self, document: DocumentId) -> int | None:
        """When this document was last seen to be the same at both ends of a link."""
        times = [
            channel.last_equal
            for link in self._links.values()
            if (channel := link.channels.get(document)) is not None and channel.last_equal is not None
        ]
        return max(times, default=None)

    def parked(self, document: DocumentId) -> int:
        """Operations that came over links and wait for others."""
        return sum(
            channel.parked for link in self._links.values() if (channel := link.channels.get(document)) is not None
        )
