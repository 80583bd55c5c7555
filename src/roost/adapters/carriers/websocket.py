"""Wires and requests over HTTP: a link is a WebSocket whose upgrade both ends sign, a request a signed POST.

The name in an address is resolved once and judged (adapters.addresses); the connection goes to a result of that. The
server's half is web/server.py; both share SocketWire.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

import aiohttp
from aiohttp import ClientError, ClientHandlerType, ClientRequest, ClientResponse, WSMsgType, web
from aiohttp.abc import AbstractResolver, ResolveResult

from roost.adapters import addresses
from roost.adapters.addresses import Resolver, VettedAddress, system_resolver
from roost.adapters.carriers.carrier import (
    DIAL_SECONDS_MAX,
    FRAME_BYTES_MAX,
    HEARTBEAT_SECONDS,
    LINK_PATH,
    REQUEST_BYTES_MAX,
    LinkClosed,
    check_request,
    closed_because,
)
from roost.adapters.carriers.refusal import unpack_refusal
from roost.adapters.environment import Environment
from roost.adapters.signatures import VerifiedAnswer, sign_request, verify_answer
from roost.core.errors import BadRequest, ClockOff, TooLarge, Unreachable
from roost.core.ids import PeerKey
from roost.core.keys import SigningKey
from roost.core.ticket import NONCE_BYTES

CLOSE_SECONDS_MAX: Final = 2.0  # how long the other end may take to close as well
MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX + 1  # aiohttp refuses what is as long as its limit
_CLOSE_REASON_BYTES_MAX: Final = 123  # RFC 6455 5.5

_Result = TypeVar("_Result")


class SocketWire:
    """A WebSocket, of either end, as a Wire."""

    def __init__(
        self,
        upgraded: aiohttp.ClientWebSocketResponse | web.WebSocketResponse,
        *,
        peer: PeerKey,
        dialled: bool,
        address: str,
        let_go: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """let_go frees what the connection was made with."""
        self.peer: Final = peer
        self.dialled: Final = dialled
        self.address: Final = address
        self._socket = upgraded
        self._let_go = let_go
        self._closed = False

    async def send(self, frame: bytes) -> None:
        try:
            await self._socket.send_bytes(frame)
        except (ConnectionError, ClientError) as error:
            raise self._ended() from error

    async def receive(self) -> bytes:
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            data: bytes = message.data
            return data
        await self.close("malformed" if message.type is WSMsgType.TEXT else "")
        if message.type is WSMsgType.CLOSE:
            raise closed_because(str(message.extra or message.data))
        if message.type is WSMsgType.ERROR:  # a frame that is too large or breaks the protocol; the end was told so
            raise LinkClosed(f"the other side sent what is refused: {message.data}")
        raise self._ended()

    async def close(self, code: str = "") -> None:
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._socket.close(message=code.encode()[:_CLOSE_REASON_BYTES_MAX])
        except (TimeoutError, ConnectionError, ClientError):
            self._cut()
        finally:
            if self._let_go is not None:
                await self._let_go()

    def _cut(self) -> None:
        """End the connection though its buffer is full of what the other end does not read."""
        connection = self._socket.get_extra_info("socket")
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _ended(self) -> LinkClosed:
        error = self._socket.exception()
        return LinkClosed(str(error) if error else "")


class WebSocketCarrier:
    """Dials other peers in the name of one key."""

    def __init__(self, key: SigningKey, environment: Environment, resolver: Resolver = system_resolver) -> None:
        self._key = key
        self._environment = environment
        self._resolver = resolver

    async def dial(self, address: str, expected: PeerKey, fingerprint: bytes | None = None) -> SocketWire:
        async with self._route(address, fingerprint) as route:
            return await self._with_right_clock(expected, b"", route.upgrade)

    async def request(
        self, address: str, expected: PeerKey, path: str, body: bytes, fingerprint: bytes | None = None
    ) -> tuple[int, bytes]:
        check_request(path, body)
        async with self._route(address, fingerprint) as route:
            return await self._with_right_clock(expected, body, partial(route.post, path))

    @asynccontextmanager
    async def _route(self, address: str, fingerprint: bytes | None) -> AsyncIterator[_Route]:
        """The way to an address, for as long as a dial may take; what fails there is told as Unreachable."""
        try:
            async with asyncio.timeout(DIAL_SECONDS_MAX):
                yield _Route(address, await addresses.resolve(address, self._resolver), fingerprint)
        except TimeoutError as error:
            raise Unreachable(f"{address}: no answer within {DIAL_SECONDS_MAX:.0f} s") from error
        except (ClientError, OSError) as error:
            raise Unreachable(f"{address}: {error}") from error

    async def _with_right_clock(
        self, expected: PeerKey, body: bytes, attempt: Callable[[_Exchange], Awaitable[_Result]]
    ) -> _Result:
        """Try with this peer's clock, and once more with the other's if that is what was refused."""
        exchange = _Exchange(self._key, expected, body, self._environment.now() / 1e6, self._nonce())
        try:
            return await attempt(exchange)
        except ClockOff:
            if exchange.answer is None:
                raise
            return await attempt(_Exchange(self._key, expected, body, exchange.answer.created, self._nonce()))

    def _nonce(self) -> bytes:
        return self._environment.random(NONCE_BYTES)


class _Exchange:
    """One signed request and its verified answer: a middleware of the client, which alone sees an upgrade's answer."""

    def __init__(self, key: SigningKey, expected: PeerKey, body: bytes, now_seconds: float, nonce: bytes) -> None:
        self.expected: Final = expected
        self.body: Final = body
        self.answer: VerifiedAnswer | None = None
        self.answer_body = b""
        self._key = key
        self._now_seconds = now_seconds
        self._nonce = nonce

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        # The Host field as it will be sent: the client may write an address in another way than it was given.
        url = f"{request.url.scheme}://{request.headers['Host']}{request.url.raw_path_qs}"
        fields = sign_request(self._key, request.method, url, self.body, self.expected, self._now_seconds, self._nonce)
        request.headers.update(fields)
        response = await handler(request)
        try:
            await self._verify(response, fields["Signature"])
        except BaseException:
            response.close()
            raise
        return response

    async def _verify(self, response: ClientResponse, signature: str) -> None:
        if response.status != HTTPStatus.SWITCHING_PROTOCOLS:
            self.answer_body = await _read(response)
        try:
            self.answer = verify_answer(
                response.status,
                response.headers.items(),
                self.answer_body,
                request_signature=signature,
                server=self.expected,
            )
        except BadRequest as error:
            raise Unreachable(f"no roost peer answers there, or one that is too busy: {response.status}") from error
        if refusal := unpack_refusal(response.status, self.answer_body):
            raise refusal


