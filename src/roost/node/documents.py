"""The documents of this peer: opened when first used, made anew, or adopted from another peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roost.adapters.environment import Environment
from roost.adapters.store.records import LocalRow
from roost.adapters.store.store import Store
from roost.core import operation as operations
from roost.core.document import Document
from roost.core.errors import Denied, NotFound, WrongDocument
from roost.core.heads import GenesisHead, encode_head
from roost.core.ids import DocumentId, LogId, OperationId, PeerKey
from roost.core.keys import SigningKey
from roost.core.operation import Operation
from roost.node.replica import Listener, Replica, new_document

NONCE_BYTES = 16


class Documents:
    """Opens each document once; a replica whose commit failed is dropped, and loaded again from the store."""

    def __init__(self, store: Store, key: SigningKey, environment: Environment, listener: Listener) -> None:
        self._store = store
        self._key = key
        self._environment = environment
        self._listener = listener
        self._open: dict[DocumentId, Replica] = {}

    def get(self, identity: DocumentId) -> Replica:
        """The replica of a stored document. Raises NotFound."""
        replica = self._open.get(identity)
        if replica is None or replica.broken:
            replica = self._open[identity] = self._load(identity)
        return replica

    def drop(self, identity: DocumentId) -> None:
        """The memory of a document is ahead of the disk: whoever holds it may not go on, and it is loaded again."""
        replica = self._open.pop(identity, None)
        if replica is not None:
            replica.broken = True

    def holds(self, identity: DocumentId) -> bool:
        return identity in self._open or self._store.reader.document(identity) is not None

    def opened(self) -> list[Replica]:
        return list(self._open.values())

    def _load(self, identity: DocumentId) -> Replica:
        row = self._store.reader.document(identity)
        genesis = None if row is None else self._store.reader.operation(OperationId(identity))
        if row is None or genesis is None:
            raise NotFound(identity.hex()[:8])
        document = Document.restore(
            genesis.operation,
            self._store.reader.index(identity),
            self._store.reader.stretches(identity),
            self._store.reader.groups(identity),
            self._store.reader.access_operations(identity),
            row.heads,
            self._store.reader.has_redactions(identity),
        )
        log = self._store.reader.local("logs", identity)
        return self._replica(document, None if log is None else LogId(log))

    def _replica(self, document: Document, log: LogId | None) -> Replica:
        return Replica(document, self._store, self._key, self._environment, self._listener, log)

    async def create(
        self,
        *,
        kind: str,
        mode: str,
        owner: PeerKey | None = None,
        origin: str | None = None,
        rows: Callable[[DocumentId], Sequence[LocalRow]] = lambda _: (),
    ) -> Replica:
        """Found a document; ``rows`` of its id are committed with its genesis."""
        head = GenesisHead(
            kind, mode, owner or self._key.public, self._environment.now(), self._environment.random(NONCE_BYTES)
        )
        if origin is not None:
            head = GenesisHead(kind, mode, head.owner, head.created, head.nonce, origin)
        genesis = operations.create(
            self._key,
            document=None,
            log=LogId(self._environment.random(8)),
            seq=0,
            backlink=None,
            deps=(),
            proof=None,
            kind="genesis",
            time=head.created,
            head_bytes=encode_head(head),
        )
        return await self._found(genesis, local=True, rows=rows(genesis.document))

    async def adopt(self, genesis: Operation, *, expected: DocumentId) -> Replica:
        """Begin to hold a document that another peer serves. Raises WrongDocument, BadSignature, Denied."""
        if genesis.document != expected or not isinstance(genesis.head, GenesisHead):
            raise WrongDocument("not the genesis that was asked for")
        if genesis.head.mode == "temporary":
            raise Denied("a temporary session never leaves its peer")
        operations.verify(genesis)
        return await self._found(genesis, local=False, rows=())

    async def _found(self, genesis: Operation, *, local: bool, rows: Sequence[LocalRow]) -> Replica:
        document = Document(genesis, self._store.reader.index(genesis.document))
        replica = self._replica(document, None)
        await replica.found(genesis, new_document(genesis, local=local), local=local, rows=rows)
        self._open[replica.id] = replica
        return replica
