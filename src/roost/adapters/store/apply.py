"""Carrying out one batch inside a transaction that someone else begins and ends."""

# ruff: noqa: S608  every query is put together from texts of this package; values go in as parameters

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from roost.adapters.store.records import (
    CONTENT_ABSENT,
    CONTENT_ERASED,
    CONTENT_HELD,
    Batch,
    CachedChange,
    Committed,
    Content,
    Erase,
    LocalRow,
    NewDocument,
)
from roost.adapters.store.rows import (
    BY_ID,
    OPERATION_COLUMNS,
    STRETCH_COLUMNS,
    Columns,
    operation_columns,
    pack_heads,
    stretch_columns,
)
from roost.core.errors import Conflict, NotFound
from roost.core.ids import DocumentId, OperationId
from roost.core.outcome import GroupRow, NewOperation, StretchRow, Verdict

WITHDRAWN, RESTORED, ERASED, CONTENT = 1, 2, 3, 4
NOTICE_NAMES = {WITHDRAWN: "withdrawn", RESTORED: "restored", ERASED: "erased", CONTENT: "content"}

STRETCHES_REMEMBERED_MAX = 4096  # about 1 MB; a document with more logs only writes some rows again

# One statement for many rows: sqlite3 lets go of the interpreter at each step and has to wait for it again, up to 5 ms
# each time when the loop is busy. Row by row that made an insert 50 times slower (docs/performance.md).
_ROWS_AT_ONCE = (256, 64, 16, 4, 1)  # 256 rows are 6,144 parameters; SQLite takes 32,766


def _insert(rows: int) -> str:
    row = f"({','.join('?' * len(OPERATION_COLUMNS))})"
    return f"INSERT INTO operations ({','.join(OPERATION_COLUMNS)}) VALUES {','.join([row] * rows)}"


_INSERT_OPERATIONS = {rows: _insert(rows) for rows in _ROWS_AT_ONCE}
_UPSERT_STRETCH = (
    f"INSERT OR REPLACE INTO stretches (document, {STRETCH_COLUMNS})"
    f" VALUES ({','.join('?' * (1 + len(STRETCH_COLUMNS.split(','))))})"
)
_INSERT_DOCUMENT = "INSERT INTO documents (id, kind, mode, created, origin, local) VALUES (?,?,?,?,?,?)"
_INSERT_GROUP = "INSERT OR REPLACE INTO groups (document, number, author, proof) VALUES (?,?,?,?)"
_PUT_HEADS = "UPDATE documents SET heads = ? WHERE number = ?"

# A verdict: what it says of a row, and the rows that it can turn over.
_SAYS_ACCEPTED = """((seq <= :limit OR seq IN (SELECT value FROM json_each(:admitted)))
  AND seq NOT IN (SELECT value FROM json_each(:but_not)))"""
_OF_GROUP = "document = :document AND stretch = :stretch AND seq BETWEEN :low AND :high AND grp = :group"
_NOTICE_TURNED = "INSERT INTO notices (n, document, operation, what) SELECT :cursor + row_number() OVER (ORDER BY seq),"
_WITHDRAW = (
    f"{_NOTICE_TURNED} document, n, 1 FROM operations WHERE {_OF_GROUP} AND accepted = 1 AND NOT {_SAYS_ACCEPTED}"
)
_RESTORE = f"{_NOTICE_TURNED} document, n, 2 FROM operations WHERE {_OF_GROUP} AND accepted = 0 AND {_SAYS_ACCEPTED}"
_TURN = "UPDATE operations SET accepted = ? WHERE n IN (SELECT operation FROM notices WHERE n > ?)"
_TURNED = """SELECT operations.id FROM notices JOIN operations ON operations.n = notices.operation
  WHERE notices.n > ? ORDER BY notices.n"""

