"""A peer's server on real loopback sockets, for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from roost.adapters.carriers.carrier import Acceptor
from roost.adapters.environment import Environment, SystemEnvironment
from roost.core.canonical import unpack_map
from roost.core.keys import SigningKey
from roost.web.api import BoundCommand
from roost.web.guard import PeerGate, RateLimit
from roost.web.server import PeerServer

TOKEN = "t" * 64


@dataclass(frozen=True)
class Served:
    server: PeerServer
    gate: PeerGate
    url: str


def unstarted(
    home: Path,
    key: SigningKey,
    acceptor: Acceptor,
    commands: Mapping[str, BoundCommand] | None = None,
    gate: PeerGate | None = None,
) -> PeerServer:
    return PeerServer(
        home=home,
        peer=key.public.hex(),
        token=TOKEN,
        gate=gate or PeerGate(key, SystemEnvironment()),
        acceptor=acceptor,
        commands=commands or {},
        ready=lambda: True,
    )


@asynccontextmanager
async def served(
    home: Path,
    key: SigningKey,
    acceptor: Acceptor,
    commands: Mapping[str, BoundCommand] | None = None,
    *,
    environment: Environment | None = None,
    rate: RateLimit | None = None,
    behind_proxy: bool = False,
) -> AsyncIterator[Served]:
    gate = PeerGate(key, environment or SystemEnvironment(), rate=rate, behind_proxy=behind_proxy)
    server = unstarted(home, key, acceptor, commands, gate)
    (url,) = await server.start([("127.0.0.1", 0)])
    try:
        yield Served(server, gate, url)
    finally:
        await server.stop()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def refusal(self) -> str:
        """The code of a peer's refusal."""
        return str(unpack_map(self.body)["code"])

    @property
    def told(self) -> str:
        """The code of the local API's refusal."""
        return str(json.loads(self.body)["code"])


async def ask(
    url: str, method: str, path: str, headers: Mapping[str, str] | Sequence[tuple[str, str]] = (), body: bytes = b""
) -> Answer:
    """One request as it is written here, nothing added but its length; Host unless there is one."""
    at = urlsplit(url)
    lines = list(headers.items() if isinstance(headers, Mapping) else headers)
    if not any(name == "Host" for name, _ in lines):
        lines.insert(0, ("Host", at.netloc))
    lines += [("Content-Length", str(len(body)))] if body else []
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines)
    return await raw(url, head.encode() + b"Connection: close\r\n\r\n" + body)


async def raw(url: str, sent: bytes) -> Answer:
    async with stream(url) as (reader, writer):
        writer.write(sent)
        received = await reader.read()
    head, _, rest = received.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    found = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    return Answer(int(first.split()[1]), found, rest)


@asynccontextmanager
async def stream(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that is cut at the end."""
    at = urlsplit(url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
