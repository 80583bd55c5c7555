"""Links and requests over real loopback sockets: the carriers' suite, and what only HTTP can get wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from roost.adapters.carriers import websocket
from roost.adapters.carriers.carrier import FRAME_BYTES_MAX, LinkClosed, Wire
from roost.adapters.carriers.websocket import WebSocketCarrier
from roost.adapters.environment import SystemEnvironment
from roost.core.errors import BadRequest, ForbiddenAddress, TooLarge, Unreachable
from roost.core.keys import SigningKey
from tests.adapters.carrier_suite import ALICE, BOB, JOIN, CarrierSuite, Joining, Peer, Recorder
from tests.web.relay import certificate, relay
from tests.web.served import served


class TestWebSocket(CarrierSuite):
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path

    @asynccontextmanager
    async def network(self) -> AsyncIterator[Joining]:
        async with AsyncExitStack() as stack:

            async def join(key: SigningKey) -> Peer:
                acceptor = Recorder()
                home = self.home / key.public.hex()
                home.mkdir()
                served_at = await stack.enter_async_context(served(home, key, acceptor))
                return Peer(key, served_at.url, acceptor, WebSocketCarrier(key, SystemEnvironment()))

            yield join


class Skewed(SystemEnvironment):
    """A machine whose clock is wrong."""

    def __init__(self, hours: int) -> None:
        self._microseconds = hours * 3_600_000_000

    def now(self) -> int:
        return super().now() + self._microseconds


def alice(environment: SystemEnvironment | None = None, *results: str) -> WebSocketCarrier:
    """A carrier for alice, to whom every name resolves to results."""

    async def names(_host: str) -> Sequence[str]:
        return results

    return WebSocketCarrier(ALICE, environment or SystemEnvironment(), names)


def at_once() -> Recorder:
    """An acceptor that lets each wire go at once."""
    acceptor = Recorder()
    acceptor.done.set()
    return acceptor


@asynccontextmanager
async def other_server(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """An HTTP server that is no peer."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)  # sockets are closed one turn of the loop after their transports


@pytest.mark.parametrize("hours", [-20, 20])
async def test_a_wrong_clock_on_either_side_does_not_keep_peers_apart(tmp_path: Path, hours: int) -> None:
    async with served(tmp_path, BOB, at_once(), environment=Skewed(hours)) as bob:
        assert await alice().request(bob.url, BOB.public, JOIN, b"") == (200, b"answer")
        wire = await alice().dial(bob.url, BOB.public)
        await wire.close()
        assert bob.gate.refusals == {"clock_off": 2}


async def test_a_man_in_the_middle_at_another_address_gets_neither_link_nor_answer(tmp_path: Path) -> None:
    acceptor = Recorder()
    async with served(tmp_path, BOB, acceptor) as bob, relay(bob.url) as port:
        for asking in (
            alice().dial(f"http://127.0.0.1:{port}", BOB.public),
            alice().request(f"http://127.0.0.1:{port}", BOB.public, JOIN, b"secret"),
        ):
            with pytest.raises(BadRequest, match="not one of this peer"):
                await asking
        assert acceptor.wires.empty()
        assert acceptor.requests == []


async def test_an_advertised_address_is_taken_through_a_proxy_and_its_name_looked_up_once(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, at_once()) as bob, relay(bob.url) as port:
        url = f"http://Bob.Example:{port}"
        bob.gate.advertise([url])
        assert await alice(None, "127.0.0.1").request(url, BOB.public, JOIN, b"") == (200, b"answer")
        wire = await alice(None, "127.0.0.1").dial(url + "/", BOB.public)
        await wire.close()


async def test_a_name_that_leads_to_a_forbidden_address_is_not_dialled() -> None:
    with pytest.raises(ForbiddenAddress):
        await alice(None, "169.254.169.254").dial("http://bob.example", BOB.public)
    with pytest.raises(Unreachable):
        await alice().dial("http://bob.example", BOB.public)


async def test_a_pinned_certificate_stands_for_itself_and_another_is_refused(tmp_path: Path) -> None:
    tls, fingerprint = certificate(tmp_path)
    async with served(tmp_path, BOB, Recorder()) as bob, relay(bob.url, tls) as port:
        url = f"https://127.0.0.1:{port}"
        bob.gate.advertise([url])
        assert await alice().request(url, BOB.public, JOIN, b"", fingerprint) == (200, b"answer")
        for wrong in (None, bytes(32)):
            with pytest.raises(Unreachable):
                await alice().request(url, BOB.public, JOIN, b"", wrong)
            with pytest.raises(Unreachable):
                await alice().dial(url, BOB.public, wrong)


async def test_a_server_that_is_no_peer_is_unreachable() -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="welcome")

    async def upgrade(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    for handler in (page, upgrade):
        async with other_server(handler) as url:
            with pytest.raises(Unreachable, match="no roost peer"):
                await alice().dial(url, BOB.public)


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    acceptor = Recorder()
    async with served(tmp_path, BOB, acceptor) as bob:

        async def elsewhere(request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": bob.url + request.path})

        async with other_server(elsewhere) as url:
            for asking in (alice().dial(url, BOB.public), alice().request(url, BOB.public, JOIN, b"")):
                with pytest.raises(Unreachable, match="307"):
                    await asking
        assert bob.gate.refusals == {}
        assert acceptor.requests == []


async def test_an_endless_answer_is_not_read() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 16))

    async with other_server(endless) as url:
        with pytest.raises(TooLarge):
            await alice().request(url, BOB.public, JOIN, b"")


async def test_a_server_that_does_not_answer_is_unreachable_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "DIAL_SECONDS_MAX", 0.1)

    async def silent(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    async with other_server(silent) as url:
        with pytest.raises(Unreachable, match="no answer"):
            await alice().dial(url, BOB.public)


async def test_a_peer_that_stops_reading_cannot_keep_a_wire_from_closing(tmp_path: Path) -> None:
    acceptor = Recorder()
    async with served(tmp_path, BOB, acceptor) as bob:
        wire = await alice().dial(bob.url, BOB.public)
        sending = asyncio.create_task(_fill(wire))
        await acceptor.wires.get()  # and does not receive
        await wire.close()
        acceptor.done.set()
        with pytest.raises(LinkClosed):
            await sending


async def _fill(wire: Wire) -> None:
    while True:
        await wire.send(bytes(FRAME_BYTES_MAX))
