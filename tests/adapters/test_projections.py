"""What is derived from the operations is derived anew when its version changes, and comes out the same."""

from __future__ import annotations

import sqlite3

import pytest

from roost.adapters.store.projections import PROJECTIONS, Derive, refresh
from roost.adapters.store.records import CachedChange
from roost.adapters.store.store import MemoryDisk, Store
from roost.core.errors import StoreFailed
from roost.core.ids import OperationId
from tests.adapters.store_kit import Author

DERIVED = "SELECT n, branch, key, origin, target FROM operations ORDER BY n"
BROKEN = "UPDATE operations SET branch = CASE WHEN branch IS NULL THEN NULL ELSE x'ff' END, key = NULL, target = NULL"


@pytest.fixture
async def disk() -> MemoryDisk:
    """A store with entries, an edit with its cached change, and a redact."""
    disk = MemoryDisk()
    store = Store.open(disk)
    author = Author()
    await store.commit(author.begin())
    edit = author.edit("x")
    batch = author.batch([author.entry(), author.entry(), edit, author.redact(OperationId(b"t" * 32))])
    batch.changes = [CachedChange(edit.operation.id, b"change")]
    await store.commit(batch)
    await store.close()
    return disk


def with_version(name: str, version: int) -> dict[str, tuple[int, Derive]]:
    return {**PROJECTIONS, name: (version, PROJECTIONS[name][1])}


async def test_a_store_of_this_version_is_left_as_it_is(disk: MemoryDisk) -> None:
    assert refresh(disk.connection) == []


async def test_columns_of_another_version_are_derived_anew_from_the_heads(disk: MemoryDisk) -> None:
    before = disk.connection.execute(DERIVED).fetchall()
    disk.connection.execute(BROKEN)
    assert disk.connection.execute(DERIVED).fetchall() != before

    assert refresh(disk.connection, with_version("columns", 2)) == ["columns"]

    assert disk.connection.execute(DERIVED).fetchall() == before


async def test_cached_changes_of_another_version_are_forgotten(disk: MemoryDisk) -> None:
    assert refresh(disk.connection, with_version("changes", 2)) == ["changes"]
    assert disk.connection.execute("SELECT count(*) FROM changes").fetchone() == (0,)


async def test_deriving_that_fails_leaves_everything_as_it_was(disk: MemoryDisk) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM changes")
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(StoreFailed):
        refresh(disk.connection, {"changes": (2, fail)})
    assert disk.connection.execute("SELECT count(*) FROM changes").fetchone() == (1,)
