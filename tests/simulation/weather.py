"""What goes wrong on the network: seeded, and counted whenever it did."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from msgspec import Struct

from roost.adapters.carriers.memory import Faults

LAG_SECONDS_MAX: Final = 2.0
SLOW_SECONDS: Final = 0.5  # a delay from here on is counted as one: longer than any pause between two actions


class Rates(Struct, frozen=True):
    """How often each fault happens to a frame, of 1000."""

    drops: int = 0
    doubles: int = 0
    lags: int = 0
    slows: int = 0
    cuts: int = 0


CALM: Final = Rates()


class Weather(Faults):
    """The faults of one world. ``islands`` are the sides of a partition: addresses on different ones are apart."""

    def __init__(self, chance: Random, fired: Counter[str]) -> None:
        self.rates = CALM
        self.islands: dict[str, int] = {}
        self._chance = chance
        self._fired = fired

    def _happens(self, name: str, of_thousand: int) -> bool:
        if not of_thousand or self._chance.randrange(1000) >= of_thousand:
            return False
        self._fired[name] += 1
        return True

    def reaches(self, source: str, target: str) -> bool:
        if self.islands.get(source, 0) == self.islands.get(target, 0):
            return True
        self._fired["partition"] += 1
        return False

    def delay_seconds(self, source: str, target: str) -> float:
        if self._happens("delay", self.rates.slows):
            return SLOW_SECONDS + self._chance.random() * 5
        return 0.001 + self._chance.random() * 0.05

    def lag_seconds(self, source: str, target: str) -> float:
        return self._chance.random() * LAG_SECONDS_MAX if self._happens("reorder", self.rates.lags) else 0.0

    def drops(self, source: str, target: str) -> bool:
        return self._happens("drop", self.rates.drops)

    def doubles(self, source: str, target: str) -> bool:
        return self._happens("duplicate", self.rates.doubles)

    def cuts(self, source: str, target: str) -> bool:
        return self._happens("cut", self.rates.cuts)
