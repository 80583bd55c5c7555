"""The simulation finds what is removed: each of these rules, taken out, makes a named seed fail."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from roost.adapters.store.records import Batch, Committed
from roost.adapters.store.store import Store
from roost.core import receiving
from roost.core.sync import Effect, SyncMachine
from tests.simulation.simulation import simulate

# Some for each, as every change to what a peer sends or draws gives the schedules another course.
CRASHES_BEFORE_A_COMMIT = (5, 7, 8)
FORGERIES = (6, 16, 22)
LOST_FRAMES = (9, 30, 40)
WRITTEN_LATER_SECONDS = 0.01
commit = Store.commit


async def _acknowledge_first(self: Store, batch: Batch) -> Committed:
    """``Store.commit`` that tells everybody that operations are stored, and stores them a little later."""
    if batch.documents or not batch.operations:
        return await commit(self, batch)
    if batch.stored is not None:
        batch.stored()
    batch.stored = None
    loop = asyncio.get_running_loop()
    loop.call_later(WRITTEN_LATER_SECONDS, lambda: loop.create_task(commit(self, batch)))
    return Committed(1, 0)


def _believe(signed: object, author: object) -> bool:
    """``authentic.is_signed`` without a look at the signature."""
    return True


def _let_it_be(self: SyncMachine, now: int) -> Sequence[Effect]:
    """``SyncMachine._on_tick`` that compares nothing."""
    return []


def _problems(seeds: Sequence[int]) -> list[str]:
    return [problem for seed in seeds for problem in simulate(seed).problems]


def test_acknowledging_before_the_commit_loses_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _problems(CRASHES_BEFORE_A_COMMIT) == []

    monkeypatch.setattr(Store, "commit", _acknowledge_first)

    assert [problem for problem in _problems(CRASHES_BEFORE_A_COMMIT) if "which it had acknowledged" in problem]


def test_without_the_signature_check_others_write_in_ones_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _problems(FORGERIES) == []

    monkeypatch.setattr(receiving, "is_signed", _believe)

    assert [problem for problem in _problems(FORGERIES) if "who did not write it" in problem]


def test_without_anti_entropy_a_lost_frame_is_lost_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _problems(LOST_FRAMES) == []

    monkeypatch.setattr(SyncMachine, "_on_tick", _let_it_be)

    assert [problem for problem in _problems(LOST_FRAMES) if "never come to hold the same" in problem]
