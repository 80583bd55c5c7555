"""``roost up``: a peer with its server, from the lock to the clean stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from roost.adapters.carriers.websocket import WebSocketCarrier
from roost.adapters.neighbours import Neighbours
from roost.adapters.store.lock import acquire
from roost.core.errors import Malformed, Usage
from roost.core.ticket import parse_address
from roost.node.commands import registry
from roost.node.local import open_peer
from roost.node.peer import Peer
from roost.node.transcript import Json
from roost.web.api import BoundCommand
from roost.web.guard import PeerGate
from roost.web.server import TOKEN_BYTES, PeerServer, routes


async def up(
    home: Path,
    *,
    listens: Sequence[str],
    advertise: Sequence[str] = (),
    name: str | None = None,
    behind_proxy: bool = False,
    insecure: bool = False,
    on_ready: Callable[[str, str], None],
) -> None:
    """Run the peer of a data directory until the task is cancelled; on_ready(peer, url) is called once it serves.

    Raises HomeBusy after 5 s, Usage, Conflict, Denied.
    """
    bound = [_host_and_port(one) for one in listens]
    for url in advertise:
        _check_url(url)
    with acquire(home, "roost up"):
        peer = open_peer(home)
        server: PeerServer | None = None
        neighbours = Neighbours.of_this_user()
        try:
            if name is not None:
                await peer.rename(name)
            gate = PeerGate(peer.key, peer.environment, behind_proxy=behind_proxy)
            server = _server(peer, home, gate)
            urls = await server.start(bound, behind_proxy=behind_proxy, insecure=insecure)
            gate.advertise([*advertise, *urls])
            peer.nearby = neighbours.find
            neighbours.announce(peer.key.public, urls)
            peer.start(WebSocketCarrier(peer.key, peer.environment), urls[0], advertise or urls)
            on_ready(peer.key.public.hex(), urls[0])
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        finally:
            neighbours.withdraw(peer.key.public)
            await peer.stop()
            if server is not None:
                await server.stop()
            await peer.close()


def _server(peer: Peer, home: Path, gate: PeerGate) -> PeerServer:
    commands: dict[str, BoundCommand] = {name: partial(command, peer) for name, command in registry().items()}
    server = PeerServer(
        home=home,
        peer=peer.key.public.hex(),
        token=peer.environment.random(TOKEN_BYTES).hex(),
        gate=gate,
        acceptor=peer,
        commands=commands,
        ready=lambda: peer.url is not None,
    )
    commands["routes"] = partial(_routes, server.app)
    return server


async def _routes(app: web.Application, _arguments: Mapping[str, Json]) -> AsyncIterator[Mapping[str, Json]]:
    for row in routes(app):
        yield row


def _host_and_port(listen: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 host stands in brackets."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise Usage(f"--listen {listen} is not HOST:PORT, such as 127.0.0.1:7777")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_url(url: str) -> None:
    try:
        parse_address(url)
    except Malformed as error:
        raise Usage(f"--advertise {url}: {error.detail}") from error
