"""Group commit: all batches that wait go into one transaction, each under its own savepoint, with one sync to disk.

A batch that fails, fails alone; but later batches of the same document that were made before anyone could know of it
rest on what it would have stored, so they fail too: a batch counts only if it was made in knowledge of all failures.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import NamedTuple, TypeAlias

from roost.adapters.store.apply import Applier
from roost.adapters.store.records import Batch, Committed
from roost.core.errors import Conflict, RoostError, StoreFailed
from roost.core.ids import DocumentId

GROUP_BATCHES_MAX = 512
GROUP_BYTES_MAX = 4 << 20  # a transaction's pages stay in the writer's cache
CHECKPOINT_PAGES = 2000  # about: then what stands in the log is copied into the file, after the acknowledgement
AT_ONCE_BYTES_MAX = 16 << 10
AT_ONCE_SECONDS_MAX = 0.002  # a slower disk would hold the loop up; the thread then finds out when it is fast again
_PAGE_BYTES = 4096
_PAGES_PER_GROUP = 5  # measured: the pages that an append of one entry touches

# What can be wrong with one batch and leaves the others alone. Values that SQLite cannot take are the last four.
_BATCH_ERRORS = (RoostError, sqlite3.Error, OverflowError, ValueError, TypeError, LookupError)

Result: TypeAlias = Committed | RoostError


class Request(NamedTuple):
    """A batch, with the documents whose operations it changes and how many failed writes to each were known then."""

    batch: Batch
    known_failures: dict[DocumentId, int]
    size: int  # bytes, about


class Committer:
    """Commits groups of batches on the connection that writes; synchronous, with one owner."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._applier = Applier(connection)
        self._failures: dict[DocumentId, int] = {}
        self._logged_pages = 0
        self._truncate = False  # an erased content still stands in the log
        self.seconds = 0.0  # what a commit took of late

    def commit(self, requests: Sequence[Request]) -> list[Result]:
        """One result for each request, in order: what it did, or why it was not stored."""
        began = perf_counter()
        failures = self._failures.copy()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            if len(requests) == 1:
                results: list[Result] = [self._attempt(requests[0])]
            else:
                results = [self._attempt_among_others(request) for request in requests]
            self._db.execute("COMMIT")
        except _BATCH_ERRORS as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._failures = failures  # each request fails once, those too that had failed by themselves
            results = [self._failure(request, error) for request in requests]
        else:
            self._logged_pages += _PAGES_PER_GROUP + 2 * sum(request.size for request in requests) // _PAGE_BYTES
            self._truncate |= any(request.batch.erasures for request in requests)
        self.seconds += (perf_counter() - began - self.seconds) / 8
        if self._truncate:
            self._truncate = not self._checkpoint("TRUNCATE")
        return results

    def _attempt(self, request: Request) -> Committed:
        if any(self._failures.get(document, 0) != known for document, known in request.known_failures.items()):
            raise StoreFailed("an earlier write to this document failed")
        return self._applier.apply(request.batch)

    def _attempt_among_others(self, request: Request) -> Result:
        self._db.execute("SAVEPOINT batch")
        try:
            committed = self._attempt(request)
        except _BATCH_ERRORS as error:
            if not self._db.in_transaction:  # a full disk can make SQLite roll everything back by itself
                raise sqlite3.OperationalError(str(error)) from error
            self._db.execute("ROLLBACK TO batch")
            self._db.execute("RELEASE batch")
            return self._failure(request, error)
        self._db.execute("RELEASE batch")
        return committed

    def _failure(self, request: Request, error: Exception) -> RoostError:
        self._applier.forget()
        for document in request.known_failures:
            self._failures[document] = self._failures.get(document, 0) + 1
        match error:
            case RoostError():
                return error
            case sqlite3.IntegrityError():
                return Conflict(str(error))
        return StoreFailed(f"{type(error).__name__}: {error}")

    @property
    def untidy(self) -> bool:
        return self._logged_pages >= CHECKPOINT_PAGES

    @property
    def quick(self) -> bool:
        return self.seconds < AT_ONCE_SECONDS_MAX and not self._truncate

    def tidy(self) -> None:
        """Between commits, when nobody waits: keep the log short, so that reading stays fast and the disk free."""
        if self.untidy:
            self._checkpoint("PASSIVE")

    def _checkpoint(self, how: str) -> bool:
        """Whether all of it was done; a reader in the middle of a long look may be in the way."""
        self._logged_pages = 0
        try:
            busy, in_log, moved = self._db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        except sqlite3.Error:
            return False  # nothing is lost: the log keeps what the file does not take, and a later one tries again
        return not busy and in_log == moved


