"""The README's commands, run as they stand there on a copy of the project, with an empty home and no environment made.

The test command is not run in full, for this file is part of what it runs; it is continuous integration that runs it
from a fresh clone. Here it must only be the one that ``.ci/run`` runs, and start.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer

import pytest

from tests.conftest import ROOT

FIRST_SCREEN_LINES = 40
DEMO_SECONDS = 420  # it fills an environment from the package index
STOP_SECONDS = 30
# What a person's shell would not have: settings of the environment that runs these tests, and of roost.
NOT_INHERITED = re.compile(r"(VIRTUAL_ENV|PYTHON|PYTEST|ROOST|COV_|UV_)")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


@pytest.fixture(scope="module")
def blocks() -> list[Block]:
    readme = (ROOT / "README.md").read_text("utf-8")
    return [
        Block(match["language"], match["text"], readme.count("\n", 0, match.start()) + 1)
        for match in re.finditer(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", readme, re.M | re.S)
    ]


@pytest.fixture(scope="module")
def commands(blocks: list[Block]) -> list[Block]:
    return [block for block in blocks if block.language == "bash"]


@pytest.fixture
def checkout(tmp_path: Path, project_files: list[Path]) -> Path:
    """A copy of the project's files and nothing else: no environment, no caches."""
    for path in project_files:
        (tmp_path / "roost" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tmp_path / "roost" / path)
    return tmp_path / "roost"


@pytest.fixture
def person(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has never used roost: an empty home, this machine's network settings."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not NOT_INHERITED.match(name)}
    directories = [name for name in kept["PATH"].split(os.pathsep) if not (Path(name).parent / "pyvenv.cfg").exists()]
    return kept | {"HOME": str(home), "PATH": os.pathsep.join(directories)}


def test_the_first_screen_holds_the_demo_and_the_tests(commands: list[Block]) -> None:
    demo, tests = commands[:2]

    assert demo.text.split() == ["scripts/demo"]
    assert tests.text.split() == ["scripts/check"]
    assert tests.line <= FIRST_SCREEN_LINES


def test_continuous_integration_runs_the_readmes_test_command_and_nothing_else(commands: list[Block]) -> None:
    statements = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]

    assert statements == [f'cd "$(dirname "$0")/.." && exec {commands[1].text.strip()}']


def test_the_test_command_starts_and_names_its_parts(
    commands: list[Block], checkout: Path, person: dict[str, str]
) -> None:
    listing = subprocess.run(
        ["bash", "-c", commands[1].text.strip() + " --list"],
        cwd=checkout,
        env=person,
        capture_output=True,
        text=True,
        timeout=STOP_SECONDS,
        check=True,
    )

    assert {"lint", "types", "layers", "docs", "tests"} <= set(listing.stdout.split())


@pytest.mark.installs
@pytest.mark.timeout(DEMO_SECONDS + 2 * STOP_SECONDS)
def test_the_demo_ends_as_the_readme_shows_with_a_running_peer(
    blocks: list[Block], commands: list[Block], checkout: Path, person: dict[str, str]
) -> None:
    shown = next(block.text for block in blocks if block.language == "text").splitlines()

    with _running(commands[0].text, checkout, person) as demo:
        printed = list(_lines_until(demo, _pattern(shown[-1])))
        for line in shown:
            assert any(_pattern(line).search(got) for got in printed), f"not printed: {line}\n" + "\n".join(printed)
        _assert_serves(re.search(r"http://127\.0\.0\.1:\d+", printed[-1]))
        os.killpg(demo.pid, signal.SIGINT)  # what Ctrl-C sends

        assert demo.wait(STOP_SECONDS) == 0


def _pattern(line: str) -> re.Pattern[str]:
    """A line as the README shows it, with any other number, port or version in place of its own."""
    return re.compile(re.sub(r"\d+", r"\\d+", re.escape(line)))


@contextmanager
def _running(command: str, directory: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a block of the README as a shell would; end all that it started, also when it takes too long."""
    shell = subprocess.Popen(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    end = partial(_end_group, shell.pid)
    alarm = Timer(DEMO_SECONDS, end)  # a read that waits for a silent program must not wait for ever
    alarm.start()
    try:
        with shell:
            try:
                yield shell
            finally:
                end()
    finally:
        alarm.cancel()


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _lines_until(demo: subprocess.Popen[str], last: re.Pattern[str]) -> Iterator[str]:
    assert demo.stdout is not None
    for line in demo.stdout:
        yield line.rstrip("\n")
        if last.search(line):
            return


def _assert_serves(url: re.Match[str] | None) -> None:
    assert url is not None, "the README's last line shows where the peer is"
    with suppress(urllib.error.HTTPError):  # an answer, whatever it is, comes from a peer that serves
        urllib.request.urlopen(url[0], timeout=STOP_SECONDS).close()  # noqa: S310  # the pattern admits http alone
