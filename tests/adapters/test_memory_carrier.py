"""The network in memory: the carriers' suite, and each fault doing what it says."""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from roost.adapters.carriers.carrier import LinkClosed, Wire
from roost.adapters.carriers.memory import SILENCE_SECONDS, Faults, Network
from roost.adapters.environment import SystemEnvironment
from roost.core.errors import Unreachable
from roost.core.keys import SigningKey
from tests.adapters.carrier_suite import ALICE, BOB, JOIN, CarrierSuite, Joining, Peer, Recorder


class TestMemory(CarrierSuite):
    @asynccontextmanager
    async def network(self) -> AsyncIterator[Joining]:
        yield _joining(Network())


def _joining(network: Network) -> Joining:
    async def join(key: SigningKey) -> Peer:
        address = here_address(key)
        acceptor = Recorder()
        return Peer(key, address, acceptor, network.attach(address, key.public, acceptor, SystemEnvironment()))

    return join


class _Jumping(selectors.SelectSelector):
    """Instead of waiting it moves the clock on."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for everybody"
        self.now += timeout
        return super().select(0)


class _VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def simulated(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Run a test on a loop with a virtual clock."""

    @functools.wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=_VirtualTime) as runner:
            runner.run(test())

    run.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # what pytest looks at
    return run


class Scripted(Faults):
    """One fault for the first frame from alice to bob, by the name of its hook; later ones pass."""

    def __init__(self, hook: str, value: float) -> None:
        self._value = value
        self._hook = hook
        self.armed = False

    def _now(self, hook: str, otherwise: float) -> float:
        if not self.armed or hook != self._hook:
            return otherwise
        self.armed = False
        return self._value

    def reaches(self, source: str, target: str) -> bool:
        return bool(self._now("reaches", 1))

    def delay_seconds(self, source: str, target: str) -> float:
        return self._now("delay_seconds", 0.01)

    def lag_seconds(self, source: str, target: str) -> float:
        return self._now("lag_seconds", 0.0)

    def drops(self, source: str, target: str) -> bool:
        return bool(self._now("drops", 0))

    def doubles(self, source: str, target: str) -> bool:
        return bool(self._now("doubles", 0))

    def cuts(self, source: str, target: str) -> bool:
        return bool(self._now("cuts", 0))


async def arrivals(hook: str, value: float) -> list[bytes | str]:
    """What bob receives of three frames when this fault meets the first, and how long it takes in all."""
    faults = Scripted(hook, value)
    here, there = await wire_through(Network(faults))
    faults.armed = True
    for frame in (b"1", b"2", b"3"):
        await here.send(frame)
    await here.close("end")
    received: list[bytes | str] = []
    try:
        while True:
            received.append(await there.receive())
    except LinkClosed as closed:
        received.append(closed.detail.removeprefix("the other side said: "))
    return received


async def wire_through(network: Network) -> tuple[Wire, Wire]:
    join = _joining(network)
    alice, bob = await join(ALICE), await join(BOB)
    return await alice.carrier.dial(bob.address, BOB.public), await bob.acceptor.wires.get()


@simulated
async def test_without_a_fault_everything_arrives_in_order() -> None:
    assert await arrivals("none", 0) == [b"1", b"2", b"3", "end"]


@simulated
async def test_a_dropped_frame_is_missing_and_the_others_come() -> None:
    assert await arrivals("drops", 1) == [b"2", b"3", "end"]


@simulated
async def test_a_doubled_frame_comes_twice() -> None:
    assert await arrivals("doubles", 1) == [b"1", b"1", b"2", b"3", "end"]


@simulated
async def test_a_lagging_frame_is_overtaken() -> None:
    faults = Scripted("lag_seconds", 0.5)
    here, there = await wire_through(Network(faults))
    faults.armed = True
    for frame in (b"1", b"2"):
        await here.send(frame)
    assert [await there.receive(), await there.receive()] == [b"2", b"1"]


@simulated
async def test_a_delayed_frame_keeps_the_later_ones_waiting() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await arrivals("delay_seconds", 7.0) == [b"1", b"2", b"3", "end"]
    assert loop.time() - began >= 7.0


@simulated
async def test_a_cut_ends_the_wire_at_both_ends() -> None:
    faults = Scripted("cuts", 1)
    here, there = await wire_through(Network(faults))
    faults.armed = True
    await here.send(b"1")
    for wire in (here, there):
        with pytest.raises(LinkClosed):
            await wire.receive()
        with pytest.raises(LinkClosed):
            await wire.send(b"2")


@simulated
async def test_a_wire_breaks_when_silence_has_lasted_as_long_as_a_real_one_bears() -> None:
    faults = Scripted("reaches", 0)
    here, there = await wire_through(Network(faults))
    loop = asyncio.get_running_loop()
    began = loop.time()
    faults.armed = True
    await here.send(b"lost")
    with pytest.raises(LinkClosed):
        await there.receive()
    assert loop.time() - began == pytest.approx(SILENCE_SECONDS)


@simulated
async def test_nobody_can_be_dialled_or_asked_through_a_partition() -> None:
    class Parted(Faults):
        def reaches(self, source: str, target: str) -> bool:
            return False

    join = _joining(Network(Parted()))
    alice, bob = await join(ALICE), await join(BOB)
    with pytest.raises(Unreachable):
        await alice.carrier.dial(bob.address, BOB.public)
    with pytest.raises(Unreachable):
        await alice.carrier.request(bob.address, BOB.public, JOIN, b"")
    assert bob.acceptor.requests == []


@simulated
async def test_a_peer_that_is_detached_stops_serving_and_can_be_attached_again() -> None:
    network = Network()
    here, _there = await wire_through(network)
    assert network.links() == [(here_address(ALICE), here_address(BOB))]

    network.detach(here_address(BOB))

    with pytest.raises(LinkClosed):
        await here.receive()
    assert network.links() == []
    bob = await _joining(network)(BOB)
    assert bob.address == here_address(BOB)


@simulated
async def test_who_asks_a_peer_that_dies_meanwhile_is_told() -> None:
    class Dying(Recorder):
        async def on_request(self, *_asked: object) -> tuple[int, bytes]:
            network.detach(here_address(BOB))
            await asyncio.sleep(3600)
            raise AssertionError("it is gone")

    network = Network()
    network.attach(here_address(BOB), BOB.public, Dying(), SystemEnvironment())
    alice = await _joining(network)(ALICE)
    with pytest.raises(Unreachable):
        await alice.carrier.request(here_address(BOB), BOB.public, JOIN, b"")


@simulated
async def test_all_links_between_two_can_be_cut() -> None:
    network = Network()
    here, there = await wire_through(network)
    network.cut(here_address(BOB), here_address(ALICE))
    for wire in (here, there):
        with pytest.raises(LinkClosed):
            await wire.receive()


def here_address(key: SigningKey) -> str:
    return f"http://{key.public.hex()[:8]}.example"
