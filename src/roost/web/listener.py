"""Sockets that listen, and what one connection may cost before a request has come."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from roost.core.errors import Conflict, Denied, Usage

CONNECTIONS_MAX: Final = 512  # of one listener; each may hold a frame of 1 MiB
CONNECTIONS_OF_ONE_MAX: Final = 128  # of one address, unless all come through one proxy
HEADER_SECONDS_MAX: Final = 15.0  # until the header of the first or the next request is complete
HEADER_BYTES_MAX: Final = 8190  # one line of it
HEADERS_MAX: Final = 64


class Budget:
    """How many connections a listener holds."""

    def __init__(self, in_all: int | None = None, of_one: int | None = None) -> None:
        self._in_all = CONNECTIONS_MAX if in_all is None else in_all
        self._of_one = CONNECTIONS_OF_ONE_MAX if of_one is None else of_one
        self._open: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        if self._open.total() >= self._in_all or self._open[address] >= self._of_one:
            return False
        self._open[address] += 1
        return True

    def give_back(self, address: str) -> None:
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class Connection(web.RequestHandler):
    """aiohttp's half of a connection, within a budget; it tells who asks when the other end is gone."""

    def __init__(self, server: web.Server, budget: Budget, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=HEADER_SECONDS_MAX,  # aiohttp counts it from the connection's beginning, too
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
            access_log=None,  # type: ignore[arg-type]  # None is how aiohttp is told to keep none
            auto_decompress=False,  # what is signed is what was sent; and a small body must not unpack to a large one
            lingering_time=1.0,
        )
        self._budget = budget
        self._address: str | None = None  # None: it took nothing from the budget
        self.when_lost: dict[Callable[[], object], None] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        name = transport.get_extra_info("peername")
        address = str(name[0]) if name else ""
        if not self._budget.take(address):
            assert isinstance(transport, asyncio.Transport)
            transport.abort()
            return
        self._address = address
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._address is None:
            return
        self._budget.give_back(self._address)
        super().connection_lost(exc)
        for tell in list(self.when_lost):
            tell()


@contextmanager
def on_lost(request: web.Request, tell: Callable[[], object]) -> Iterator[None]:
    """Call tell as soon as the caller is gone, which aiohttp notices only when something is written."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    if request.transport is None:
        tell()
    connection.when_lost[tell] = None
    try:
        yield
    finally:
        del connection.when_lost[tell]


def check_exposure(listens: Sequence[tuple[str, int]], *, behind_proxy: bool, insecure: bool) -> None:
    """Raise Usage for a listener beyond loopback that nothing protects."""
    for host, port in listens:
        if not (behind_proxy or insecure or _is_loopback(host)):
            raise Usage(
                f"--listen {host}:{port} can be reached from other machines, and without TLS all can be read on the "
                "way: put a proxy that speaks TLS in front and pass --behind-proxy, or accept it with --insecure"
            )


async def listen(server: web.Server, host: str, port: int, budget: Budget) -> asyncio.Server:
    """Listen at an address, port 0 being any that is free. Raises Conflict, Denied, Usage."""
    loop = asyncio.get_running_loop()
    host = "127.0.0.1" if host == "localhost" else host  # else it is two addresses, and with port 0 two ports
    try:
        return await loop.create_server(lambda: Connection(server, budget, loop), host or None, port, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Conflict(f"port {port} of {host}: stop what listens there, or choose another: --listen") from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise Denied(f"this user may not listen at port {port}; choose one above 1023: --listen") from error
        raise Usage(f"cannot listen at {host}:{port}: {error.strerror}") from error
    except OverflowError as error:
        raise Usage(f"cannot listen at {host}:{port}: ports end at 65535") from error


def url_of(host: str, port: int) -> str:
    """Where a bound address can be reached; for a wildcard, from this machine."""
    ip = ip_address(host)
    if ip.is_unspecified:
        return f"http://127.0.0.1:{port}" if ip.version == 4 else f"http://[::1]:{port}"
    return f"http://[{host}]:{port}" if ip.version == 6 else f"http://{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
