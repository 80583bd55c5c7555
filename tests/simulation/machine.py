"""A machine that runs one peer: its key, disk, clock and address outlive every process that runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any, Final

from roost.adapters.carriers.carrier import Acceptor, Carrier, Wire
from roost.adapters.carriers.memory import MemoryCarrier, Network
from roost.adapters.store.store import Store
from roost.core.ids import PeerKey
from roost.core.keys import SigningKey
from roost.node.peer import Peer
from tests.simulation.disk import Disk
from tests.simulation.loop import Body

EPOCH: Final = 1_800_000_000_000_000  # microseconds: what a right clock shows when a simulation begins
NETWORK_TASKS: Final = frozenset(["_serve", "_answer"])  # of the peer at the other end, that wait for it

Watch = Callable[[str, str, bytes], None]  # (from, to, frame), for every frame that a peer sends


class Clock:
    """The wall clock and the chance of one machine (``Environment``)."""

    def __init__(self, seed: str) -> None:
        self.skew = 0  # microseconds
        self._chance = Random(seed)

    def now(self) -> int:
        return EPOCH + self.skew + round(asyncio.get_running_loop().time() * 1e6)

    def random(self, count: int) -> bytes:
        return self._chance.randbytes(count)


@dataclass(frozen=True)
class Process:
    """A peer that runs."""

    body: Body
    peer: Peer


class Machine:
    """``process`` is None while none runs."""

    def __init__(self, name: str, seed: str, network: Network, watch: Watch) -> None:
        self.name = name
        self.key = SigningKey.from_seed(sha256(f"{seed}/{name}/key".encode()).digest())
        self.clock = Clock(f"{seed}/{name}/chance")
        self.disk = Disk()
        self.bodies: list[Body] = []
        self.process: Process | None = None
        self.url = ""
        self._stopping = False
        self._network = network
        self._watch = watch

    @property
    def running(self) -> Process:
        assert self.process is not None, f"{self.name} does not run"
        return self.process

    @property
    def serves(self) -> bool:
        """Whether it can be asked for something: it runs and is not on its way down."""
        return self.process is not None and not self._stopping

    @property
    def peer(self) -> Peer:
        return self.running.peer

    def boot(self, url: str) -> None:
        """Start a process on what the disk holds."""
        assert self.process is None
        self._stopping = False
        body = Body(self.name)
        self.bodies.append(body)
        self.url = url
        self.process = Process(body, body.run(lambda: Peer(Store.open(self.disk), self.key, self.clock)))
        acceptor = _Acceptor(self.process, self.name, self._watch)
        carrier = self._network.attach(url, self.key.public, acceptor, self.clock)
        body.run(lambda: self.peer.start(_Carrier(carrier, self.name, self._watch), url))

    def die(self) -> None:
        """Lose the process between two of its effects; nothing of it runs any more."""
        self.running.body.die()
        self.process = None
        self._network.detach(self.url)
        self.disk.recover()

    async def stop(self, asked: Container[object]) -> list[str]:
        """End the process in an orderly way; return what it leaves running. It may be killed meanwhile.

        asked: tasks that it was given; they are cancelled, as a server does with what it is asked.
        """
        process = self.running
        self._stopping = True
        for task in process.body.running():
            if task in asked:
                task.cancel()
        await _until(process.body, process.peer.stop())
        if process.body.dead:
            return []
        self._network.detach(self.url)
        await _until(process.body, process.peer.close())
        if process.body.dead:
            return []
        self.process = None
        process.body.fuse = None
        self.disk.recover()
        await asyncio.sleep(0.1)
        names = [getattr(task.get_coro(), "__qualname__", "") for task in process.body.running()]
        left = [name for name in names if name not in NETWORK_TASKS]
        process.body.die()
        return left


async def _until(body: Body, work: Coroutine[Any, Any, None]) -> None:
    """Wait until a process has done something, or is dead."""
    died = asyncio.ensure_future(body.died.wait())
    await asyncio.wait([body.start(work), died], return_when=asyncio.FIRST_COMPLETED)
    died.cancel()


class _Acceptor:
    """Serves others in the name of the process, not of whoever asked."""

    def __init__(self, process: Process, name: str, watch: Watch) -> None:
        self._process = process
        self._name = name
        self._watch = watch

    async def on_wire(self, wire: Wire) -> None:
        # Shielded: who waits here is the network, which goes on when the process is dead.
        watched = _Watched(wire, self._name, self._watch)
        await asyncio.shield(self._process.body.start(self._process.peer.on_wire(watched)))

    async def on_request(self, peer: PeerKey, path: str, body: bytes, nonce: bytes) -> tuple[int, bytes]:
        return await asyncio.shield(self._process.body.start(self._process.peer.on_request(peer, path, body, nonce)))


class _Carrier:
    """Lets every frame be seen."""

    def __init__(self, carrier: MemoryCarrier, name: str, watch: Watch) -> None:
        self._carrier = carrier
        self._name = name
        self._watch = watch

    async def dial(self, address: str, expected: PeerKey, fingerprint: bytes | None = None) -> Wire:
        return _Watched(await self._carrier.dial(address, expected, fingerprint), self._name, self._watch)

    async def request(
        self, address: str, expected: PeerKey, path: str, body: bytes, fingerprint: bytes | None = None
    ) -> tuple[int, bytes]:
        return await self._carrier.request(address, expected, path, body, fingerprint)


class _Watched:
    def __init__(self, wire: Wire, name: str, watch: Watch) -> None:
        self.peer = wire.peer
        self.dialled = wire.dialled
        self.address = wire.address
        self._wire = wire
        self._name = name
        self._watch = watch

    async def send(self, frame: bytes) -> None:
        self._watch(self._name, self.address, frame)
        await self._wire.send(frame)

    async def receive(self) -> bytes:
        return await self._wire.receive()

    async def close(self, code: str = "") -> None:
        await self._wire.close(code)


_ACCEPTOR: type[Acceptor] = _Acceptor  # mypy sees here that they are what the node asks for
_CARRIER: type[Carrier] = _Carrier
