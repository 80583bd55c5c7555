"""Peers that really run: on disk, behind a real socket, in this process; and raw hands at the other end of a link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

from roost.adapters.carriers.carrier import Wire
from roost.adapters.carriers.websocket import WebSocketCarrier
from roost.adapters.environment import SystemEnvironment
from roost.core import wire
from roost.core.errors import Pending
from roost.core.keys import SigningKey
from roost.node.commands import registry
from roost.node.local import open_peer
from roost.node.peer import Peer
from roost.node.transcript import Json
from roost.web.guard import PeerGate
from roost.web.server import PeerServer

ANSWER_SECONDS_MAX = 10.0


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[Peer]:
    """A peer that answers on loopback."""
    peer = open_peer(home)
    gate = PeerGate(peer.key, peer.environment)
    commands = {name: partial(command, peer) for name, command in registry().items()}
    server = PeerServer(
        home=home, peer=peer.key.public.hex(), token="t" * 64, gate=gate, acceptor=peer, commands=commands,
        ready=lambda: True,
    )  # fmt: skip
    try:
        (url,) = await server.start([("127.0.0.1", 0)])
        gate.advertise([url])
        peer.start(WebSocketCarrier(peer.key, peer.environment), url)
        yield peer
    finally:
        await peer.stop()
        await server.stop()
        await peer.close()


async def run(peer: Peer, command: str, **arguments: Json) -> list[Mapping[str, Json]]:
    """The rows of a command."""
    return [row async for row in registry()[command](peer, arguments)]


async def sync(peer: Peer, ticket: str) -> Mapping[str, Json]:
    try:
        return (await run(peer, "sync", ticket=ticket, wait_seconds=20.0))[-1]
    except Pending as error:
        raise AssertionError("not synced within 20 s") from error


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(name.encode()).digest())


class Hand:
    """Speaks the wire protocol by hand, with a key of its own."""

    def __init__(self, connection: Wire) -> None:
        self.wire = connection

    @classmethod
    @asynccontextmanager
    async def dial(cls, peer: Peer, key: SigningKey) -> AsyncIterator[Hand]:
        assert peer.url is not None
        hand = cls(await WebSocketCarrier(key, SystemEnvironment()).dial(peer.url, peer.key.public))
        try:
            await hand.say(wire.Hello(1, peer.environment.now(), ()))
            yield hand
        finally:
            await hand.wire.close()

    async def say(self, message: wire.Message) -> None:
        await self.wire.send(wire.encode(message))

    async def hear(self, *kinds: type) -> wire.Message:
        """The next message of one of these kinds."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while True:
                message = wire.decode_frame(await self.wire.receive())
                if isinstance(message, kinds):
                    return message
