"""Going through many operations in some order, a bounded number at a time. No query stays open between two calls."""

# ruff: noqa: S608  every query is put together from texts of this package; values go in as parameters

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import merge

from roost.adapters.store.apply import NOTICE_NAMES
from roost.adapters.store.records import (
    CONTENT_ABSENT,
    Branch,
    EditRow,
    Notice,
    OrderKey,
    Packed,
    Row,
)
from roost.adapters.store.rows import PACKED_COLUMNS, ROW_COLUMNS, Columns, to_packed, to_row
from roost.core.errors import StoreFailed
from roost.core.graph import Position
from roost.core.ids import DocumentId, OperationId

_UNKNOWN = -1  # the number of a document that is not stored: nothing has it
_KEYS_AT_ONCE = 4096  # order keys of operations still to send that are held in memory, over all ranges
_ANY_TIME = 1 << 62

_ENTRIES = f"""SELECT time, id, {ROW_COLUMNS} FROM operations
  WHERE document = ? AND branch = ? AND branch IS NOT NULL AND accepted = 1"""
_NEXT_BRANCH = """SELECT min(branch) FROM operations
  WHERE document = ? AND branch {} ? AND branch IS NOT NULL AND accepted = 1"""
_BEFORE = "AND time <= ? AND (time < ? OR id < ?) ORDER BY time DESC, id DESC LIMIT ?"
_AFTER = "AND time >= ? AND (time > ? OR id > ?) ORDER BY time, id LIMIT ?"


