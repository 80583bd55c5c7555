"""The running peer: owns store, key, documents and links; carries out what the core decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path

from roost.adapters.carriers.carrier import Carrier, Wire
from roost.adapters.environment import Environment
from roost.adapters.store.records import Batch, Committed, LocalRow
from roost.adapters.store.store import Store
from roost.core.errors import RoostError, Usage
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.keys import SigningKey
from roost.core.outcome import NewOperation
from roost.core.ticket import parse_address
from roost.node.documents import Documents
from roost.node.importer import Importer
from roost.node.invites import Invites
from roost.node.joining import JOIN_PATH, Joins
from roost.node.links import Links
from roost.node.membership import Membership
from roost.node.notices import Notices
from roost.node.registry import Registry
from roost.node.replica import Replica
from roost.node.sessions import Sessions
from roost.node.states import States

NAME_CHARACTERS_MAX = 100


class Peer:
    """One node: one data directory, one key pair. Used from one event loop."""

    def __init__(self, store: Store, key: SigningKey, environment: Environment, home: Path | None = None) -> None:
        self.store = store
        self.key = key
        self.environment = environment
        self.home = home
        self.url: str | None = None  # where this peer answers, while it does
        self.advertised: Sequence[str] = ()
        self._temporary: Peer | None = None
        self.nearby: Callable[[PeerKey], Sequence[str]] = lambda _: ()  # further addresses that a peer may have
        self.notices = Notices(store)
        self.registry = Registry(store)
        self.documents = Documents(store, key, environment, self)
        self.sessions = Sessions(store, self.documents, self.registry, key, environment)
        self.states = States(store, self.documents, environment)
        self.importer = Importer(store, self.documents, self.sessions, self.registry, self.states)
        self.invites = Invites(store, environment)
        self.joins = Joins(self)
        self.links = Links(self)
        self.membership = Membership(self)
        store.on_commit = self._committed
        store.on_failure = self._failed

    # --- what is kept in memory only --------------------------------------------------------------------------------

    @property
    def has_temporary(self) -> bool:
        return self._temporary is not None

    @property
    def temporary(self) -> Peer:
        """The part of this peer that never reaches a disk or a link: its temporary sessions, gone when it ends."""
        if self._temporary is None:
            self._temporary = Peer(Store.open(None), self.key, self.environment)
        return self._temporary

    def is_temporary(self, session: str) -> bool:
        """Whether a session that is named so is a temporary one."""
        if self._temporary is None:
            return False
        try:
            self._temporary.sessions.resolve(session)
        except RoostError:
            return False
        return self.registry.by_name(session) is None

    # --- what the store tells ---------------------------------------------------------------------------------------

    def _committed(self, committed: Committed) -> None:
        self.notices.wake()

    def _failed(self, batch: Batch) -> None:
        """The memory of these documents is ahead of the disk: nobody may go on with it."""
        for state in batch.states:
            self.documents.drop(state.id)

    def committed(self, replica: Replica, new: Sequence[NewOperation], source: object) -> None:
        """Operations were committed: tell whoever acts on it. ``source`` is the link that brought them, or None."""
        self.states.announce(replica, new)
        self.links.announce(replica, new, source)
        self.membership.announce(replica, new)

    def redacted(self, replica: Replica, ids: Sequence[OperationId]) -> None:
        """Whether these contents are shown may have changed."""
        self.states.changed(replica.id, ids)

    def filled(self, replica: Replica, ids: Sequence[OperationId]) -> None:
        """Contents that were absent have come."""
        self.states.changed(replica.id, ids)
        self.links.contents_stored(replica.id, ids)

    # --- running ----------------------------------------------------------------------------------------------------

    def start(self, carrier: Carrier, url: str | None, advertised: Sequence[str] = ()) -> None:
        """Begin to keep links; ``url`` is where this peer answers, None if nowhere."""
        self.url = url
        self.advertised = tuple(advertised)
        self.links.start(carrier)
        self.membership.start(carrier)

    async def stop(self) -> None:
        """End all links and subscriptions; commands still work."""
        self.url = None
        await self.links.close()
        self.notices.close()
        if self._temporary is not None:
            await self._temporary.stop()

    async def close(self) -> None:
        """End everything, then let go of the store."""
        await self.stop()
        await self.store.close()

    async def on_wire(self, wire: Wire) -> None:
        """Serve a link that another peer began."""
        await self.links.serve(wire)

    async def on_request(self, peer: PeerKey, path: str, body: bytes, nonce: bytes) -> tuple[int, bytes]:
        """Answer a verified request of another peer."""
        assert path == JOIN_PATH, path
        return await self.joins.answer(peer, body)

    # --- who and where ----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What this peer calls itself: a label."""
        raw = self.store.reader.local("peer", b"name")
        return raw.decode() if raw else self.key.public.hex()[:8]

    async def rename(self, name: str) -> None:
        name = name.strip()
        if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
            raise Usage(f"a peer's name has 1 to {NAME_CHARACTERS_MAX} printable characters")
        await self.store.commit(Batch(local=[LocalRow("peer", b"name", name.encode())]))

    def addresses(self) -> list[str]:
        """Where others reach this peer: as advertised, else where it listens."""
        found = list(self.advertised)
        return found or ([self.url] if self.url else [])

    @staticmethod
    def is_loopback(url: str) -> bool:
        host = parse_address(url).host
        if host == "localhost":
            return True
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return False

    def role_in(self, document: DocumentId) -> str | None:
        """This peer's own role in a document: owner, admin, write, read or None."""
        access = self.documents.get(document).document.access
        return "owner" if self.key.public == access.owner else access.role(self.key.public)
