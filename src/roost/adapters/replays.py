"""Which verified requests were seen before, as long as their clock would let them pass again.

Only a request whose signature verified is remembered, so a flooder needs a signature for each; who serves requests
bounds their rate before verifying. Source: PROTOCOL section 4 "Authentication".
"""

from __future__ import annotations

import heapq
from typing import Final

from roost.core.errors import Busy, Replayed
from roost.core.ids import PeerKey

CLOCK_SECONDS_MAX: Final = 60  # how far created may be from the recipient's clock
REPLAYS_MAX: Final = 20_000  # remembered for at most 2 minutes at some 200 bytes: 4 MB, 160 requests/s for ever


class ReplayCache:
    """The verified requests that could still be replayed. Full of such, it refuses rather than forgets."""

    def __init__(self, entries_max: int = REPLAYS_MAX) -> None:
        self._entries_max = entries_max
        self._by_age: list[tuple[int, bytes]] = []  # a heap of (created, peer + nonce)
        self._known: set[bytes] = set()
        self._forgotten = -1  # the latest created of a request that was forgotten

    def __len__(self) -> int:
        return len(self._known)

    def admit(self, peer: PeerKey, nonce: bytes, created: int, now_seconds: float) -> None:
        """Remember a request; raise Replayed for one that is known, Busy when there is no room for another."""
        while self._by_age and self._by_age[0][0] < now_seconds - CLOCK_SECONDS_MAX:
            self._forgotten, forgotten = heapq.heappop(self._by_age)
            self._known.discard(forgotten)
        request = peer + nonce
        if request in self._known:
            raise Replayed
        if created <= self._forgotten:  # only after this clock was set back: it may be one of those
            raise Replayed("this peer's clock was set back, and the request is from before that")
        if len(self._known) >= self._entries_max:
            raise Busy("too many requests within two minutes")
        heapq.heappush(self._by_age, (created, request))
        self._known.add(request)