class _Route:
    """An address that was looked up and judged."""

    def __init__(self, address: str, vetted: Sequence[VettedAddress], fingerprint: bytes | None) -> None:
        self._address = address
        self._base = ("http" + address.removeprefix("ws") if address.startswith("ws") else address).rstrip("/")
        self._vetted = vetted
        # Without a pinned certificate TLS is verified as a browser does it; the peer's key is proven in any case.
        self._tls = True if fingerprint is None else aiohttp.Fingerprint(fingerprint)

    async def upgrade(self, exchange: _Exchange) -> SocketWire:
        session = self._session(exchange)
        try:
            upgraded = await session.ws_connect(
                self._base + LINK_PATH,
                compress=0,
                max_msg_size=MESSAGE_BYTES_MAX,
                heartbeat=HEARTBEAT_SECONDS,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS_MAX),
                ssl=self._tls,
            )
        except BaseException:
            await session.close()
            raise
        return SocketWire(upgraded, peer=exchange.expected, dialled=True, address=self._address, let_go=session.close)

    async def post(self, path: str, exchange: _Exchange) -> tuple[int, bytes]:
        url = self._base + path
        async with (
            self._session(exchange) as session,
            session.post(url, data=exchange.body, allow_redirects=False, ssl=self._tls) as response,
        ):
            return response.status, exchange.answer_body

    def _session(self, exchange: _Exchange) -> aiohttp.ClientSession:
        """One connection of its own: what is proven about it holds for nothing else."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=_Vetted(self._vetted), use_dns_cache=False, force_close=True),
            middlewares=(exchange,),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # a small answer must not unpack to a large one
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=None),  # ours is around it
        )


class _Vetted(AbstractResolver):
    """Knows only what was judged; an address that is written as digits is never asked for, and was judged as it is."""

    def __init__(self, vetted: Sequence[VettedAddress]) -> None:
        self._vetted = vetted

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address.ip,
                port=port,
                family=socket.AF_INET6 if ":" in address.ip else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._vetted
        ]

    async def close(self) -> None:
        """Nothing is held."""


async def _read(response: ClientResponse) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > REQUEST_BYTES_MAX:
            raise TooLarge("the other side's answer")
    return bytes(body)
