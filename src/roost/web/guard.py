"""Who may ask: peers by a signature over each request, programs of this machine by the token in the data directory.

Sizes and rates are judged first, then signatures, and only then is anything decoded.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from aiohttp import web

from roost.adapters.carriers.refusal import pack_refusal
from roost.adapters.environment import Environment
from roost.adapters.replays import ReplayCache
from roost.adapters.signatures import (
    ReceivedRequest,
    VerifiedRequest,
    answer_clock,
    authority_of,
    clock_field,
    sign_answer,
    signature_of,
    verify_request,
)
from roost.core.errors import BadRequest, Busy, ClockOff, Denied, RoostError, TooLarge
from roost.core.keys import SigningKey

REQUESTS_PER_SECOND: Final = 20.0  # of one address: eight of them together could fill the replay cache
REQUESTS_AT_ONCE: Final = 200.0
ADDRESSES_MAX: Final = 4096  # remembered; one that is forgotten starts anew
BODY_SECONDS_MAX: Final = 10.0  # until a body has come in

_MSGPACK: Final = {"Content-Type": "application/msgpack"}


class SteadyClock:
    """The wall clock, except that it never goes back: a request once too old must stay so."""

    def __init__(self, wall_seconds: Callable[[], float], monotonic_seconds: Callable[[], float]) -> None:
        self._wall_seconds = wall_seconds
        self._monotonic_seconds = monotonic_seconds
        self._tick = monotonic_seconds()
        self._latest = wall_seconds()

    def seconds(self) -> float:
        """Since 1970. After the wall clock was set back it goes on from where it was."""
        tick = self._monotonic_seconds()
        self._latest = max(self._wall_seconds(), self._latest + tick - self._tick)
        self._tick = tick
        return self._latest


class RateLimit:
    """How much each address may ask for; a bucket that fills with time."""

    def __init__(self, per_second: float = REQUESTS_PER_SECOND, at_once: float = REQUESTS_AT_ONCE) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: (what is left, at this time)

    def take(self, address: str, now_seconds: float) -> None:
        """Raise Busy when the address asks too much."""
        address = _network_of(address)
        left, then = self._buckets.pop(address, (self._at_once, now_seconds))
        left = min(self._at_once, left + (now_seconds - then) * self._per_second)
        self._buckets[address] = (max(left - 1, 0.0), now_seconds)
        if len(self._buckets) > ADDRESSES_MAX:
            self._buckets.popitem(last=False)
        if left < 1:
            raise Busy("too many requests from one address")


class PeerGate:
    """Verifies what peers ask, and signs what they are answered."""

    def __init__(
        self,
        key: SigningKey,
        environment: Environment,
        *,
        behind_proxy: bool = False,
        rate: RateLimit | None = None,
        monotonic_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.authorities: Final[set[str]] = set()  # advertised: see advertise; what a connection came to counts as well
        self.refusals: Final[Counter[str]] = Counter()  # by code
        self._key = key
        self._behind_proxy = behind_proxy
        self._rate = rate or RateLimit()
        self._monotonic_seconds = monotonic_seconds
        self._clock = SteadyClock(lambda: environment.now() / 1e6, monotonic_seconds)
        self._started_seconds = self._clock.seconds()
        self._replays = ReplayCache()

    def advertise(self, urls: list[str]) -> None:
        """Take requests that were made for these addresses. Raises Malformed."""
        self.authorities.clear()
        self.authorities.update(map(authority_of, urls))

    def too_busy(self, request: web.Request) -> web.Response | None:
        """A refusal for an address that asks too much: before anything is read, decoded or verified, and unsigned."""
        try:
            self._rate.take(self._address_of(request), self._monotonic_seconds())
        except Busy as error:
            self.refusals[error.code] += 1
            return web.Response(status=error.http_status, body=pack_refusal(error), headers=_MSGPACK)
        return None

    def verify(self, request: web.Request, body: bytes) -> VerifiedRequest:
        """Who asks. Raises what signatures.verify_request raises."""
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1:
            raise BadRequest("there must be one Host")
        received = ReceivedRequest(
            method=request.method,
            url=f"{request.scheme}://{hosts[0]}{request.raw_path}",
            headers=request.headers.items(),
            body=body,
        )
        return verify_request(
            received,
            recipient=self._key.public,
            authorities=self.authorities | local_authorities(request),
            now_seconds=self._clock.seconds(),
            started_seconds=self._started_seconds,
            replays=self._replays,
        )

    def answer(self, verified: VerifiedRequest, status: int, body: bytes) -> web.Response:
        fields = self.sign(verified.signature, status, body)
        return web.Response(status=status, body=body, headers=_MSGPACK | fields)

    def sign(self, request_signature: str, status: int, body: bytes) -> dict[str, str]:
        """The fields of an answer to the request with this signature."""
        return sign_answer(self._key, status, body, request_signature, self._clock.seconds())

    def refuse(self, request: web.Request, error: RoostError) -> web.Response:
        """The refusal, signed when the request has something that it can be bound to; counted by its code."""
        self.refusals[error.code] += 1
        body = pack_refusal(error)
        headers = dict(_MSGPACK)
        now = self._clock.seconds()
        if isinstance(error, ClockOff):
            headers |= clock_field(now, self._started_seconds)
            now = answer_clock(now, self._started_seconds)
        with suppress(BadRequest):  # without a Signature field there is nothing to bind the answer to
            headers |= sign_answer(self._key, error.http_status, body, signature_of(request.headers.items()), now)
        return web.Response(status=error.http_status, body=body, headers=headers)

    def _address_of(self, request: web.Request) -> str:
        """Who is at the other end; behind a proxy whom it names last, since the others are the caller's own words."""
        forwarded = request.headers.getall("X-Forwarded-For", []) if self._behind_proxy else []
        return forwarded[-1].rpartition(",")[2].strip() if forwarded else request.remote or ""


