"""Looking up: what opening a document needs, single operations, and this peer's own tables."""

# ruff: noqa: S608  every query is put together from texts of this package; values go in as parameters

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roost.adapters.store.listing import Listing
from roost.adapters.store.records import CONTENT_ABSENT, DocumentRow, ImportedLine, Row
from roost.adapters.store.rows import (
    BY_ID,
    ROW_COLUMNS,
    SELECT,
    STORED_DOCUMENT,
    STORED_STRETCH,
    Columns,
    to_document,
    to_groups,
    to_positions,
    to_row,
    to_stretch,
)
from roost.core.graph import Position
from roost.core.ids import ID_BYTES, DocumentId, OperationId, PeerKey
from roost.core.index import Known
from roost.core.outcome import GroupRow, NewOperation, StretchRow

PREFIX_FOUND_MAX = 16  # to tell that a prefix is not enough, and what it could mean


class Reader(Listing):
    """All look-ups on one connection. Those here cost microseconds. Each sees what is committed."""

    # --- documents --------------------------------------------------------------------------------------------------

    def documents(self) -> list[DocumentRow]:
        """Every document, in the order in which they came."""
        return [to_document(row) for row in self.rows(STORED_DOCUMENT.format("true"))]

    def document(self, document: DocumentId) -> DocumentRow | None:
        row = self.row(STORED_DOCUMENT.format("id = ?"), document)
        return None if row is None else to_document(row)

    def documents_by_origin(self, origin: str) -> list[DocumentRow]:
        """Documents with this "tool:session" in their genesis."""
        return [to_document(row) for row in self.rows(STORED_DOCUMENT.format("origin = ?"), origin)]

    def stretches(self, document: DocumentId) -> list[StretchRow]:
        query = f"SELECT {STORED_STRETCH} FROM stretches WHERE document = ? ORDER BY number"
        return [to_stretch(document, row) for row in self.rows(query, self.number(document))]

    def groups(self, document: DocumentId) -> list[GroupRow]:
        query = "SELECT number, author, proof FROM groups WHERE document = ? ORDER BY number"
        return to_groups(document, self.rows(query, self.number(document)))

    def access_operations(self, document: DocumentId) -> list[NewOperation]:
        """Every access operation, accepted or not, in the total order."""
        query = f"""SELECT {ROW_COLUMNS}, deps FROM operations
          WHERE document = ? AND kind = 'access' AND branch IS NULL ORDER BY time, id"""
        rows = self.rows(query, self.number(document))
        return [_to_new(to_row(tuple(columns)), to_positions(deps)) for *columns, deps in rows]

    def has_redactions(self, document: DocumentId) -> bool:
        query = "SELECT 1 FROM operations WHERE document = ? AND kind = 'redact' AND branch IS NULL LIMIT 1"
        return self.row(query, self.number(document)) is not None

    def index(self, document: DocumentId) -> StoredIndex:
        """What the core asks about a document's operations (core.index.Index)."""
        return StoredIndex(self, document)

    # --- operations -------------------------------------------------------------------------------------------------

    def operation(self, operation: OperationId) -> Row | None:
        row = self.row(f"SELECT {ROW_COLUMNS} FROM operations WHERE {BY_ID}", operation)
        return None if row is None else to_row(row)

    def operations(self, wanted: Sequence[OperationId]) -> list[Row]:
        """Those of the wanted operations that are stored, in the order asked for."""
        return [row for row in map(self.operation, wanted) if row is not None]

    def operations_at(self, document: DocumentId, positions: Sequence[Position]) -> list[Row]:
        """Those at the positions that are stored, in the order asked for."""
        query = f"SELECT {ROW_COLUMNS} FROM operations WHERE document = ? AND stretch = ? AND seq = ?"
        number = self.number(document)
        found = (self.row(query, number, *position) for position in positions)
        return [to_row(row) for row in found if row is not None]

    def operations_between(
        self, document: DocumentId, stretch: int, low: int, high: int, limit: int = 1000
    ) -> list[Row]:
        """Up to ``limit`` operations of a stretch with low <= seq <= high, ascending."""
        query = f"""SELECT {ROW_COLUMNS} FROM operations
          WHERE document = ? AND stretch = ? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"""
        return [to_row(row) for row in self.rows(query, self.number(document), stretch, low, high, limit)]

    def ids_between(self, document: DocumentId, stretch: int, low: int, high: int) -> list[tuple[int, OperationId]]:
        """(seq, id) of a stretch's operations with low <= seq <= high, ascending."""
        query = """SELECT seq, id FROM operations
          WHERE document = ? AND stretch = ? AND seq BETWEEN ? AND ? ORDER BY seq"""
        return [(seq, OperationId(found)) for seq, found in self.rows(query, self.number(document), stretch, low, high)]

    def find_prefix(self, document: DocumentId, prefix: str) -> list[OperationId]:
        """Ids of the document that start with these hexadecimal digits, at most PREFIX_FOUND_MAX."""
        low, high = (bytes.fromhex(prefix.ljust(2 * ID_BYTES, digit)) for digit in "0f")
        query = """SELECT id FROM operations WHERE substr(id, 1, 8) BETWEEN substr(?1, 1, 8) AND substr(?2, 1, 8)
          AND id BETWEEN ?1 AND ?2 AND +document = ?3 ORDER BY id LIMIT ?4"""
        rows = self.rows(query, low, high, self.number(document), PREFIX_FOUND_MAX)
        return [OperationId(found) for (found,) in rows]

    def latest_select(self, document: DocumentId) -> Row | None:
        """The accepted entry that chose the current branch last, in the total order."""
        query = f"""SELECT {ROW_COLUMNS} FROM operations
          WHERE target = ? AND document = ? AND accepted = 1 ORDER BY time DESC, id DESC LIMIT 1"""
        row = self.row(query, SELECT, self.number(document))
        return None if row is None else to_row(row)

    def by_key(self, document: DocumentId, author: PeerKey, key: str) -> list[Row]:
        """The author's entries with this idempotency key, void ones too, in the order in which they came."""
        query = f"SELECT {ROW_COLUMNS} FROM operations WHERE document = ? AND key = ? ORDER BY n"
        found = [to_row(row) for row in self.rows(query, self.number(document), key)]
        return [row for row in found if row.operation.author == author]

    def by_origin(self, document: DocumentId, hashes: Sequence[bytes]) -> list[ImportedLine]:
        """The document's entries with one of these ``origin_hash``es."""
        number = self.number(document)
        query = "SELECT origin, id, accepted FROM operations WHERE document = ? AND origin = ? ORDER BY n"
        rows = (row for origin in hashes for row in self.rows(query, number, origin))
        return [ImportedLine(origin, OperationId(found), bool(accepted)) for origin, found, accepted in rows]

    # --- this peer's own tables -------------------------------------------------------------------------------------

    def local(self, table: str, key: bytes) -> bytes | None:
        row = self.row("SELECT value FROM local WHERE tab = ? AND key = ?", table, key)
        return None if row is None else bytes(row[0])

    def local_all(self, table: str) -> list[tuple[bytes, bytes]]:
        """(key, value) of the whole table, ascending by key."""
        return list(self.rows("SELECT key, value FROM local WHERE tab = ? ORDER BY key", table))


