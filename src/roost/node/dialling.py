"""Dialling one peer for ever: quickly while it was seen within a day, patiently after."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence

from roost.adapters.carriers.carrier import Carrier, Wire
from roost.core.errors import RoostError
from roost.core.ids import PeerKey

FIRST_SECONDS = 0.2
SOON_SECONDS_MAX = 10.0  # for a peer that was seen within a day
LATE_SECONDS_MAX = 300.0
DAY_SECONDS = 86_400.0
STABLE_SECONDS = 5.0  # a link that ends sooner counts as a failed try: somebody closes it on purpose
ADDRESSES_MAX = 16


class Dialler:
    """Keeps one peer linked. ``serve`` runs a wire until it ends; ``linked`` says whether there is a link already."""

    def __init__(
        self,
        carrier: Carrier,
        key: PeerKey,
        addresses: Sequence[str],
        serve: Callable[[Wire], Coroutine[object, object, None]],
        linked: Callable[[], bool],
        nearby: Callable[[PeerKey], Sequence[str]],
    ) -> None:
        """nearby(key) is asked before each try for further addresses."""
        self._carrier = carrier
        self._key = key
        self._addresses = list(addresses)
        self._serve = serve
        self._linked = linked
        self._nearby = nearby
        self._news = asyncio.Event()
        self._trying: list[asyncio.Future[None]] = []
        self._seen = asyncio.get_running_loop().time()
        self._jitter = random.Random(key)  # noqa: S311  # spreads dials, keeps no secret; seeded, so runs repeat
        self._task = asyncio.ensure_future(self._run())

    def learn(self, addresses: Sequence[str]) -> None:
        """The peer may be found here, rather than where it was."""
        new = [address for address in addresses if address not in self._addresses]
        if new:
            self._addresses = [*new, *self._addresses][:ADDRESSES_MAX]
            self._news.set()

    def lost(self) -> None:
        """The link with the peer has ended, whoever had begun it."""
        self._news.set()

    async def try_now(self) -> None:
        """Dial without waiting longer, unless there is a link; returns when there is one, or the try is over."""
        if self._linked():
            return
        tried: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._trying.append(tried)
        self._news.set()
        await tried

    def _tell_tried(self) -> None:
        trying, self._trying = self._trying, []
        for tried in trying:
            if not tried.done():
                tried.set_result(None)

    def stop(self) -> None:
        self._task.cancel()

    async def stopped(self) -> None:
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        wait = FIRST_SECONDS
        while True:
            while self._linked():
                wait = FIRST_SECONDS
                self._seen = loop.time()
                self._tell_tried()
                await self._pause(None)
            begun = loop.time()
            if await self._dial():
                self._seen = loop.time()
                if self._seen - begun >= STABLE_SECONDS:
                    wait = FIRST_SECONDS
            self._tell_tried()
            if self._linked():
                continue
            limit = SOON_SECONDS_MAX if loop.time() - self._seen < DAY_SECONDS else LATE_SECONDS_MAX
            await self._pause(wait * (0.75 + 0.5 * self._jitter.random()))
            wait = min(wait * 2, limit)

    async def _pause(self, seconds: float | None) -> None:
        """Wait, but no longer when there is news: a link lost, an address to try, somebody who waits."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _dial(self) -> bool:
        """Try each address; True if there was a link, and it is over."""
        for address in dict.fromkeys([*self._nearby(self._key), *self._addresses]):
            try:
                connection = await self._carrier.dial(address, self._key)
            except RoostError:
                continue
            serving = asyncio.ensure_future(self._serve(connection))
            try:
                await asyncio.sleep(0)  # now the link is known
                self._tell_tried()
                await serving
            finally:
                if not serving.done():  # cancelled before it began; later it has been waited for, and has closed
                    serving.cancel()
                    await connection.close()
            return True
        return False
