"""The one stream that tells what happened here: accepted, withdrawn, restored, erased; each with a cursor.

A subscriber reads the store from its cursor and sleeps until the next commit: nothing polls, and nothing is lost
between two reads or over a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from roost.adapters.store.records import Notice
from roost.adapters.store.store import Store
from roost.core.ids import DocumentId

READ_MAX = 500  # notices per read; a subscriber that lags far behind must not hold the loop


class Notices:
    """Wakes subscribers after each commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: set[asyncio.Future[None]] = set()
        self.closed = False

    def wake(self) -> None:
        """Something was committed."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """End every subscription."""
        self.closed = True
        self.wake()

    async def subscribe(self, after: int, document: DocumentId | None = None) -> AsyncIterator[Notice]:
        """Every notice with a cursor above ``after``, of one document or of all, then each new one."""
        cursor = after
        while not self.closed:
            seen = self._store.reader.last_cursor()
            batch = self._store.reader.notices(cursor, READ_MAX, document)
            for notice in batch:
                cursor = notice.cursor
                yield notice
            if len(batch) == READ_MAX:
                continue
            cursor = max(cursor, seen)
            if self._store.reader.last_cursor() == seen:
                await self._next_commit()

    async def _next_commit(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