_ERASE = """
UPDATE operations SET content = NULL, content_hash = ?, content_state = ?, absence = ? WHERE n = ?"""
_FILL = """
UPDATE operations SET content = ?, content_hash = NULL, content_state = ?, absence = NULL WHERE n = ?"""
_CACHE_CHANGES = {
    rows: "INSERT OR REPLACE INTO changes (operation, change) SELECT operations.n, given.column2"
    f" FROM (VALUES {','.join(['(?,?)'] * rows)}) AS given"
    " JOIN operations ON substr(operations.id, 1, 8) = substr(given.column1, 1, 8) AND operations.id = given.column1"
    for rows in _ROWS_AT_ONCE
}
_FORGET_CHANGE = f"DELETE FROM changes WHERE operation = (SELECT n FROM operations WHERE {BY_ID})"


class Applier:
    """Carries batches out on the connection that writes. It has one owner: a thread, or whoever commits inline."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._numbers: dict[DocumentId, int] = {}
        self._stretches: dict[tuple[DocumentId, int], Columns] = {}  # as they are stored
        self._heads: dict[DocumentId, bytes | None] = {}  # the same
        query = "SELECT max(coalesce((SELECT max(n) FROM operations), 0), coalesce((SELECT max(n) FROM notices), 0))"
        (self._cursor,) = connection.execute(query).fetchone()

    def forget(self) -> None:
        """Drop what is remembered of a batch that was rolled back; its cursors stay unused."""
        self._numbers.clear()
        self._heads.clear()
        self._stretches.clear()

    def apply(self, batch: Batch) -> Committed:
        """Raises NotFound, Conflict, or what sqlite3 raises; the caller then rolls back."""
        before = self._cursor
        if len(self._stretches) > STRETCHES_REMEMBERED_MAX:
            self.forget()
        for document in batch.documents:
            self._add_document(document)
        self._put_groups(batch.groups)
        self._put_stretches(batch.stretches)
        self._add_operations(batch.operations)
        withdrawn: list[OperationId] = []
        restored: list[OperationId] = []
        for verdict in batch.verdicts:
            self._judge(verdict, withdrawn, restored)
        self._put_heads(batch)
        for erasure in batch.erasures:
            self._erase(erasure)
        for content in batch.contents:
            self._fill(content)
        for identity in batch.forget_changes:
            self._db.execute(_FORGET_CHANGE, (identity,))
        self._put_changes(batch.changes)
        for row in batch.local:
            self._put_local(row)
        return Committed(before + 1, self._cursor, tuple(withdrawn), tuple(restored))

    # --- documents --------------------------------------------------------------------------------------------------

    def _add_document(self, new: NewDocument) -> None:
        columns = (new.id, new.kind, new.mode, new.created, new.origin, int(new.local))
        number = self._db.execute(_INSERT_DOCUMENT, columns).lastrowid
        assert number is not None
        self._numbers[new.id] = number

    def _number(self, document: DocumentId) -> int:
        number = self._numbers.get(document)
        if number is None:
            row = self._db.execute("SELECT number FROM documents WHERE id = ?", (document,)).fetchone()
            if row is None:
                raise NotFound(f"document {document.hex()[:8]}")
            number = self._numbers[document] = int(row[0])
        return number

    def _put_heads(self, batch: Batch) -> None:
        newest = {new.operation.document: new.operation.id for new in batch.operations}
        for state in batch.states:
            heads = None if state.heads == (newest.pop(state.id, None),) else pack_heads(state.heads)
            if self._heads.get(state.id, b"unknown") != heads:
                self._db.execute(_PUT_HEADS, (heads, self._number(state.id)))
                self._heads[state.id] = heads
        if newest:
            raise ValueError("operations come without their document's heads")

    def _put_groups(self, rows: Iterable[GroupRow]) -> None:
        for row in rows:
            self._db.execute(_INSERT_GROUP, (self._number(row.document), row.number, row.author, row.proof))

    def _put_stretches(self, rows: Iterable[StretchRow]) -> None:
        for row in rows:
            columns = stretch_columns(row, self._number(row.document))
            key = (row.document, row.number)
            if self._stretches.get(key) != columns:
                self._db.execute(_UPSERT_STRETCH, columns)
                self._stretches[key] = columns

    # --- operations -------------------------------------------------------------------------------------------------

    def _add_operations(self, operations: Sequence[NewOperation]) -> None:
        rows: list[Columns] = []
        cursor = self._cursor
        for new in operations:
            cursor += 1
            rows.append(operation_columns(new, cursor, self._number(new.operation.document)))
        self._cursor = cursor
        self._put_many(_INSERT_OPERATIONS, rows)

    def _put_many(self, statements: Mapping[int, str], rows: Sequence[Columns]) -> None:
        at = 0
        for size, statement in statements.items():
            while len(rows) - at >= size:
                self._db.execute(statement, [value for row in rows[at : at + size] for value in row])
                at += size

    def _judge(self, verdict: Verdict, withdrawn: list[OperationId], restored: list[OperationId]) -> None:
        parameters: dict[str, int | str] = {
            "document": self._number(verdict.document),
            "stretch": verdict.stretch,
            "group": verdict.group,
            "limit": verdict.limit,
            "admitted": str(list(verdict.admitted)),
            "but_not": str(list(verdict.but_not)),
            # Only rows above the limit can be withdrawn, unless they are listed, and only those up to it restored.
            "low": min(verdict.limit + 1, *verdict.but_not) if verdict.but_not else verdict.limit + 1,
            "high": 1 << 53,
        }
        self._turn(_WITHDRAW, parameters, 0, withdrawn)
        parameters["low"], parameters["high"] = 0, max(verdict.limit, *verdict.admitted, -1)
        self._turn(_RESTORE, parameters, 1, restored)

    def _turn(self, query: str, parameters: dict[str, int | str], accepted: int, ids: list[OperationId]) -> None:
        """Turn over the rows that ``query`` finds, with a notice for each."""
        before = self._cursor
        count = self._db.execute(query, {**parameters, "cursor": before}).rowcount
        if count > 0:
            self._cursor = before + count
            self._db.execute(_TURN, (accepted, before))
            ids.extend(identity for (identity,) in self._db.execute(_TURNED, (before,)).fetchall())

    # --- contents ---------------------------------------------------------------------------------------------------

    def _erase(self, erasure: Erase) -> None:
        number, document, state, content, content_hash = self._content_of(erasure.target)
        if state == CONTENT_ERASED or content == b"":
            return
        if content is not None:
            content_hash = sha256(content).digest()
        self._db.execute(_ERASE, (content_hash, CONTENT_ERASED, erasure.by, number))
        self._db.execute("DELETE FROM changes WHERE operation = ?", (number,))
        self._notice(document, number, ERASED)

    def _fill(self, arrived: Content) -> None:
        number, document, state, _, _ = self._content_of(arrived.operation)
        if state == CONTENT_ABSENT:  # else it is here already, or a redact took it away: thrown away
            self._db.execute(_FILL, (arrived.content, CONTENT_HELD, number))
            self._notice(document, number, CONTENT)

    def _content_of(self, identity: OperationId) -> tuple[int, int, int, bytes | None, bytes | None]:
        query = f"SELECT n, document, content_state, content, content_hash FROM operations WHERE {BY_ID}"
        row: tuple[int, int, int, bytes | None, bytes | None] | None
        row = self._db.execute(query, (identity,)).fetchone()
        if row is None:
            raise NotFound(f"operation {identity.hex()[:8]}")
        return row

    def _notice(self, document: int, operation: int, what: int) -> None:
        self._cursor += 1
        self._db.execute("INSERT INTO notices VALUES (?,?,?,?)", (self._cursor, document, operation, what))

    def _put_changes(self, changes: Iterable[CachedChange]) -> None:
        self._put_many(_CACHE_CHANGES, [(change.edit, change.change) for change in changes])

    # --- this peer's own tables -------------------------------------------------------------------------------------

    def _put_local(self, row: LocalRow) -> None:
        if row.value is None:
            self._db.execute("DELETE FROM local WHERE tab = ? AND key = ?", (row.table, row.key))
            return
        how = "IGNORE" if row.unless_exists else "REPLACE"
        done = self._db.execute(f"INSERT OR {how} INTO local VALUES (?,?,?)", (row.table, row.key, row.value))
        if done.rowcount == 0:
            raise Conflict(f"{row.table}: there already")
