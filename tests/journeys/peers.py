"""Real peers for the journeys: a data directory each, the ``roost`` program as processes of their own, loopback only.

Nothing sleeps: a test waits for a line (ready, an acknowledgement, a followed entry) or for a command to end, always
with a bound.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

COMMAND_SECONDS_MAX = 60.0  # a bound for a hang, not for speed: the machine may be busy with other tests
LINE_SECONDS_MAX = 60.0
ROUNDS_MAX = 25

Row = dict[str, Any]  # what outside programs get: JSON


@dataclass(frozen=True)
class Ended:
    """What a command did."""

    code: int
    rows: list[Row]
    errors: str


class Running:
    """A ``roost`` process that is still running: its rows as they come."""

    def __init__(self, arguments: Sequence[str], stdin: int | IO[bytes] = subprocess.DEVNULL) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "roost", "--json", *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self._output = self.process.stdout.fileno()
        self._waiting = b""

    def row(self, seconds: float = LINE_SECONDS_MAX) -> Row:
        """The next row; fails when the process ends or the time is over before it comes."""
        row = self.row_or_end(seconds)
        assert row is not None, f"ended: {self.errors()}"
        return row

    def row_or_end(self, seconds: float = LINE_SECONDS_MAX) -> Row | None:
        """The next row, None at the end of the output."""
        until = time.monotonic() + seconds
        while b"\n" not in self._waiting:
            ready, _, _ = select.select([self._output], [], [], max(until - time.monotonic(), 0))
            assert ready, f"no line within {seconds} s"
            chunk = os.read(self._output, 1 << 16)
            if not chunk:
                assert not self._waiting, f"half a line: {self._waiting!r}"
                return None
            self._waiting += chunk
        line, _, self._waiting = self._waiting.partition(b"\n")
        row: Row = json.loads(line)
        return row

    def rest(self) -> Iterator[Row]:
        """The rows until the output ends."""
        while (row := self.row_or_end()) is not None:
            yield row

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = COMMAND_SECONDS_MAX) -> int:
        return self.process.wait(seconds)

    def errors(self) -> str:
        """What it said on standard error; call it when it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def close(self) -> None:
        """End it if it still runs, by its own id."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(COMMAND_SECONDS_MAX)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@dataclass
class RealPeer:
    """One peer: its data directory, and the process that runs it while it is up."""

    home: Path
    running: list[Running] = field(default_factory=list)
    url: str = ""
    _up: Running | None = None

    # --- its process ------------------------------------------------------------------------------------------------

    def start(self, *options: str, port: int = 0) -> RealPeer:
        """``roost up``, on any free port unless told otherwise; returns once it serves."""
        assert self._up is None
        up = self.open("up", "--listen", f"127.0.0.1:{port}", *options)
        ready = up.row()
        assert ready["event"] == "ready"
        self._up, self.url = up, ready["url"]
        return self

    def stop(self) -> None:
        """Stop it cleanly."""
        up = self._end(signal.SIGTERM)
        assert up.wait() == 0, up.errors()

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL).wait()

    def _end(self, number: int) -> Running:
        assert self._up is not None
        up, self._up = self._up, None
        up.signal(number)
        return up

    @property
    def port(self) -> int:
        """Where it served last."""
        return int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._up is not None
        return self._up.process.pid

    # --- commands ---------------------------------------------------------------------------------------------------

    def open(self, *arguments: str, stdin: int | IO[bytes] = subprocess.DEVNULL) -> Running:
        """A command that goes on by itself; it is ended with the test at the latest."""
        running = Running(["--home", str(self.home), *arguments], stdin)
        self.running.append(running)
        return running

    def try_(self, *arguments: str, text: str = "", seconds: float = COMMAND_SECONDS_MAX) -> Ended:
        """Run a command to its end, whatever that is."""
        ended = subprocess.run(
            [sys.executable, "-m", "roost", "--json", "--home", str(self.home), *arguments],
            input=text.encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        rows = [json.loads(line) for line in ended.stdout.split(b"\n") if line]
        errors = ended.stderr.decode()
        assert "Traceback" not in errors, errors
        return Ended(ended.returncode, rows, errors)

    def run(self, *arguments: str, text: str = "") -> list[Row]:
        """Run a command that must succeed; its rows."""
        ended = self.try_(*arguments, text=text)
        assert ended.code == 0, f"{arguments}: exit {ended.code}: {ended.errors}"
        return ended.rows

    def one(self, *arguments: str, text: str = "") -> Row:
        """Run a command that must succeed with one row."""
        (row,) = self.run(*arguments, text=text)
        return row

    # --- what it holds ----------------------------------------------------------------------------------------------

    def texts(self, session: str) -> list[str]:
        return [row["content"] for row in self.run("log", session, "--all")]

    def await_text(self, session: str, text: str) -> None:
        """Return when an entry with this text is here; it may have come before."""
        following = self.open("follow", session, "-n", "1000")
        while following.row()["content"] != text:
            pass
        following.close()

    def holds(self, session: str) -> tuple[Row, list[Row], Row]:
        """Heads, entries and state: what peers that converged have in common."""
        return (
            {name: value for name, value in self.one("heads", session).items() if name != "parked"},
            [_shared(row) for row in self.run("log", session, "--all")],
            self.one("state", session),
        )

    def close(self) -> None:
        for running in self.running:
            running.close()


def _shared(entry: Row) -> Row:
    """An entry without what each peer judges by its own clock."""
    return {name: value for name, value in entry.items() if name != "odd_clock"}


def share(sharer: RealPeer, session: str, *others: RealPeer) -> None:
    """Bring a session to other peers, each by a ticket of its own."""
    for other in others:
        ticket = sharer.one("share", session, "--uses", "1")["ticket"]
        row = other.one("sync", "-", text=ticket)
        assert row["status"] == "synced"


def settle(session: str, *peers: RealPeer) -> tuple[Row, list[Row], Row]:
    """Exchange until all hold the same, or fail; what they hold.

    A short wait, many times: ``roost sync`` waits in vain for members that are gone.
    """
    for _ in range(ROUNDS_MAX):
        held = [peer.holds(session) for peer in peers]
        if all(one == held[0] for one in held):
            return held[0]
        for peer in peers:
            peer.try_("sync", "--wait", "2")
    heads = [(str(peer.home), peer.one("heads", session), peer.one("status", session)) for peer in peers]
    raise AssertionError(f"the peers differ after {ROUNDS_MAX} rounds: {heads}")
