"""scripts/bench on tiny sizes: every figure is told, in its form. What it measures then means nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT

BENCH_SECONDS_MAX = 240
FIGURES = {
    "append_one", "append_50", "append_flat", "catch_up_10k", "catch_up_100k", "live_p50", "live_p99", "fanout_p99",
    "open_100k", "rss_growth", "wire", "disk", "state_edits", "cli_version", "cli_log",
}  # fmt: skip
FIELDS = ["name", "value", "unit", "reference", "ratio", "limit", "ok"]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BENCH_SECONDS_MAX,
        check=False,
    )


@pytest.mark.timeout(BENCH_SECONDS_MAX + 30)
def test_every_figure_is_told_as_a_line_of_its_own() -> None:
    done = bench("--quick", "--json")
    figures = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}

    assert (done.returncode, done.stderr) == (0, "")
    assert set(figures) >= FIGURES
    assert len(figures) == len(done.stdout.splitlines())
    for row in figures.values():
        assert list(row) == FIELDS
        assert row["value"] is not None
        assert row["unit"]
        assert row["ratio"] is None or row["reference"] > 0
        assert type(row["ok"]) is bool


@pytest.mark.timeout(BENCH_SECONDS_MAX + 30)
def test_only_the_figures_that_were_asked_for_are_measured() -> None:
    done = bench("--quick", "--json", "--only", "disk,state_edits")

    assert {json.loads(line)["name"] for line in done.stdout.splitlines()} == {
        "disk", "state_edits", "state_edits_meeting",
    }  # fmt: skip


def test_a_figure_that_does_not_exist_is_refused() -> None:
    done = bench("--only", "warp")

    assert done.returncode == 2
    assert "no figure warp" in done.stderr
