"""A peer's server on real loopback sockets, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from roost.adapters.carriers.carrier import Acceptor
from roost.adapters.environment import Environment, SystemEnvironment
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


@asynccontextmanager
async def served(
    home: Path,
    key: SigningKey,
    acceptor: Acceptor,
    commands: Mapping[str, BoundCommand] | None = None,
    *,
    environment: Environment | None = None,
    rate: RateLimit | None = None,
) -> AsyncIterator[Served]:
    gate = PeerGate(key, environment or SystemEnvironment(), rate=rate)
    server = PeerServer(
        home=home,
        peer=key.public.hex(),
        token=TOKEN,
        gate=gate,
        acceptor=acceptor,
        commands=commands or {},
        ready=lambda: True,
    )
    (url,) = await server.start([("127.0.0.1", 0)])
    try:
        yield Served(server, gate, url)
    finally:
        await server.stop()