class StoredIndex:
    """core.index.Index over what is committed."""

    def __init__(self, reader: Reader, document: DocumentId) -> None:
        self._reader = reader
        self._document = document
        self._authors: dict[int, PeerKey] = {}

    def find(self, operation: OperationId) -> Known | None:
        query = f"SELECT document, stretch, seq, time, grp, kind FROM operations WHERE {BY_ID}"
        row = self._reader.row(query, operation)
        if row is None or row[0] != self._reader.number(self._document):
            return None
        _, stretch, seq, time, group, kind = row
        return Known(Position(stretch, seq), time, group, kind, self._author(group))

    def id_at(self, position: Position) -> OperationId:
        query = "SELECT id FROM operations WHERE document = ? AND stretch = ? AND seq = ?"
        row = self._reader.row(query, self._reader.number(self._document), *position)
        if row is None:
            raise LookupError(f"nothing stored at {position}")
        return OperationId(row[0])

    def merges(self, stretch: int) -> Iterator[tuple[int, tuple[Position, ...]]]:
        query = """SELECT seq, deps FROM operations
          WHERE document = ? AND stretch = ? AND deps IS NOT NULL ORDER BY seq"""
        rows: list[Columns] = self._reader.rows(query, self._reader.number(self._document), stretch)
        return ((seq, to_positions(deps)) for seq, deps in rows)

    def is_absent(self, operation: OperationId) -> bool:
        """Whether the operation is stored and its content is not here yet."""
        row = self._reader.row(f"SELECT content_state FROM operations WHERE {BY_ID}", operation)
        return row is not None and row[0] == CONTENT_ABSENT

    def redactions_of(self, target: OperationId) -> list[OperationId]:
        query = "SELECT id FROM operations WHERE target = ? AND document = ? ORDER BY n"
        rows = self._reader.rows(query, target, self._reader.number(self._document))
        return [OperationId(found) for (found,) in rows]

    def _author(self, group: int) -> PeerKey:
        if group not in self._authors:
            self._authors |= {row.number: row.author for row in self._reader.groups(self._document)}
        return self._authors[group]


def _to_new(row: Row, deps: tuple[Position, ...]) -> NewOperation:
    return NewOperation(
        row.operation, row.position, deps, row.group, row.accepted, row.verified, row.local, row.arrived
    )
