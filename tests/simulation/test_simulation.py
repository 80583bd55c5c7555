"""Seeded schedules of writes and faults: what holds in the end, on every peer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.plan import FAULTS
from tests.simulation.regressions import FOUND
from tests.simulation.simulation import simulate

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SCHEDULES: Final = 300
CHUNKS: Final = 12  # so that processes share them out
FIRED_MIN: Final = 50  # in all schedules, of each fault
PRINT_TRACES: Final = """
from tests.simulation.simulation import simulate
for seed in (1, 2, 3): print(simulate(seed).trace)
"""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_after_any_schedule_of_faults_all_members_hold_and_show_the_same_and_nothing_acknowledged_is_lost(
    chunk: int,
) -> None:
    outcomes = [simulate(seed) for seed in range(chunk, SCHEDULES, CHUNKS)]

    assert {outcome.seed: outcome.problems for outcome in outcomes if outcome.problems} == {}
    fired = sum((outcome.fired for outcome in outcomes), Counter[str]())
    assert [fault for fault in FAULTS if fired[fault] * CHUNKS < FIRED_MIN] == [], "these fired too rarely"
    assert sum(outcome.members for outcome in outcomes) > 3 * len(outcomes), "who is alone has nobody to agree with"
    assert sum(outcome.acknowledged for outcome in outcomes) > 20 * len(outcomes)


@pytest.mark.parametrize(("seed", "found"), FOUND.items())
def test_a_schedule_that_once_failed_does_not_fail_again(seed: int, found: str) -> None:
    assert simulate(seed).problems == [], found


def test_a_seed_run_twice_gives_the_same_trace() -> None:
    traces = [simulate(seed).trace for seed in (1, 2, 3)]

    assert [simulate(seed).trace for seed in (1, 2, 3)] == traces
    assert len(set(traces)) == 3


def test_a_seed_gives_the_same_trace_in_another_process() -> None:
    traces = [simulate(seed).trace for seed in (1, 2, 3)]

    for hash_seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        run = subprocess.run(
            [sys.executable, "-c", PRINT_TRACES], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == traces
