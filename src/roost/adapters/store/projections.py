"""What is derived from the operations has a version: a store that another version derived is derived anew when opened.

The operations' header, head, content and signature bytes are the truth; the columns that surfaces search by and the
cached changes of the merge engine follow from them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from roost.adapters.store.rows import derived_columns
from roost.core.errors import Refused, StoreFailed
from roost.core.heads import EntryHead, RedactHead, decode_head
from roost.core.ids import OperationId

PAGE = 1000

Derive = Callable[[sqlite3.Connection], None]


def _forget_changes(connection: sqlite3.Connection) -> None:
    """They are made again when somebody reads the state."""
    connection.execute("DELETE FROM changes")


def _derive_columns(connection: sqlite3.Connection) -> None:
    after = 0
    query = "SELECT n, id, kind, head FROM operations WHERE n > ? AND kind IN ('entry', 'redact') ORDER BY n LIMIT ?"
    while rows := connection.execute(query, (after, PAGE)).fetchall():
        derived = []
        for number, identity, kind, head_bytes in rows:
            try:
                head = decode_head(kind, head_bytes)
            except Refused:
                continue  # a damaged row: what it was derived to before stays, until it is repaired
            if isinstance(head, EntryHead | RedactHead):
                derived.append((*derived_columns(OperationId(identity), head), number))
        connection.executemany("UPDATE operations SET branch = ?, key = ?, origin = ?, target = ? WHERE n = ?", derived)
        after = rows[-1][0]


PROJECTIONS: Mapping[str, tuple[int, Derive]] = {  # name: (version, how to derive it anew)
    "changes": (1, _forget_changes),
    "columns": (1, _derive_columns),
}


def refresh(connection: sqlite3.Connection, projections: Mapping[str, tuple[int, Derive]] = PROJECTIONS) -> list[str]:
    """Derive anew, in one transaction each, what another version derived; the names of these. Raises StoreFailed."""
    stored: dict[str, int] = dict(connection.execute("SELECT name, version FROM projections"))
    stale = [name for name, (version, _) in projections.items() if stored.get(name) != version]
    for name in stale:
        version, derive = projections[name]
        try:
            connection.execute("BEGIN IMMEDIATE")
            derive(connection)
            connection.execute("INSERT OR REPLACE INTO projections VALUES (?, ?)", (name, version))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise StoreFailed(f"deriving {name} anew: {error}") from error
    return stale
