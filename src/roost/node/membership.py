"""Members find each other: who may be dialled where, and joining by a ticket.

Every peer publishes a signed record of its addresses to those it shares documents with, and passes on the records of
others; everyone dials all known members, so the others converge when the sharer is gone, also after restarts on other
ports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from roost.adapters.carriers.carrier import Carrier
from roost.adapters.store.records import Batch, LocalRow
from roost.core import error_codes, keys, wire
from roost.core.errors import Denied, NotFound, Pending, Refused, RoostError, Unreachable
from roost.core.ids import DocumentId, PeerKey
from roost.core.outcome import NewOperation
from roost.core.ticket import NONCE_BYTES, Ticket, invite_mac
from roost.node.joining import GRANTED, JOIN_PATH, JoinRequest, decode_answer, encode
from roost.node.registry import SessionRecord
from roost.node.replica import Replica, changes_access
from roost.node.transcript import Json

if TYPE_CHECKING:
    from roost.node.peer import Peer

DIALS_AT_ONCE = 3
JOIN_SECONDS_MAX = 30.0
RECORDS_PER_DOCUMENT_MAX = 256
STRANGERS_MAX = 256


class Wanted(Struct, frozen=True):
    """A document that this peer joins: whom to ask where, and what to call it here."""

    addresses: tuple[str, ...]
    peer: bytes
    fingerprint: bytes | None
    name: str | None


class Known(Struct, frozen=True):
    """A member's latest address record, verbatim."""

    urls: tuple[str, ...]
    time: int
    signature: bytes


_wanted = msgspec.msgpack.Decoder(Wanted)
_known = msgspec.msgpack.Decoder(Known)