def check_token(request: web.Request, token: str) -> None:
    """Raise Denied unless a program of this machine that can read the data directory asks.

    A page in a browser could reach a loopback address too: under a name of its own (Host), or from its own site
    (Origin). There are no cookies that it could ride on.
    """
    authorities = local_authorities(request) if _came_by_loopback(request) else frozenset()
    if request.headers.getall("Host", []) not in [[authority] for authority in authorities]:
        raise Denied("the local API answers only at this machine's loopback address")
    origins = request.headers.getall("Origin", [])
    if any(origin.removeprefix("http://") not in authorities for origin in origins):
        raise Denied("the local API answers no page of another site")
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(given, b"Bearer " + token.encode()):
        raise Denied("the local API needs the token of the data directory")


def local_authorities(request: web.Request) -> frozenset[str]:
    """What the address that this connection came to may be called: with a wildcard listener, whichever it was."""
    ip, port = _socket_name(request)
    return _authorities(ip, port)


async def read_body(request: web.Request, bytes_max: int) -> bytes:
    """The whole body. Raises TooLarge as soon as that is known, BadRequest when it does not come."""
    if (request.content_length or 0) > bytes_max:
        raise TooLarge(f"the body: at most {bytes_max} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > bytes_max:
                    raise TooLarge(f"the body: at most {bytes_max} bytes")
    except TimeoutError as error:
        raise BadRequest("the body does not come") from error
    except web.RequestPayloadError as error:
        raise BadRequest("the body is damaged") from error
    return bytes(body)


def _came_by_loopback(request: web.Request) -> bool:
    return _plain(_socket_name(request)[0]).is_loopback


def _socket_name(request: web.Request) -> tuple[str, int]:
    name = request.get_extra_info("sockname")
    if name is None:
        raise ConnectionResetError("the caller is gone")
    return str(name[0]), int(name[1])


@lru_cache(maxsize=64)  # a peer has few addresses, and one comes with every request
def _authorities(ip: str, port: int) -> frozenset[str]:
    address = _plain(ip)
    hosts = [f"[{address}]" if address.version == 6 else str(address)]
    if address.is_loopback:
        hosts.append("localhost")
    return frozenset(authority_of(f"http://{host}:{port}") for host in hosts)


def _plain(ip: str) -> IPv4Address | IPv6Address:
    address = ip_address(ip.partition("%")[0])
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _network_of(address: str) -> str:
    """Whose requests are counted together: whoever has one IPv6 address has 2^64 of them."""
    try:
        ip = _plain(address)
    except ValueError:
        return address[:64]
    return str(ip) if isinstance(ip, IPv4Address) else ip.packed[:8].hex()
