"""A peer opened for one command, when none runs on the data directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path

from roost.adapters.environment import SystemEnvironment
from roost.adapters.keyfile import load_or_create
from roost.adapters.store.lock import acquire
from roost.adapters.store.store import STORE_NAME, Store
from roost.core.errors import NotFound
from roost.node.commands import registry
from roost.node.peer import Peer
from roost.node.transcript import Json

NETWORKED = frozenset(["sync"])  # commands that need links; the others start nothing


async def run_local(home: Path, command: str, arguments: Mapping[str, Json]) -> AsyncIterator[dict[str, Json]]:
    """Open the data directory, run one command, close it. Raises HomeBusy after 5 s, and what the command raises."""
    found = registry().get(command)
    if found is None:
        raise NotFound(f"command {command}")
    with acquire(home, f"roost {command}"):
        peer = open_peer(home)
        try:
            if command in NETWORKED:
                from roost.adapters.carriers.websocket import WebSocketCarrier  # loads the HTTP client
                from roost.adapters.neighbours import Neighbours

                peer.nearby = Neighbours.of_this_user().find
                peer.start(WebSocketCarrier(peer.key, peer.environment), None)
            async with aclosing(found(peer, arguments)) as rows:
                async for row in rows:
                    yield row
        finally:
            await peer.close()


def open_peer(home: Path) -> Peer:
    """The peer of a data directory, not yet started. The caller holds the directory's lock."""
    environment = SystemEnvironment()
    key = load_or_create(home, environment)
    return Peer(Store.open(home / STORE_NAME), key, environment, home)