class Membership:
    """Address records, join requests, and the choice of whom to keep links with."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._carrier: Carrier | None = None
        self._own: wire.Address | None = None
        self._last_time = 0
        self._naming = asyncio.Lock()
        self._strangers: dict[tuple[DocumentId, PeerKey], wire.Address] = {}  # perhaps members that are not known yet

    def start(self, carrier: Carrier) -> None:
        """Dial everybody who is known."""
        self._carrier = carrier
        for document in self._shared():
            self.refresh(document)
        for _, wanted in self._wanted_all():
            self._peer.links.want(PeerKey(wanted.peer), wanted.addresses)

    def _shared(self) -> Iterator[DocumentId]:
        """Documents that others hold too, as far as this peer knows."""
        for row in self._peer.store.reader.documents():
            if row.mode == "temporary":
                continue
            if not row.local or self._peer.store.reader.of_kind(row.id, "access", limit=1):
                yield row.id

    def documents_with(self, key: PeerKey) -> list[DocumentId]:
        """Documents to speak about with a peer: those that it may read, and those that it is to bring."""
        shared = [document for document in self._shared() if self._peer.links.copies.of(document).may_read(key)]
        return shared + [
            document for document, wanted in self._wanted_all() if wanted.peer == key and document not in shared
        ]

    # --- addresses --------------------------------------------------------------------------------------------------

    def members(self, document: DocumentId) -> list[PeerKey]:
        """Who holds a role in a document now, this peer left out."""
        access = self._peer.documents.get(document).document.access
        keys_found = {member.key for member in access.members() if not member.revoked}
        return sorted(key for key in keys_found if key != self._peer.key.public and access.may_read(key))

    def refresh(self, document: DocumentId) -> None:
        """Keep a link with every member of a document whose address is known."""
        for key in self.members(document):
            known = self.record_of(key) or self._strangers.pop((document, key), None)
            if known is not None:
                self._peer.links.want(key, known.urls)

    def announce(self, replica: Replica, new: Sequence[NewOperation]) -> None:
        """Roles may have changed."""
        if changes_access(new):
            self.refresh(replica.id)

    def record_of(self, key: PeerKey) -> Known | None:
        raw = self._peer.store.reader.local("addresses", key)
        return None if raw is None else _known.decode(raw)

    def own_record(self, document: DocumentId) -> wire.Address | None:
        """This peer's signed addresses; None while it answers nowhere."""
        urls = tuple(self._peer.addresses())[: wire.URLS_MAX]
        if not urls:
            return None
        if self._own is None or self._own.urls != urls:
            self._last_time = max(self._peer.environment.now(), self._last_time + 1)
            signed = wire.address_bytes(self._peer.key.public, urls, self._last_time)
            signature = self._peer.key.sign(wire.ADDRESS_PREFIX, signed)
            self._own = wire.Address(document, self._peer.key.public, urls, self._last_time, signature)
        return msgspec.structs.replace(self._own, document=document)

    def records(self, document: DocumentId) -> Iterator[wire.Address]:
        """What to tell a reader of a document: the addresses of its members, one's own first."""
        own = self.own_record(document)
        if own is not None:
            yield own
        for key in self.members(document)[:RECORDS_PER_DOCUMENT_MAX]:
            known = self.record_of(key)
            if known is not None:
                yield wire.Address(document, key, known.urls, known.time, known.signature)

    def is_overtaken(self, record: wire.Address) -> bool:
        """Whether others would believe this record, an earlier one of this peer itself, rather than the present one.

        So it is when the clock was set back, and the peer moved since. The next own record is later. Raises
        BadSignature.
        """
        own = self._own
        if record.key != self._peer.key.public or own is None:
            return False
        if record.urls == own.urls or record.time < own.time:
            return False
        _verify(record)
        self._last_time = record.time
        self._own = None
        return True

    async def learn(self, record: wire.Address) -> bool:
        """Take in a record that a peer passed on; True if it was news. Raises BadSignature."""
        key = record.key
        if key == self._peer.key.public:
            return False
        known = self.record_of(key)
        if known is not None and known.time >= record.time:
            return False
        _verify(record)
        if not self._is_expected(record.document, key):
            self._strangers[record.document, key] = record
            if len(self._strangers) > STRANGERS_MAX:
                del self._strangers[next(iter(self._strangers))]
            return False
        row = LocalRow("addresses", key, msgspec.msgpack.encode(Known(record.urls, record.time, record.signature)))
        await self._peer.store.commit(Batch(local=[row]))
        self._peer.links.want(key, record.urls)
        return True

    def _is_expected(self, document: DocumentId, key: PeerKey) -> bool:
        """Whether a key may read a document, or is who the ticket names of one that is still to come."""
        if self._peer.documents.holds(document):
            return self._peer.documents.get(document).document.access.may_read(key)
        wanted = self.wanted(document)
        return wanted is not None and wanted.peer == key

    # --- joining ----------------------------------------------------------------------------------------------------

    def wanted(self, document: DocumentId) -> Wanted | None:
        """What is known about a document that this peer joins and does not hold yet."""
        raw = self._peer.store.reader.local("wanted", document)
        return None if raw is None else _wanted.decode(raw)

    def _wanted_all(self) -> Iterator[tuple[DocumentId, Wanted]]:
        for key, raw in self._peer.store.reader.local_all("wanted"):
            yield DocumentId(key), _wanted.decode(raw)

    async def join(self, ticket: Ticket, name: str | None, role: str | None, wait_seconds: float) -> DocumentId:
        """Ask the ticket's peer in, then wait until all that it holds is here.

        Raises Unreachable, Pending (the answer is picked up later), and why the invite is not open.
        """
        document = ticket.document
        if name is not None:
            self._peer.registry.name_rows(name, document)
        if ticket.peer != self._peer.key.public:
            answered = await self._ask(ticket, role)
            wanted = Wanted(ticket.addresses, ticket.peer, ticket.fingerprint, name)
            row = LocalRow("wanted", document, msgspec.msgpack.encode(wanted))
            await self._peer.store.commit(Batch(local=[row]))
            self._peer.links.want(ticket.peer, ticket.addresses)
            if answered != GRANTED:
                raise Pending("the other side has to approve: roost requests there")
            await self._peer.links.synced(document, ticket.peer, wait_seconds)
        elif not self._peer.documents.holds(document):
            raise NotFound("this ticket is this peer's own, and the session is gone")
        await self.settle_name(document, name)
        return document

    async def _ask(self, ticket: Ticket, role: str | None) -> str:
        """The status that the first address to answer gives; three are tried at once."""
        nonce = self._peer.environment.random(NONCE_BYTES)
        mac = None
        if ticket.secret is not None:
            mac = invite_mac(ticket.secret, ticket.document, ticket.peer, self._peer.key.public, nonce)
        request = JoinRequest(ticket.document, nonce, mac, role, self._peer.name)  # type: ignore[arg-type]
        gate = asyncio.Semaphore(DIALS_AT_ONCE)
        tries = [
            asyncio.ensure_future(self._ask_at(address, ticket, encode(request), gate)) for address in ticket.addresses
        ]
        failures: list[RoostError] = []
        try:
            async with asyncio.timeout(JOIN_SECONDS_MAX):
                for done in asyncio.as_completed(tries):
                    try:
                        return await done
                    except (Unreachable, Refused, Denied) as error:
                        failures.append(error)
        except TimeoutError:
            failures.append(Unreachable("no answer within 30 s"))
        finally:
            for one in tries:
                one.cancel()
            await asyncio.gather(*tries, return_exceptions=True)
        raise min(failures, key=lambda error: isinstance(error, Unreachable))  # what an answer says is worth more

    async def _ask_at(self, address: str, ticket: Ticket, body: bytes, gate: asyncio.Semaphore) -> str:
        assert self._carrier is not None, "a peer that is not started joins nothing"
        async with gate:
            _, answer = await self._carrier.request(address, ticket.peer, JOIN_PATH, body, ticket.fingerprint)
        decoded = decode_answer(answer)
        if decoded.code:
            raise error_codes.error_of(decoded.code, decoded.detail)
        return decoded.status

    async def settle_name(self, document: DocumentId, name: str | None) -> None:
        """Register a session that came by sync, and name it here as asked, else as its members call it."""
        async with self._naming:  # the link and who waits for it both come here
            await self._settle_name(document, name)

    async def _settle_name(self, document: DocumentId, name: str | None) -> None:
        registry = self._peer.registry
        replica = self._peer.documents.get(document)
        rows = [LocalRow("wanted", document, None)]
        if registry.session(document) is None:
            rows.append(registry.session_row(document, SessionRecord("sync", "active", self._peer.environment.now())))
        wanted = name
        if wanted is None and registry.name_of(document) is None:
            shared = (await self._peer.states.view(document)).maps.get("meta", {}).get("name")
            wanted = registry.acceptable(shared, document)
        if wanted is not None:
            rows += registry.name_rows(wanted, document)
        await replica.keep(rows)

    async def exchange(self, wait_seconds: float) -> AsyncIterator[dict[str, Json]]:
        """Compare every shared session with everybody who can be reached now."""
        for document in list(self._shared()):
            reached = await self._peer.links.exchange(document, wait_seconds)
            row = self._peer.store.reader.document(document)
            yield {
                "session": document.hex(),
                "status": "synced" if reached else "pending",
                "entries": 0 if row is None else row.entries,
            }


def _verify(record: wire.Address) -> None:
    """Raises BadSignature."""
    signed = wire.address_bytes(record.key, record.urls, record.time)
    keys.verify(record.signature, PeerKey(record.key), wire.ADDRESS_PREFIX, signed)
