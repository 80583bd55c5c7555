"""Commands over the local API: rows as they come, how an answer ends, and what a caller that leaves ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from roost.core.errors import NotFound
from roost.node.transcript import Json
from roost.web.api import ARGUMENTS_BYTES_MAX
from tests.adapters.carrier_suite import BOB, Recorder
from tests.web.served import TOKEN, Served, ask, served, stream

Rows = AsyncIterator[Mapping[str, Json]]
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


class Commands:
    """What the tests ask for, and what became of it."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def echo(self, arguments: Mapping[str, Json]) -> Rows:
        yield {"~warning": "take care"}
        yield arguments

    async def many(self, _arguments: Mapping[str, Json]) -> Rows:
        for number in range(20_000):
            yield {"number": number}

    async def refused(self, _arguments: Mapping[str, Json]) -> Rows:
        yield {"row": 1}
        raise NotFound("demo")

    async def broken(self, _arguments: Mapping[str, Json]) -> Rows:
        yield {"row": 1}
        raise ExceptionGroup("tasks", [ZeroDivisionError("by zero")])

    async def follow(self, _arguments: Mapping[str, Json]) -> Rows:
        try:
            yield {"row": 1}
            self.began.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    async def flood(self, _arguments: Mapping[str, Json]) -> Rows:
        """Rows for ever, to a caller who takes none of them."""
        try:
            while True:
                self.began.set()
                yield {"row": "x" * 1000}
        finally:
            self.ended.set()


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
async def bob(tmp_path: Path, commands: Commands) -> AsyncIterator[Served]:
    table = {name: getattr(commands, name) for name in ("echo", "many", "refused", "broken", "follow", "flood")}
    async with served(tmp_path, BOB, Recorder(), table) as running:
        yield running


async def lines(bob: Served, command: str, arguments: object = None) -> list[dict[str, Json]]:
    """The lines of a whole answer, in HTTP/1.0: without chunks."""
    async with stream(bob.url) as (reader, writer):
        writer.write(request(bob, command, json.dumps({} if arguments is None else arguments).encode(), "1.0"))
        received = await reader.read()
    head, _, rows = received.partition(b"\r\n\r\n")
    assert b"200 OK" in head
    assert b"Content-Type: application/jsonl" in head
    assert rows.endswith(b"\n")
    return [json.loads(line) for line in rows.splitlines()]


def request(bob: Served, command: str, body: bytes = b"", version: str = "1.1") -> bytes:
    host = bob.url.removeprefix("http://")
    head = f"POST /api/v1/{command} HTTP/{version}\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode() + body


async def test_rows_come_one_a_line_and_the_last_says_that_all_is_there(bob: Served) -> None:
    arguments = {"text": 'a "line"\n\u2028', "lone": "\ud800", "number": 1.5, "none": None}
    assert await lines(bob, "echo", arguments) == [{"~warning": "take care"}, arguments, {"~end": True}]


async def test_many_rows_that_come_without_a_pause_are_all_there_in_order(bob: Served) -> None:
    rows = await lines(bob, "many")
    assert [row.get("number") for row in rows] == [*range(20_000), None]


async def test_a_failure_after_some_rows_is_the_last_line(bob: Served) -> None:
    failure = {"code": "not_found", "message": str(NotFound("demo")), "detail": "demo", "exit": 3}
    assert await lines(bob, "refused") == [{"row": 1}, {"~error": failure}]


async def test_a_defect_is_told_and_logged_and_the_peer_lives_on(bob: Served, caplog: pytest.LogCaptureFixture) -> None:
    failure = {"code": "error", "message": "ZeroDivisionError: by zero", "detail": "", "exit": 1}
    assert await lines(bob, "broken") == [{"row": 1}, {"~error": failure}]
    assert "broken" in caplog.text
    assert (await lines(bob, "echo"))[-1] == {"~end": True}


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b"\xff", b"[" * 100_000], ids=range(5))
async def test_arguments_are_a_json_object(bob: Served, body: bytes) -> None:
    answer = await ask(bob.url, "POST", "/api/v1/echo", ALLOWED, body)
    assert (answer.status, answer.told) == (400, "usage")


async def test_arguments_are_bounded(bob: Served) -> None:
    at_most = b'{"text": "' + b"x" * (ARGUMENTS_BYTES_MAX - 12) + b'"}'
    assert (await ask(bob.url, "POST", "/api/v1/echo", ALLOWED, at_most)).status == 200
    answer = await ask(bob.url, "POST", "/api/v1/echo", ALLOWED, at_most + b" ")
    assert (answer.status, answer.told) == (413, "too_large")


async def test_each_row_is_sent_when_it_comes(bob: Served, commands: Commands) -> None:
    async with stream(bob.url) as (reader, writer):
        writer.write(request(bob, "follow"))
        assert await reader.readuntil(b'{"row":1}\n')
        assert not commands.ended.is_set()


@pytest.mark.parametrize("command", ["follow", "flood"])
async def test_a_caller_that_leaves_ends_its_command_at_once(bob: Served, commands: Commands, command: str) -> None:
    async with stream(bob.url) as (_, writer):
        writer.write(request(bob, command))
        await commands.began.wait()
    await asyncio.wait_for(commands.ended.wait(), 5)


async def test_a_stop_ends_what_runs_and_says_so(bob: Served, commands: Commands) -> None:
    async with stream(bob.url) as (reader, writer):
        writer.write(request(bob, "follow"))
        await commands.began.wait()
        stopping = asyncio.create_task(bob.server.stop())
        received = await reader.read()
        await stopping
    assert commands.ended.is_set()
    assert b'"~error":{"code":"not_running"' in received
