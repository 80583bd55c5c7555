"""What the sync machines ask of this peer's copy of a document, be it here or still to come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from roost.core.errors import WrongDocument
from roost.core.graph import Graph
from roost.core.have import Holdings
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.index import Known
from roost.core.operation import Operation
from roost.node.replica import Replica

if TYPE_CHECKING:
    from roost.node.peer import Peer

_NOTHING = Holdings(Graph(lambda _: ()), lambda _: OperationId(b""), {})


class Copy:
    """One document on this peer; all links share it."""

    def __init__(self, peer: Peer, document: DocumentId) -> None:
        self._peer = peer
        self._document = document
        self._replica: Replica | None = None
        self._founding = asyncio.Lock()

    @property
    def replica(self) -> Replica | None:
        """The open document, loaded again if its last commit failed; None while it is not here."""
        if self._replica is None or self._replica.broken:
            self._replica = self._peer.documents.get(self._document) if self._is_here() else None
        return self._replica

    def _is_here(self) -> bool:
        return self._peer.documents.holds(self._document)

    @property
    def is_expected(self) -> bool:
        """Whether the document is here, or was asked for with a ticket."""
        return self._is_here() or self._peer.membership.wanted(self._document) is not None

    @property
    def holdings(self) -> Holdings:
        replica = self.replica
        return _NOTHING if replica is None else replica.holdings

    def find(self, operation: OperationId) -> Known | None:
        replica = self.replica
        return None if replica is None else replica.find(operation)

    def ids_between(self, stretch: int, low: int, high: int) -> Iterable[OperationId]:
        replica = self.replica
        return () if replica is None else replica.ids_between(stretch, low, high)

    def may_read(self, key: PeerKey) -> bool:
        """Whether a peer holds a role now; while this peer holds none itself, whether it is who the ticket names.

        The grant to who gave the ticket out may come late in a long history, long after the genesis.
        """
        replica = self.replica
        if replica is None:
            return self._is_tickets(key)
        document = replica.document
        if not document.open or document.head.mode == "temporary":
            return False
        if document.access.may_read(key):
            return True
        return document.access.role(self._peer.key.public) is None and self._is_tickets(key)

    def _is_tickets(self, key: PeerKey) -> bool:
        wanted = self._peer.membership.wanted(self._document)
        return wanted is not None and wanted.peer == key

    def may_push(self, key: PeerKey) -> bool:
        return self.may_read(key)

    def absent(self, limit: int) -> Sequence[OperationId]:
        replica = self.replica
        return () if replica is None else self._peer.store.reader.absent_contents(self._document, limit)

    async def founded(self, operations: Sequence[Operation]) -> Replica:
        """The replica; while the document is not here, its genesis must come first. Raises WrongDocument, Denied."""
        async with self._founding:  # several batches may be on their way before the first is committed
            replica = self.replica
            if replica is None:
                if not operations or operations[0].kind != "genesis":
                    raise WrongDocument("the genesis does not come first")
                replica = self._replica = await self._peer.documents.adopt(operations[0], expected=self._document)
        return replica


class Copies:
    """One Copy per document that is here or is to come; of others, which strangers may ask about, nothing is kept."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._copies: dict[DocumentId, Copy] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def of(self, document: DocumentId) -> Copy:
        copy = self._copies.get(document)
        if copy is None:
            copy = Copy(self._peer, document)
            if copy.is_expected:
                self._copies[document] = copy
        return copy
