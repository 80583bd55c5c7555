"""A disk in memory on which a process can die between any two statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from roost.adapters.store.schema import connect_writer
from roost.adapters.store.store import MemoryDisk
from tests.simulation.loop import Killed


class Disk(MemoryDisk):
    """``fuse`` statements from now on the process dies; in a transaction, it is then undone.

    ``after`` says whether a COMMIT, if it is one, is still carried out: then it is durable, and nobody was told.
    """

    def __init__(self) -> None:
        self._real = connect_writer(None)
        self.fuse: int | None = None
        self.after = False
        self.on_fuse: Callable[[], None] = lambda: None
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()
        self.connection = _Connection(self._real, self._burn, self._cursors)  # type: ignore[assignment]  # has what the store uses

    def _burn(self, statement: str) -> None:
        if self.fuse is None:
            return
        self.fuse -= 1
        if self.fuse <= 0:
            self.fuse = None
            if self.after and statement == "COMMIT":
                self._real.execute(statement)
            self.on_fuse()
            raise Killed

    def recover(self) -> None:
        """What a real disk shows after a crash: nothing of an unfinished transaction."""
        self.fuse = None
        for cursor in list(self._cursors):  # frames of the dead process still hold them
            cursor.close()
        if self._real.in_transaction:
            self._real.execute("ROLLBACK")

    def close(self) -> None:
        self._real.close()


class _Connection:
    """Hands everything on; what changes the disk burns the fuse."""

    def __init__(self, real: sqlite3.Connection, burn: Callable[[str], None], cursors: WeakSet[sqlite3.Cursor]) -> None:
        self._real = real
        self._burn = burn
        self._cursors = cursors

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if not statement.lstrip().startswith("SELECT"):
            self._burn(statement)
        cursor = self._real.execute(statement, *parameters)
        self._cursors.add(cursor)
        return cursor

    def executemany(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        self._burn(statement)
        return self._real.executemany(statement, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