def documents_of(batch: Batch) -> set[DocumentId]:
    """The documents whose set of operations a batch changes."""
    found = {row.document for row in batch.stretches}
    found.update(row.document for row in batch.groups)
    found.update(verdict.document for verdict in batch.verdicts)
    found.update(new.operation.document for new in batch.operations)
    return found


def is_small(request: Request) -> bool:
    """Whether a batch takes about as long as the disk takes to sync, so that the loop can wait for it."""
    batch = request.batch
    return request.size <= AT_ONCE_BYTES_MAX and not (batch.verdicts or batch.erasures or batch.forget_changes)


def size_of(batch: Batch) -> int:
    """Bytes that a batch writes, about."""
    return sum(new.operation.size for new in batch.operations) + sum(len(item.content) for item in batch.contents)


Deliver: TypeAlias = Callable[[Sequence["Waiting"], Sequence[Result]], None]


class Waiting(NamedTuple):
    """A request and who waits for it."""

    request: Request
    future: asyncio.Future[Committed]


class Signal(Enum):
    """What else the thread is told."""

    STOP = "stop"
    TIDY = "tidy"


class WriterThread:
    """The one thread that writes to a file. ``deliver`` is called in the loop, once for each group.

    Waking a thread and being woken costs a third of a commit on a fast disk. So a small batch that nobody else waits
    beside is committed at once, in the loop; ``_lock`` says who has the connection.
    """

    def __init__(self, connection: sqlite3.Connection, deliver: Deliver) -> None:
        self._committer = Committer(connection)
        self._deliver = deliver
        self._queue: SimpleQueue[Sequence[Waiting] | Signal] = SimpleQueue()
        self._lock = threading.Lock()
        self._handed_over = 0  # requests that were not delivered yet; only the loop touches it
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def put(self, group: Sequence[Waiting]) -> None:
        """Take the requests of one turn of the loop."""
        if len(group) == 1 and self._handed_over == 0 and is_small(group[0].request) and self._lock.acquire(False):
            try:
                results = self._committer.commit([group[0].request]) if self._committer.quick else None
            finally:
                self._lock.release()
            if results is not None:
                if self._committer.untidy:
                    self._queue.put(Signal.TIDY)
                self._deliver(group, results)
                return
        self._handed_over += len(group)
        self._queue.put(group)  # in one piece: the thread wakes at the first, and would begin with that alone

    def stop(self) -> None:
        """Commit what waits, then end. Blocks until that is done."""
        self._queue.put(Signal.STOP)
        self._thread.join()

    def _run(self) -> None:
        group: list[Waiting] = []
        try:
            while not self._stopping:
                group = self._take()
                with self._lock:
                    if group:
                        self._tell(group, self._committer.commit([waiting.request for waiting in group]))
                    group = []
                    self._committer.tidy()
        finally:  # reached with a group only by a fault of our own; nobody may hang on it
            self._stopping = True
            group += self._drain()
            self._tell(group, [StoreFailed("the writer has stopped")] * len(group))

    def _take(self) -> list[Waiting]:
        """Wait for the requests of a turn, then take those of later turns that are there, up to the bounds."""
        group: list[Waiting] = []
        size = 0
        item = self._queue.get()
        while not isinstance(item, Signal):
            group += item
            size += sum(waiting.request.size for waiting in item)
            if len(group) >= GROUP_BATCHES_MAX or size >= GROUP_BYTES_MAX:
                return group
            try:
                item = self._queue.get_nowait()
            except Empty:
                return group
        self._stopping = item is Signal.STOP
        return group

    def _drain(self) -> list[Waiting]:
        left: list[Waiting] = []
        while not self._queue.empty():
            item = self._queue.get()
            if not isinstance(item, Signal):
                left += item
        return left

    def _tell(self, group: list[Waiting], results: Sequence[Result]) -> None:
        if not group:
            return
        try:
            group[0].future.get_loop().call_soon_threadsafe(self._delivered, group, results)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _delivered(self, group: Sequence[Waiting], results: Sequence[Result]) -> None:
        self._handed_over -= len(group)
        self._deliver(group, results)
