"""A network in memory, for the simulation: the carriers' rules over timers of the running loop, with faults on order.

It uses no clock but the loop's timers, no thread and no chance of its own, so on a loop with a virtual clock the same
faults give the same run. Frames may be lost, doubled or late although TCP allows none of it: what is built on wires
must bear it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from roost.adapters.carriers.carrier import (
    BUFFER_BYTES_MAX,
    DIAL_SECONDS_MAX,
    FRAME_BYTES_MAX,
    HEARTBEAT_SECONDS,
    Acceptor,
    LinkClosed,
    check_request,
    closed_because,
)
from roost.adapters.carriers.refusal import pack_refusal, unpack_refusal
from roost.adapters.environment import Environment
from roost.core.errors import BadSignature, RoostError, Unreachable
from roost.core.ids import PeerKey
from roost.core.ticket import NONCE_BYTES

SILENCE_SECONDS: Final = 1.5 * HEARTBEAT_SECONDS  # until a real wire notices that nothing arrives any more

_Result = TypeVar("_Result")


class Faults:
    """What goes wrong on the way from one address to another; here, nothing. A simulation overrides what it wants.

    Each is asked once per frame, request or dial, in the order in which they are sent.
    """

    def reaches(self, source: str, target: str) -> bool:
        """False while a partition keeps them apart in this direction: frames are lost, and then the wire breaks."""
        return True

    def delay_seconds(self, source: str, target: str) -> float:
        """How long it is on its way; those sent later on this wire do not arrive earlier."""
        return 0.0

    def lag_seconds(self, source: str, target: str) -> float:
        """How long this frame is held back beyond that, while later ones overtake it; 0 keeps the order."""
        return 0.0

    def drops(self, source: str, target: str) -> bool:
        """Whether it is lost, though the wire stays."""
        return False

    def doubles(self, source: str, target: str) -> bool:
        """Whether this frame arrives twice, each time with a delay and lag of its own."""
        return False

    def cuts(self, source: str, target: str) -> bool:
        """Whether the connection breaks instead of carrying this frame."""
        return False


class Network:
    """All peers of one simulation, by address."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults: Final = faults or Faults()
        self._peers: dict[str, _Attached] = {}
        self._wires: dict[MemoryWire, None] = {}  # diallers' ends, in the order of their making: a set has none

    def attach(self, address: str, key: PeerKey, acceptor: Acceptor, environment: Environment) -> MemoryCarrier:
        """Let a peer be reached at address, an http URL; returns what it dials with."""
        assert address not in self._peers, f"{address} is taken"
        self._peers[address] = _Attached(key, acceptor)
        return MemoryCarrier(self, address, key, environment)

    def detach(self, address: str) -> None:
        """As when a process ends: nobody is there, what it was serving stops, and all its connections break."""
        for wire in [wire for wire in self._wires if address in (wire.here, wire.address)]:
            wire.cut()
        attached = self._peers.pop(address, None)
        for task in list(attached.serving if attached else ()):
            task.cancel()

    def cut(self, one: str, other: str) -> None:
        """Break all connections between two addresses."""
        for wire in [wire for wire in self._wires if {wire.here, wire.address} == {one, other}]:
            wire.cut()

    def links(self) -> list[tuple[str, str]]:
        """Who is linked to whom, (dialler, dialled), in the order in which they were made."""
        return [(wire.here, wire.address) for wire in self._wires]

    async def reach(self, source: str, target: str, expected: PeerKey) -> _Attached:
        """The peer at target, once a question from source has come there. Raises Unreachable, BadSignature."""
        await self.pass_through(source, target)
        attached = self._peers.get(target)
        if attached is None:
            raise Unreachable(f"{target}: nobody listens there")
        if attached.key != expected:
            raise BadSignature("another peer answered")
        return attached

    def check_there(self, target: str, attached: _Attached) -> None:
        """Raise Unreachable if it was detached since it was reached."""
        if self._peers.get(target) is not attached:
            raise Unreachable(f"{target}: it is gone")

    async def pass_through(self, source: str, target: str) -> None:
        """Wait as long as one message takes; raise Unreachable if it is lost."""
        if self.faults.reaches(source, target) and not self.faults.drops(source, target):
            await asyncio.sleep(self.faults.delay_seconds(source, target))
        else:
            await asyncio.sleep(DIAL_SECONDS_MAX)
            raise Unreachable(f"{target}: no answer within {DIAL_SECONDS_MAX:.0f} s")

    def connect(self, source: str, key: PeerKey, target: str, attached: _Attached) -> MemoryWire:
        there, back = _Pipe(self.faults, source, target), _Pipe(self.faults, target, source)
        wire = MemoryWire(attached.key, True, source, target, sends=there, receives=back)
        accepted = MemoryWire(key, False, target, source, sends=back, receives=there)
        there.cut = back.cut = wire.cut
        self._wires[wire] = None
        there.when_ended = back.when_ended = partial(self._forget, wire)
        attached.start(_serve(attached.acceptor, accepted))
        return wire

    def _forget(self, wire: MemoryWire) -> None:
        self._wires.pop(wire, None)


