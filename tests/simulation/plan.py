"""What a seed decides before anything runs."""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import Struct

from tests.simulation.weather import CALM, Rates

HOUR: Final = 3600 * 1_000_000
SKEW_HOURS_MAX: Final = 20.0

WEATHERS: Final = (
    CALM,
    Rates(drops=30, doubles=30, lags=30, slows=30),
    Rates(lags=150, doubles=100),
    Rates(drops=120, slows=50),
    Rates(cuts=25, slows=80),
    Rates(drops=60, doubles=60, lags=60, slows=60, cuts=8),
)

LOSSY: Final = Rates(drops=150, slows=50)

KINDS: Final = {  # action -> weight
    "send": 9, "burst": 4, "keyed": 3, "put": 4, "splice": 4, "redact": 1, "access": 1, "share": 1,
    "restart": 1, "move": 4, "crash": 3, "crash_commit": 4, "pause": 3, "partition": 2, "clock": 2, "weather": 4,
}  # fmt: skip

STEADY: Final = ("send", "burst", "keyed", "put", "splice", "redact", "access", "clock", "weather")

FAULTS: Final = (
    "drop", "duplicate", "reorder", "delay", "cut", "partition", "pause", "crash", "crash_commit", "restart", "move",
    "skew", "clock_jump", "backdate", "fork", "equivocate", "false_signature", "forge", "jump", "seize", "malformed",
    "lie",
)  # fmt: skip


class Plan(Struct, frozen=True):
    """``odd_clocks``: clocks may differ by more than a day, so that operations jump."""

    seed: int
    peers: int
    documents: int
    actions: int
    mover: int  # the machine that changes its address: two who do at once may never find each other again
    rogue: str | None  # its role
    removals: bool
    odd_clocks: bool
    wild: bool  # the weather is bad from the beginning
    steady: bool  # frames are lost, but links and processes last: nothing but anti-entropy brings what was lost

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = Random(f"{seed}/plan")
        return cls(
            seed=seed,
            peers=chance.choice((3, 3, 3, 4, 4, 5)),
            documents=chance.choice((1, 1, 2)),
            actions=chance.randint(25, 60),
            mover=chance.randrange(3),
            rogue=chance.choice((None, "write", "write", "write", "admin")),
            removals=chance.random() < 0.5,
            odd_clocks=chance.random() < 0.5,
            wild=chance.random() < 0.5,
            steady=chance.random() < 0.15,
        )

    @property
    def skew_max(self) -> int:
        """Microseconds; two clocks may differ by twice as much."""
        return round((SKEW_HOURS_MAX if self.odd_clocks else 11.5) * HOUR)
