"""One process per data directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roost.adapters.store.lock import acquire
from roost.core.errors import HomeBusy, StoreFailed

ROOT = Path(__file__).parents[2]
HOLDS = """
import sys, pathlib
from roost.adapters.store.lock import acquire
lock = acquire(pathlib.Path(sys.argv[1]), "roost up")
print("held", flush=True)
sys.stdin.read()
"""


def holder(home: Path) -> subprocess.Popen[str]:
    """A process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_who_comes_second_is_told_who_is_there(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        began = time.monotonic()
        with pytest.raises(HomeBusy, match=f"process {first.pid}, roost up, since"):
            acquire(tmp_path, "roost log", wait_seconds=0.2)
        assert 0.2 <= time.monotonic() - began < 2
        first.kill()


def test_a_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.kill()
        acquire(tmp_path, "roost log").release()


def test_who_waits_gets_in_when_the_first_is_done(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        assert first.stdin is not None
        first.stdin.close()
        with acquire(tmp_path, "roost log"):
            assert first.wait(10) == 0


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    with acquire(home, "one"), pytest.raises(HomeBusy, match=f"process {os.getpid()}, one"):
        acquire(home, "two", wait_seconds=0)
    with acquire(home, "three") as lock:
        lock.release()
        acquire(home, "four", wait_seconds=0).release()
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(StoreFailed, match="home"):
        acquire(tmp_path / "home", "one")
