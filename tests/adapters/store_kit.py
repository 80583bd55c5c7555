"""Real signed operations for the store's tests, placed by the tests' own few rules instead of core.document."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from msgspec import UNSET

from roost.adapters.store.records import Batch, DocumentState, NewDocument
from roost.core import operation
from roost.core.graph import LogKey, Position
from roost.core.heads import EditHead, EntryHead, GenesisHead, Origin, Put, RedactHead, encode_access, encode_head
from roost.core.ids import DocumentId, LogId, OperationId
from roost.core.keys import SigningKey
from roost.core.operation import Operation
from roost.core.outcome import GroupRow, NewOperation, StretchRow

FIRST_TIME = 1_700_000_000_000_000


class Author:
    """One key with one log in one document, which is one stretch; makes operations and the batches that hold them."""

    def __init__(self, seed: int = 1, *, joins: Author | None = None, origin: str | None = None) -> None:
        self.key = SigningKey.from_seed(bytes([seed]) * 32)
        self.log = LogId(bytes([seed]) * 8)
        self.number = seed - 1  # of the stretch and of the group
        self.operations: list[NewOperation] = []
        self.base = FIRST_TIME + seed
        if joins is not None:
            self.document: DocumentId = joins.document
            self.first_dep: NewOperation | None = joins.operations[0]
            return
        self.first_dep = None
        head = GenesisHead("session", "persistent", self.key.public, FIRST_TIME, sha256(bytes([seed])).digest())
        self.origin = origin
        made = operation.create(
            self.key, document=None, log=self.log, seq=0, backlink=None, deps=(), proof=None, kind="genesis",
            time=self.base, head_bytes=encode_head(head),
        )  # fmt: skip
        self.document = made.document
        self._place(made, ())

    @property
    def last(self) -> NewOperation:
        return self.operations[-1]

    def begin(self) -> Batch:
        """The batch that makes the document."""
        return self.batch(
            self.operations[:1],
            documents=[NewDocument(self.document, "session", "persistent", FIRST_TIME, self.origin, True)],
        )

    def batch(self, operations: Sequence[NewOperation], documents: Sequence[NewDocument] = ()) -> Batch:
        """The operations with the rows that belong to them."""
        return Batch(
            documents=list(documents),
            stretches=[self.stretch()],
            groups=[GroupRow(self.document, self.number, self.key.public, OperationId(self.document))],
            operations=list(operations),
            states=[DocumentState(self.document, (operations[-1].operation.id,))] if operations else [],
        )

    def stretch(self) -> StretchRow:
        last = self.last.position.seq
        runs = ((0, self.number),)
        return StretchRow(
            self.document, self.number, LogKey(self.key.public, self.log), None, 0, last, last, runs, None, 0
        )

    def entry(
        self,
        text: str = "hello",
        *,
        branch: OperationId | Literal["new"] | None = None,
        key: str | None = None,
        origin: Origin | None = None,
        accepted: bool = True,
        deps: Sequence[NewOperation] = (),
    ) -> NewOperation:
        head = EntryHead(
            "message",
            self.last.operation.id if branch == "new" else None,
            branch,
            FIRST_TIME,
            origin=UNSET if origin is None else origin,
            key=UNSET if key is None else key,
        )
        return self._make("entry", encode_head(head), text.encode(), deps, accepted)

    def edit(self, text: str = "values") -> NewOperation:
        return self._make("edit", encode_head(EditHead((Put("meta", "name"),))), text.encode(), ())

    def redact(self, target: OperationId) -> NewOperation:
        return self._make("redact", encode_head(RedactHead(target)), b"", ())

    def revoke(self, key: bytes) -> NewOperation:
        return self._make("access", encode_access(revokes=(key,)), b"", ())

    def _make(
        self, kind: str, head: bytes, content: bytes, deps: Sequence[NewOperation], accepted: bool = True
    ) -> NewOperation:
        seq = len(self.operations)
        if seq == 0 and self.first_dep is not None:
            deps = [*deps, self.first_dep]
        made = operation.create(
            self.key,
            document=self.document,
            log=self.log,
            seq=seq,
            backlink=self.last.operation.id if seq else None,
            deps=tuple(dep.operation.id for dep in deps),
            proof=OperationId(self.document),
            kind=kind,
            time=self.base + 1000 * (seq + 1),
            head_bytes=head,
            content=content,
        )
        return self._place(made, tuple(dep.position for dep in deps), accepted)

    def _place(self, made: Operation, deps: tuple[Position, ...], accepted: bool = True) -> NewOperation:
        position = Position(self.number, made.seq)
        new = NewOperation(made, position, deps, self.number, accepted, True, True, FIRST_TIME + made.seq)
        self.operations.append(new)
        return new


def ids(operations: Sequence[NewOperation]) -> list[OperationId]:
    return [new.operation.id for new in operations]


def absent(new: NewOperation) -> NewOperation:
    """The same operation, come without its content."""
    return NewOperation(
        new.operation.without_content(), new.position, new.deps, new.group, new.accepted, new.verified, False,
        new.arrived,
    )  # fmt: skip
