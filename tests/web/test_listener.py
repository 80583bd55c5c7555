"""What one connection may cost before a request has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roost.web import listener
from roost.web.listener import Budget, url_of
from tests.adapters.carrier_suite import BOB, Recorder
from tests.web.served import Served, ask, raw, served, stream


@pytest.fixture
async def bob(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, BOB, Recorder()) as running:
        yield running


def test_a_budget_counts_each_address_and_all_together() -> None:
    budget = Budget(in_all=3, of_one=2)
    assert [budget.take(address) for address in "aaabb"] == [True, True, False, True, False]
    budget.give_back("a")
    assert [budget.take(address) for address in "bb"] == [True, False]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:7"),
        ("::1", "http://[::1]:7"),
        ("192.0.2.1", "http://192.0.2.1:7"),
        ("0.0.0.0", "http://127.0.0.1:7"),
        ("::", "http://[::1]:7"),
    ],
)
def test_a_bound_address_is_shown_as_it_can_be_reached(host: str, url: str) -> None:
    assert url_of(host, 7) == url


async def test_more_connections_than_the_budget_are_cut_and_freed_places_are_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_OF_ONE_MAX", 2)
    async with served(tmp_path, BOB, Recorder()) as bob:
        async with stream(bob.url) as (first, _), stream(bob.url), stream(bob.url) as (third, _):
            assert await to_the_end(third) == b""
            assert not first.at_eof()
        assert (await ask(bob.url, "GET", "/healthz")).status == 200


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"x" * 1000], ids=range(3)
)
async def test_a_header_that_does_not_come_to_its_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(listener, "HEADER_SECONDS_MAX", 0.2)
    async with served(tmp_path, BOB, Recorder()) as bob:
        async with stream(bob.url) as (reader, writer):
            dripping = asyncio.create_task(_drip(writer, sent))
            assert await to_the_end(reader) == b""
            dripping.cancel()
        assert (await ask(bob.url, "GET", "/healthz")).status == 200


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other end closes, in whatever way."""
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


async def _drip(writer: asyncio.StreamWriter, sent: bytes) -> None:
    """A byte now and then, so that it is never idle for long."""
    for byte in sent:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


async def test_a_header_that_is_too_long_is_refused(bob: Served) -> None:
    for headers in (b"X: " + b"x" * 10_000 + b"\r\n", b"".join(b"X-%d: x\r\n" % number for number in range(100))):
        answer = await raw(bob.url, b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
        assert answer.status == 400
    assert (await ask(bob.url, "GET", "/healthz")).status == 200


async def test_a_body_that_does_not_come_is_not_waited_for(bob: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.web.guard.BODY_SECONDS_MAX", 0.1)
    head = b"POST /roost/join HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabc"
    answer = await raw(bob.url, head)
    assert (answer.status, answer.refusal) == (401, "bad_request")


async def test_a_packed_body_is_not_unpacked(bob: Served) -> None:
    packed = {"Content-Encoding": "gzip"}
    assert (await ask(bob.url, "POST", "/roost/join", packed, b"no gzip at all")).refusal == "bad_request"