class Listing:
    """Look-ups that return many rows, on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._numbers: dict[DocumentId, int] = {}

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Look-ups in here see one state of the store, and cost a third less. Commit nothing and wait for nothing."""
        if self.connection.in_transaction:  # in memory the writer's connection is this one
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("COMMIT")

    def rows(self, query: str, *parameters: int | str | bytes | None) -> list[Columns]:
        """All of them at once: a statement left open would hold the log's end in place."""
        try:
            return self.connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(f"reading: {error}") from error

    def row(self, query: str, *parameters: int | str | bytes | None) -> Columns | None:
        """The only row, if there is one."""
        found = self.rows(query, *parameters)
        return found[0] if found else None

    def number(self, document: DocumentId) -> int:
        """The document's number in this file."""
        number = self._numbers.get(document)
        if number is None:
            row = self.row("SELECT number FROM documents WHERE id = ?", document)
            if row is None:
                return _UNKNOWN
            number = self._numbers[document] = int(row[0])
        return number

    # --- transcripts ------------------------------------------------------------------------------------------------

    def entries(
        self,
        document: DocumentId,
        branch: bytes | None = None,
        *,
        before: OrderKey | None = None,
        after: OrderKey | None = None,
        limit: int,
        newest_first: bool = False,
    ) -> list[Row]:
        """Accepted entries in the total order, or against it: the first ``limit`` strictly before or after a key.

        branch is empty for the first branch, the id of the opening entry for another, None for all. ``before`` goes
        with newest_first, ``after`` without.
        """
        assert (after is None) if newest_first else (before is None)
        number = self.number(document)
        branches = [branch] if branch is not None else self._branch_ids(number)
        if newest_first:
            time, identity = before or OrderKey(_ANY_TIME, OperationId(b""))
        else:
            time, identity = after or OrderKey(-1, OperationId(b""))
        query = f"{_ENTRIES} {_BEFORE if newest_first else _AFTER}"
        rows = [row for one in branches for row in self.rows(query, number, one, time, time, identity, limit)]
        if len(branches) > 1:
            rows.sort(key=lambda row: row[:2], reverse=newest_first)
        return [to_row(tuple(row)) for _, _, *row in rows[:limit]]

    def _branch_ids(self, number: int) -> list[bytes]:
        """Found by leaping through the index: there are few of them among many entries."""
        found: list[bytes] = []
        row = self.row(_NEXT_BRANCH.format(">="), number, b"")
        while row is not None and row[0] is not None:
            found.append(row[0])
            row = self.row(_NEXT_BRANCH.format(">"), number, row[0])
        return found

    def branches(self, document: DocumentId) -> list[Branch]:
        """Branches with accepted entries. Goes through the index of them all: for ``Store.read``."""
        query = """SELECT branch, count(*), min(time), max(time) FROM operations
          WHERE document = ? AND branch IS NOT NULL AND accepted = 1 GROUP BY branch"""
        return [Branch(*row) for row in self.rows(query, self.number(document))]

    # --- other kinds ------------------------------------------------------------------------------------------------

    def of_kind(self, document: DocumentId, kind: str, *, after: OrderKey | None = None, limit: int) -> list[Row]:
        """Operations of a kind other than entry, accepted or not, in the total order."""
        query = f"""SELECT {ROW_COLUMNS} FROM operations
          WHERE document = ? AND kind = ? AND branch IS NULL {_AFTER}"""
        key = after or OrderKey(-1, OperationId(b""))
        rows = self.rows(query, self.number(document), kind, key.time, key.time, key.id, limit)
        return [to_row(row) for row in rows]

    def edits(self, document: DocumentId, *, after: OrderKey | None = None, limit: int) -> list[EditRow]:
        """Edits, accepted or not, in the total order."""
        query = f"""SELECT id, time, stretch, seq, accepted, head, content, change FROM operations
          LEFT JOIN changes ON changes.operation = n
          WHERE document = ? AND kind = 'edit' AND branch IS NULL {_AFTER}"""
        key = after or OrderKey(-1, OperationId(b""))
        return [
            EditRow(identity, time, Position(stretch, seq), bool(accepted), head, content, change)
            for identity, time, stretch, seq, accepted, head, content, change in self.rows(
                query, self.number(document), key.time, key.time, key.id, limit
            )
        ]

    def absent_contents(self, document: DocumentId, limit: int) -> list[OperationId]:
        """Operations whose content is not here yet."""
        query = f"SELECT id FROM operations WHERE document = ? AND content_state = {CONTENT_ABSENT} LIMIT ?"
        return [OperationId(found) for (found,) in self.rows(query, self.number(document), limit)]

    # --- what another peer lacks ------------------------------------------------------------------------------------

    def missing(
        self, document: DocumentId, ranges: Sequence[tuple[int, int, int]], bytes_max: int
    ) -> Iterator[list[Packed]]:
        """The operations of several ranges (stretch, lowest seq, highest seq), merged into the total order.

        Each list holds up to bytes_max, or one operation that is larger. A void operation is sent like any other.
        """
        number = self.number(document)
        step = max(8, _KEYS_AT_ONCE // max(1, len(ranges)))
        chosen: list[int] = []
        total = 0
        for _, _, cursor, size in merge(*(self._keys(number, *range_, step) for range_ in ranges)):
            if chosen and total + size > bytes_max:
                yield self._packed(chosen)
                chosen, total = [], 0
            chosen.append(cursor)
            total += size
        if chosen:
            yield self._packed(chosen)

    def _keys(self, number: int, stretch: int, low: int, high: int, step: int) -> Iterator[tuple[int, bytes, int, int]]:
        """(time, id, cursor, bytes) along a stretch: ascending, as an operation is later than its predecessor."""
        query = """SELECT seq, time, id, n, length(header) + length(head) + coalesce(length(content), 0) + 96
          FROM operations WHERE document = ? AND stretch = ? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?"""
        while rows := self.rows(query, number, stretch, low, high, step):
            for _, *key in rows:
                yield tuple(key)
            low = rows[-1][0] + 1

    def _packed(self, cursors: list[int]) -> list[Packed]:
        query = f"SELECT {PACKED_COLUMNS} FROM operations WHERE n IN (SELECT value FROM json_each(?))"
        return sorted((to_packed(row) for row in self.rows(query, str(cursors))), key=_order)

    # --- the notification stream ------------------------------------------------------------------------------------

    def last_cursor(self) -> int:
        """Where the notification stream ends now."""
        query = "SELECT coalesce((SELECT max(n) FROM operations), 0), coalesce((SELECT max(n) FROM notices), 0)"
        operation, notice = self.rows(query)[0]
        return max(int(operation), int(notice))

    def notices(self, after: int, limit: int, document: DocumentId | None = None) -> list[Notice]:
        """What happened after a cursor, up to ``limit``. Of one document, or of all."""
        only, parameters = "", (after, limit)  # type: tuple[str, tuple[int, ...]]
        if document is not None:
            # + keeps to the order of cursors: through an index of the document all that it holds would be read.
            only, parameters = "AND +{}.document = ?", (after, self.number(document), limit)
        arrived = self.rows(
            f"""SELECT operations.n, 'accepted', documents.id, operations.id, operations.kind, operations.local
              FROM operations JOIN documents ON documents.number = operations.document
              WHERE operations.n > ? {only.format("operations")} AND accepted = 1 ORDER BY operations.n LIMIT ?""",
            *parameters,
        )
        later = self.rows(
            f"""SELECT notices.n, what, documents.id, operations.id, operations.kind, operations.local FROM notices
              JOIN operations ON operations.n = notices.operation JOIN documents ON documents.number = notices.document
              WHERE notices.n > ? {only.format("notices")} ORDER BY notices.n LIMIT ?""",
            *parameters,
        )
        named = ((cursor, NOTICE_NAMES[what], *rest) for cursor, what, *rest in later)
        found = sorted([*arrived, *named], key=lambda row: row[0])[:limit]
        return [
            Notice(cursor, what, document_id, identity, kind, bool(local))
            for cursor, what, document_id, identity, kind, local in found
        ]


def _order(packed: Packed) -> tuple[int, bytes]:
    return packed.time, packed.id
