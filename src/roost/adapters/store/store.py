"""The one class through which a peer keeps things: ``commit`` writes, ``reader`` and ``read`` look up."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal, TypeVar

from roost.adapters.store.projections import refresh
from roost.adapters.store.reader import Reader
from roost.adapters.store.records import Batch, Committed
from roost.adapters.store.schema import (
    SCANNER_CACHE_KIB,
    check_header,
    connect_reader,
    connect_writer,
    create_private,
    migrate,
)
from roost.adapters.store.writer import Committer, Request, Result, Waiting, WriterThread, documents_of, size_of
from roost.core.errors import RoostError, StoreFailed
from roost.core.ids import DocumentId

STORE_NAME = "store.db"  # in the data directory
SCANNERS = 2  # connections for long reads; each has a cache of its own

Answer = TypeVar("Answer")


class MemoryDisk:
    """What a store in memory keeps its tables on. It outlives the store, so that a crash can be played: drop the
    store, open another on the same disk, and exactly what was committed is there."""

    def __init__(self) -> None:
        self.connection = connect_writer(None)


def _ignore(_: object) -> None:
    return None


class Store:
    """A peer's tables, in a file or in memory. Used from one event loop.

    on_commit is called in the loop after each commit, in the order of the commits, before whoever waits goes on.
    on_failure is called with a batch that was not stored, before anything else can be committed that rests on it: who
    holds the documents in memory drops them there.
    """

    def __init__(
        self, writer: sqlite3.Connection, reader: sqlite3.Connection, thread: bool, at: Path | MemoryDisk
    ) -> None:
        """Use ``open``."""
        self.path = at if isinstance(at, Path) else None
        self.disk = at if isinstance(at, MemoryDisk) else None
        self.on_commit: Callable[[Committed], None] = _ignore
        self.on_failure: Callable[[Batch], None] = _ignore
        self.reader = Reader(reader)
        self.connection = writer
        self._failures: dict[DocumentId, int] = {}  # failed writes that were told to on_failure
        self._closed = False
        self._waiting: list[Waiting] = []
        self._thread = WriterThread(writer, self._deliver) if thread else None
        self._committer = None if thread else Committer(writer)
        self._scanners: SimpleQueue[Reader] = SimpleQueue()
        self._pool = None if self.path is None else ThreadPoolExecutor(SCANNERS, "store reader")

    @classmethod
    def open(cls, at: Path | MemoryDisk | None, *, writer: Literal["thread", "inline"] | None = None) -> Store:
        """Open, and make or migrate, the store in a file; None is a new one in memory.

        writer "thread" commits in a thread, or at once where that is quicker (``WriterThread``); "inline" always at
        once, inside the awaited call; in memory that is the only way. Raises StoreFailed, StoreTooNew.
        """
        if at is None or isinstance(at, MemoryDisk):
            assert writer != "thread", "a connection in memory is shared, so a thread would show its half-done work"
            disk = at or MemoryDisk()
            migrate(disk.connection)
            refresh(disk.connection)
            return cls(disk.connection, disk.connection, False, disk)
        create_private(at)
        check_header(at)
        connection = None
        try:
            connection = connect_writer(at)
            migrate(connection)
            refresh(connection)
            return cls(connection, connect_reader(at), writer != "inline", at)
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise StoreFailed(f"{at}: {error}") from error
        except RoostError:
            if connection is not None:
                connection.close()
            raise

    # --- writing ----------------------------------------------------------------------------------------------------

    async def commit(self, batch: Batch) -> Committed:
        """Store all of a batch, or nothing of it; durable when this returns.

        Raises Conflict, NotFound, or StoreFailed. A caller that is cancelled meanwhile does not know which it was.
        """
        known = {document: self._failures.get(document, 0) for document in documents_of(batch)}
        request = Request(batch, known, size_of(batch))
        if self._committer is not None and not self._closed:
            (result,) = self._committer.commit([request])
            self._announce(request, result)
            self._committer.tidy()
            await asyncio.sleep(0)  # as with a thread, others run before the caller knows
            if isinstance(result, RoostError):
                raise result
            return result
        if self._closed or self._thread is None or not self._thread.alive:
            raise StoreFailed("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Committed] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._hand_over)  # after whatever else commits in this turn of the loop
        self._waiting.append(Waiting(request, future))
        return await future

    def _hand_over(self) -> None:
        group, self._waiting = self._waiting, []
        if self._thread is not None:
            self._thread.put(group)

    def _deliver(self, group: Sequence[Waiting], results: Sequence[Result]) -> None:
        for (request, future), result in zip(group, results, strict=True):
            self._announce(request, result)
            if future.done():  # cancelled by who waited
                continue
            if isinstance(result, RoostError):
                future.set_exception(result)
            else:
                future.set_result(result)

    def _announce(self, request: Request, result: Result) -> None:
        if isinstance(result, RoostError):
            self.on_failure(request.batch)
            for document in request.known_failures:
                self._failures[document] = self._failures.get(document, 0) + 1
            return
        if request.batch.stored is not None:
            request.batch.stored()
        if result.last_cursor >= result.first_cursor:
            self.on_commit(result)

    async def close(self) -> None:
        """Commit what waits, then let go of the file."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        if self._thread is not None:
            self._hand_over()
            await loop.run_in_executor(None, self._thread.stop)  # what it told last is delivered before this returns
        if self._pool is None:
            return  # the disk in memory belongs to whoever made it
        self._pool.shutdown(wait=True)
        while not self._scanners.empty():
            self._scanners.get().close()
        self.reader.close()
        self.connection.close()

    # --- reading ----------------------------------------------------------------------------------------------------

    async def read(self, look: Callable[[Reader], Answer]) -> Answer:
        """Run a longer look in a thread, on a connection of its own; in memory, at once.

        Worth it for look-ups that read much and return little: each row that crosses costs a wait for the interpreter
        while the loop is busy.
        """
        if self._pool is None or self.path is None:
            return look(self.reader)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._scan, self.path, look)

    def _scan(self, path: Path, look: Callable[[Reader], Answer]) -> Answer:
        try:
            reader = self._scanners.get_nowait()
        except Empty:
            reader = Reader(connect_reader(path, SCANNER_CACHE_KIB))
        try:
            return look(reader)
        finally:
            self._scanners.put(reader)