class MemoryCarrier:
    """Dials in the name of the peer at one address."""

    def __init__(self, network: Network, here: str, key: PeerKey, environment: Environment) -> None:
        self._network = network
        self._here = here
        self._key = key
        self._environment = environment

    async def dial(self, address: str, expected: PeerKey, fingerprint: bytes | None = None) -> MemoryWire:
        attached = await self._network.reach(self._here, address, expected)
        await self._network.pass_through(address, self._here)
        self._network.check_there(address, attached)
        return self._network.connect(self._here, self._key, address, attached)

    async def request(
        self, address: str, expected: PeerKey, path: str, body: bytes, fingerprint: bytes | None = None
    ) -> tuple[int, bytes]:
        check_request(path, body)
        attached = await self._network.reach(self._here, address, expected)
        nonce = self._environment.random(NONCE_BYTES)
        # A task of the other peer: it stops with that one, not with this one.
        answering = attached.start(_answer(attached.acceptor, self._key, path, body, nonce))
        await asyncio.wait([answering])
        if answering.cancelled():
            raise Unreachable(f"{address}: it is gone")
        await self._network.pass_through(address, self._here)
        status, answer = answering.result()
        if refusal := unpack_refusal(status, answer):
            raise refusal
        return status, answer


class MemoryWire:
    """One end of a connection in memory."""

    def __init__(self, peer: PeerKey, dialled: bool, here: str, address: str, *, sends: _Pipe, receives: _Pipe) -> None:
        self.peer: Final = peer
        self.dialled: Final = dialled
        self.here: Final = here
        self.address: Final = address
        self._sends = sends
        self._receives = receives

    async def send(self, frame: bytes) -> None:
        await self._sends.has_room()
        if self._receives.ended:
            raise LinkClosed
        self._sends.put(frame)

    async def receive(self) -> bytes:
        item = await self._receives.take()
        if isinstance(item, _Closing):
            await self.close()
            raise closed_because(item.code)
        if len(item) > FRAME_BYTES_MAX:
            await self.close("too_large")
            raise LinkClosed("the other side sent what is refused: a frame that is too large")
        return item

    async def close(self, code: str = "") -> None:
        if not self._receives.ended:
            self._receives.end()
            self._sends.put(_Closing(code))

    def cut(self) -> None:
        """Break the connection: what is on its way is lost."""
        self._receives.end()
        self._sends.end()


@dataclass(frozen=True, slots=True)
class _Closing:
    """The last that one end says."""

    code: str

    def __len__(self) -> int:
        return 0


class _Pipe:
    """One direction of a connection."""

    def __init__(self, faults: Faults, source: str, target: str) -> None:
        self.cut: Callable[[], None] = self.end  # until it is part of a connection
        self.when_ended: Callable[[], None] = _nothing
        self.ended = False
        self._faults = faults
        self._way = (source, target)
        self._travelling: list[tuple[float, int, bytes | _Closing]] = []  # a heap of (due, number, item)
        self._number = 0
        self._last_due = 0.0
        self._arrived: deque[bytes | _Closing] = deque()
        self._held_bytes = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def has_room(self) -> None:
        while self._held_bytes > BUFFER_BYTES_MAX and not self.ended:
            self._room.clear()
            await self._room.wait()
        if self.ended:
            raise LinkClosed

    def put(self, item: bytes | _Closing) -> None:
        if self.ended:
            return
        if not self._faults.reaches(*self._way):
            asyncio.get_running_loop().call_later(SILENCE_SECONDS, self.cut)
        elif isinstance(item, _Closing):
            self._send(item, lag_seconds=0.0)
        elif self._faults.cuts(*self._way):
            self.cut()
        elif not self._faults.drops(*self._way):
            for _copy in range(2 if self._faults.doubles(*self._way) else 1):
                self._send(item, self._faults.lag_seconds(*self._way))

    def _send(self, item: bytes | _Closing, lag_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = max(self._last_due, loop.time() + self._faults.delay_seconds(*self._way))
        self._last_due = due
        due += lag_seconds
        self._number += 1
        heapq.heappush(self._travelling, (due, self._number, item))
        self._held_bytes += len(item)
        loop.call_at(due, self._arrive, due)

    def _arrive(self, due: float) -> None:
        """All that is due by then; in the order of the heap, since the loop promises none to timers of one time."""
        while self._travelling and self._travelling[0][0] <= due:
            self._arrived.append(heapq.heappop(self._travelling)[2])
        self._news.set()

    async def take(self) -> bytes | _Closing:
        while not self._arrived and not self.ended:
            self._news.clear()
            await self._news.wait()
        if self.ended:
            raise LinkClosed
        item = self._arrived.popleft()
        self._held_bytes -= len(item)
        self._room.set()
        return item

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self._travelling.clear()
            self._arrived.clear()
            self._news.set()
            self._room.set()
            self.when_ended()


@dataclass(slots=True)
class _Attached:
    """A peer, and what it is serving: that stops with it."""

    key: PeerKey
    acceptor: Acceptor
    serving: dict[asyncio.Task[object], None] = field(default_factory=dict)

    def start(self, work: Coroutine[object, object, _Result]) -> asyncio.Task[_Result]:
        task = asyncio.get_running_loop().create_task(work)
        self.serving[task] = None
        task.add_done_callback(lambda done: self.serving.pop(done, None))
        return task


def _nothing() -> None:
    pass


async def _serve(acceptor: Acceptor, wire: MemoryWire) -> None:
    code = ""
    try:
        await acceptor.on_wire(wire)
    except RoostError as error:
        code = error.code
    finally:
        await wire.close(code)


async def _answer(acceptor: Acceptor, peer: PeerKey, path: str, body: bytes, nonce: bytes) -> tuple[int, bytes]:
    try:
        return await acceptor.on_request(peer, path, body, nonce)
    except RoostError as error:
        return error.http_status, pack_refusal(error)
