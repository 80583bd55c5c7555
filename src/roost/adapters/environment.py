"""Time and chance, passed in, so that a simulation can be run again."""

from __future__ import annotations

import os
import time
from typing import Protocol


class Environment(Protocol):
    """What a peer asks of the machine besides disk and network."""

    def now(self) -> int:
        """Wall clock, microseconds since the epoch. It may be wrong, and may jump."""

    def random(self, count: int) -> bytes:
        """``count`` unpredictable bytes."""


class SystemEnvironment:
    """The real clock and the operating system's randomness."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def random(self, count: int) -> bytes:
        return os.urandom(count)
