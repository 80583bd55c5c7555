"""What goes into the store and what comes out of it, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from roost.core.graph import Position
from roost.core.ids import DocumentId, OperationId
from roost.core.operation import Operation
from roost.core.outcome import GroupRow, NewOperation, StretchRow, Verdict

CONTENT_HELD = 0  # the content stands in the row
CONTENT_ABSENT = 1  # not here yet, or nobody had it
CONTENT_ERASED = 2  # taken away by a redact


class NewDocument(Struct, frozen=True):
    """A document whose genesis is in the same batch. ``local`` is False when it came from another peer."""

    id: DocumentId
    kind: str
    mode: str
    created: int  # microseconds, from the genesis
    origin: str | None  # "tool:session" of an imported transcript
    local: bool


class DocumentState(Struct, frozen=True):
    """What opening a document needs at once."""

    id: DocumentId
    heads: tuple[OperationId, ...]


class Erase(Struct, frozen=True):
    """Take the content of ``target`` away; ``by`` is the redact that says so."""

    target: OperationId
    by: OperationId


class Content(Struct, frozen=True):
    """A content that was absent and has come; its hash was checked."""

    operation: OperationId
    content: bytes


class CachedChange(Struct, frozen=True):
    """The Automerge change that this peer made for an edit; a projection."""

    edit: OperationId
    change: bytes


class LocalRow(Struct, frozen=True):
    """A row of this peer's own tables (names, invites, peers ...): not replicated, not a projection.

    ``value`` None deletes the row. Keys and values are opaque here; the registry gives them meaning.
    """

    table: str
    key: bytes
    value: bytes | None
    unless_exists: bool = False  # then the batch fails with Conflict if the key is there already


class Batch(Struct):
    """What is committed together: all of it or nothing."""

    documents: list[NewDocument] = []
    stretches: list[StretchRow] = []
    groups: list[GroupRow] = []
    operations: list[NewOperation] = []
    verdicts: list[Verdict] = []
    states: list[DocumentState] = []
    erasures: list[Erase] = []
    contents: list[Content] = []
    changes: list[CachedChange] = []
    forget_changes: list[OperationId] = []  # edits whose cached change holds no longer; before ``changes``
    local: list[LocalRow] = []
    stored: Callable[[], None] | None = None  # called in the loop when it is durable, even if who waits has gone


class Committed(Struct, frozen=True):
    """What a commit did. Cursors are the positions in this peer's notification stream."""

    first_cursor: int
    last_cursor: int
    withdrawn: tuple[OperationId, ...] = ()
    restored: tuple[OperationId, ...] = ()


class DocumentRow(Struct, frozen=True):
    id: DocumentId
    kind: str
    mode: str
    created: int
    origin: str | None
    local: bool
    heads: tuple[OperationId, ...]
    operations: int
    entries: int  # accepted ones
    void: int
    updated: int  # arrival of the newest operation, microseconds
    last_cursor: int


class Row(Struct, frozen=True):
    """A stored operation as surfaces read it."""

    cursor: int
    operation: Operation
    position: Position
    group: int
    accepted: bool
    verified: bool
    local: bool
    arrived: int
    content_state: int


class OrderKey(NamedTuple):
    """A place in a document's total order."""

    time: int
    id: OperationId


class Packed(NamedTuple):
    """An operation as it travels: the signed bytes, verbatim. They are not looked into again; the receiver does."""

    id: OperationId
    time: int
    position: Position
    verified: bool  # a log may be cut after it
    header_bytes: bytes
    signature: bytes
    head_bytes: bytes
    content: bytes | None
    content_hash: bytes | None  # only where the content is absent
    absence: bytes  # why it is

    @property
    def size(self) -> int:
        return len(self.header_bytes) + len(self.head_bytes) + (len(self.content) if self.content else 0) + 96


class EditRow(NamedTuple):
    """An edit with the change that this peer made for it, if that is cached."""

    id: OperationId
    time: int
    position: Position
    accepted: bool
    head_bytes: bytes
    content: bytes | None
    change: bytes | None


class Branch(NamedTuple):
    """The accepted entries of one branch. ``id`` is empty for the first branch."""

    id: bytes
    entries: int
    first_time: int
    last_time: int


class ImportedLine(NamedTuple):
    """An entry with one of the origins that were asked for."""

    origin: bytes
    operation: OperationId
    accepted: bool


class Notice(Struct, frozen=True):
    """One item of the notification stream. what: "accepted", "withdrawn", "restored", "erased" or "content".

    An operation accepted on arrival that was withdrawn since shows only as withdrawn: who reads from an old cursor
    never sees it appear.
    """

    cursor: int
    what: str
    document: DocumentId
    operation: OperationId
    kind: str
    local: bool
