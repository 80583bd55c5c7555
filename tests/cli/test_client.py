"""How a command finds the peer of a data directory, and what the person learns when that fails."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from roost.adapters.store.lock import HomeLock, acquire
from roost.cli.client import API_NAME, Row, call, running_peer
from roost.core.errors import HomeBusy, NotFound, NotRunning, RoostError, Usage
from roost.node import local
from roost.node.transcript import Json
from tests.adapters.carrier_suite import BOB, Recorder
from tests.web.served import served

Rows = AsyncIterator[Mapping[str, Json]]


class Commands:
    def __init__(self) -> None:
        self.ended = threading.Event()

    async def echo(self, arguments: Mapping[str, Json]) -> Rows:
        yield {"~warning": "take care"}
        yield {"~progress": {"done": 1, "total": 2}}
        yield arguments

    async def many(self, _arguments: Mapping[str, Json]) -> Rows:
        for number in range(20_000):
            yield {"number": number, "text": "ü" * 10}

    async def refused(self, _arguments: Mapping[str, Json]) -> Rows:
        yield {"row": 1}
        raise NotFound("demo")

    async def strange(self, _arguments: Mapping[str, Json]) -> Rows:
        yield {"row": 1}
        raise type("Newer", (RoostError,), {"code": "newer", "exit_code": 5, "__doc__": "Newer than this."})("why")

    async def follow(self, _arguments: Mapping[str, Json]) -> Rows:
        try:
            yield {"row": 1}
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@contextmanager
def running(home: Path, commands: Commands) -> Iterator[None]:
    """A peer on this home, served by another thread."""
    table = {name: getattr(commands, name) for name in ("echo", "many", "refused", "strange", "follow")}
    table["init"] = commands.echo
    told: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with served(home, BOB, Recorder(), table):
            told.put((asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    loop, stop = told.get(timeout=10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
def home(tmp_path: Path, commands: Commands) -> Iterator[Path]:
    with running(tmp_path, commands):
        yield tmp_path


def rows(home: Path, command: str, arguments: Mapping[str, Json] | None = None) -> list[Row]:
    return list(call(home, command, arguments or {}))


def test_rows_come_through_the_process_that_runs_the_peer(home: Path) -> None:
    warned: list[str] = []
    progress: list[Json] = []
    arguments: Row = {"text": "a\n\u2028", "lone": "\ud800", "list": [1, None]}
    answered = call(home, "echo", arguments, warn=warned.append, progress=progress.append)
    assert list(answered) == [arguments]
    assert warned == ["take care"]
    assert progress == [{"done": 1, "total": 2}]


def test_an_answer_of_any_length_comes_whole(home: Path) -> None:
    assert [row["number"] for row in rows(home, "many")] == list(range(20_000))


def test_a_failure_is_raised_as_what_it_is_after_the_rows_before_it(home: Path) -> None:
    answered = call(home, "refused", {})
    assert next(answered) == {"row": 1}
    with pytest.raises(NotFound) as told:
        next(answered)
    assert (str(told.value), told.value.exit_code) == (str(NotFound("demo")), 3)


def test_a_failure_that_this_program_does_not_know_keeps_its_words_and_its_exit_code(home: Path) -> None:
    with pytest.raises(RoostError, match="Newer than this") as told:
        rows(home, "strange")
    assert (told.value.exit_code, told.value.code) == (5, "newer")


def test_what_is_refused_before_the_first_row_is_raised_too(home: Path) -> None:
    with pytest.raises(NotFound):
        rows(home, "nothing")
    with pytest.raises(Usage):
        next(call(home, "echo", []))  # type: ignore[arg-type]


def test_who_stops_following_ends_the_command(home: Path, commands: Commands) -> None:
    following = call(home, "follow", {})
    assert next(following) == {"row": 1}
    assert not commands.ended.is_set()
    following.close()
    assert commands.ended.wait(10)


def test_a_peer_that_is_stopped_meanwhile_is_told_as_not_running(tmp_path: Path, commands: Commands) -> None:
    with running(tmp_path, commands):
        following = call(tmp_path, "follow", {})
        assert next(following) == {"row": 1}
    with pytest.raises(NotRunning, match="stopped"):
        next(following)


@pytest.mark.parametrize("answer", [b"", b'HTTP/1.1 200 OK\r\nRoost-Peer: aa\r\n\r\n{"row":1}\n{"ro'])
def test_a_peer_that_dies_meanwhile_is_told_as_not_running(tmp_path: Path, answer: bytes) -> None:
    with listening(tmp_path, answer), pytest.raises(NotRunning) as told:
        rows(tmp_path, "echo")
    assert told.value.exit_code == 6


# --- no peer runs ---------------------------------------------------------------------------------------------------


def test_without_a_running_peer_the_command_runs_here(tmp_path: Path) -> None:
    (made,) = rows(tmp_path / "home", "init", {"name": "alice"})
    assert made["name"] == "alice"
    assert rows(tmp_path / "home", "init") == [made]
    with pytest.raises(NotFound):
        rows(tmp_path / "home", "log", {"session": "nothing"})


def test_what_a_dead_peer_left_behind_counts_as_none(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    free = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{free.getsockname()[1]}"
    free.close()
    written = {"url": url, "token": "t", "pid": os.getpid(), "peer": "aa"}
    for text in (
        json.dumps(written | {"pid": ended.pid}),
        json.dumps(written),  # refused
        "",
        "[]",
        "{}",
        json.dumps(written | {"pid": "x"}),
        json.dumps(written | {"pid": 1 << 80}),
    ):
        home = tmp_path / "home"
        rows(home, "init")
        (home / API_NAME).write_text(text)
        assert [row["home"] for row in rows(home, "init")] == [str(home)]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"220 mail\r\n"])
def test_another_program_at_the_old_port_counts_as_none(tmp_path: Path, answer: bytes) -> None:
    rows(tmp_path, "init")
    with listening(tmp_path, answer):
        assert [row["home"] for row in rows(tmp_path, "init")] == [str(tmp_path)]


def test_a_busy_home_is_told_unless_its_peer_serves_by_then(
    tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acquire(tmp_path, "roost up"), ExitStack() as stack:
        monkeypatch.setattr(local, "acquire", functools.partial(acquire, wait_seconds=0.0))
        with pytest.raises(HomeBusy, match="roost up"):
            rows(tmp_path, "init")

        def acquire_after_the_peer_began_to_serve(home: Path, what: str) -> HomeLock:
            stack.enter_context(running(home, commands))
            return acquire(home, what, wait_seconds=0.0)

        monkeypatch.setattr(local, "acquire", acquire_after_the_peer_began_to_serve)
        assert rows(tmp_path, "init", {"x": 1}) == [{"x": 1}]


def test_who_asks_for_a_running_peer_loads_neither_server_nor_store() -> None:
    program = "import sys, roost.cli.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "asyncio", "automerge", "msgspec", "nacl", "sqlite3"} & set(loaded)


def test_a_home_without_a_peer_has_none(tmp_path: Path) -> None:
    assert running_peer(tmp_path / "missing") is None
    (tmp_path / "file").write_text("")
    assert running_peer(tmp_path / "file") is None


@contextmanager
def listening(home: Path, answer: bytes) -> Iterator[None]:
    """Something at the port that api.json names, which reads a request, answers this and hangs up."""
    server = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{server.getsockname()[1]}"
    (home / API_NAME).write_text(json.dumps({"url": url, "token": "t", "pid": os.getpid(), "peer": "aa"}))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(10)
        server.close()
