"""The simulation finds what is removed: each of these rules, taken out, makes a named seed fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from roost.adapters.store.records import Batch
from roost.core import receiving
from roost.core.outcome import NewOperation
from roost.node.replica import Replica
from tests.simulation.simulation import simulate

SEED_OF_A_CRASH_BEFORE_A_COMMIT = 0
SEED_OF_A_FORGERY = 0
WRITTEN_LATER_SECONDS = 0.01


async def _acknowledge_first(self: Replica, batch: Batch, new: Sequence[NewOperation], source: object = None) -> None:
    """``Replica.commit`` that tells everybody, and commits a little later."""
    self._complete(batch, new)
    self._stored(batch, new, source)
    loop = asyncio.get_running_loop()
    loop.call_later(WRITTEN_LATER_SECONDS, lambda: loop.create_task(_write(self, batch)))


async def _write(replica: Replica, batch: Batch) -> None:
    await replica._store.commit(batch)


def _believe(signed: object, author: object) -> bool:
    """``authentic.is_signed`` without a look at the signature."""
    return True


def test_acknowledging_before_the_commit_loses_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert simulate(SEED_OF_A_CRASH_BEFORE_A_COMMIT).problems == []

    monkeypatch.setattr(Replica, "commit", _acknowledge_first)

    problems = simulate(SEED_OF_A_CRASH_BEFORE_A_COMMIT).problems
    assert [problem for problem in problems if "which it had acknowledged" in problem]


def test_without_the_signature_check_others_write_in_ones_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert simulate(SEED_OF_A_FORGERY).problems == []

    monkeypatch.setattr(receiving, "is_signed", _believe)

    problems = simulate(SEED_OF_A_FORGERY).problems
    assert [problem for problem in problems if "who did not write it" in problem]
