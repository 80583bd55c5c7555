"""What every carrier keeps to: the acceptance suite, run by test_websocket.py and test_memory_carrier.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from roost.adapters.carriers.carrier import FRAME_BYTES_MAX, Carrier, LinkClosed, Wire
from roost.core.errors import BadSignature, InviteExpired, NotAReader, Pending, RoostError, Unreachable
from roost.core.ids import PeerKey
from roost.core.keys import SigningKey

ALICE, BOB, EVE = (SigningKey.from_seed(name * 32) for name in (b"a", b"b", b"e"))
JOIN = "/roost/join"


@dataclass
class Recorder:
    """An acceptor that hands its wires to the test, and answers requests as the test wants."""

    reply: tuple[int, bytes] | RoostError = (200, b"answer")
    wires: asyncio.Queue[Wire] = field(default_factory=asyncio.Queue)
    requests: list[tuple[PeerKey, str, bytes, bytes]] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)  # ends on_wire

    async def on_wire(self, wire: Wire) -> None:
        self.wires.put_nowait(wire)
        await self.done.wait()
        if isinstance(self.reply, RoostError):
            raise self.reply

    async def on_request(self, peer: PeerKey, path: str, body: bytes, nonce: bytes) -> tuple[int, bytes]:
        self.requests.append((peer, path, body, nonce))
        if isinstance(self.reply, RoostError):
            raise self.reply
        return self.reply


@dataclass(frozen=True)
class Peer:
    key: SigningKey
    address: str
    acceptor: Recorder
    carrier: Carrier


Joining = Callable[[SigningKey], Awaitable[Peer]]


class CarrierSuite:
    """A subclass says how a peer joins its network."""

    def network(self) -> AbstractAsyncContextManager[Joining]:
        raise NotImplementedError

    @asynccontextmanager
    async def linked(self) -> AsyncIterator[tuple[Wire, Wire, Peer]]:
        """Both ends of a wire that alice dialled to bob, and bob."""
        async with self.network() as join:
            alice, bob = await join(ALICE), await join(BOB)
            wire = await alice.carrier.dial(bob.address, BOB.public)
            try:
                yield wire, await bob.acceptor.wires.get(), bob
            finally:
                bob.acceptor.done.set()
                await wire.close()

    async def test_both_ends_of_a_wire_know_whose_key_was_proven(self) -> None:
        async with self.linked() as (here, there, bob):
            assert (here.peer, here.dialled, here.address) == (BOB.public, True, bob.address)
            assert (there.peer, there.dialled) == (ALICE.public, False)

    async def test_frames_arrive_whole_and_in_order_in_both_directions(self) -> None:
        frames = [b"", b"one", bytes(FRAME_BYTES_MAX), b"last"]
        async with self.linked() as (here, there, _bob):
            for sender, receiver in ((here, there), (there, here)):
                sending = asyncio.create_task(_send_all(sender, frames))
                assert [await receiver.receive() for _ in frames] == frames
                await sending

    async def test_a_frame_that_is_too_large_closes_the_wire(self) -> None:
        async with self.linked() as (here, there, _bob):
            sending = asyncio.create_task(_send_all(here, [b"small", bytes(FRAME_BYTES_MAX + 1)]))
            assert await there.receive() == b"small"
            with pytest.raises(LinkClosed):
                await there.receive()
            with pytest.raises(LinkClosed):
                await here.receive()
            await asyncio.wait([sending])

    async def test_who_closes_says_why_and_the_other_end_hears_it(self) -> None:
        async with self.linked() as (here, there, _bob):
            await here.send(b"before")
            closing = asyncio.create_task(here.close("busy"))
            assert await there.receive() == b"before"
            with pytest.raises(LinkClosed, match="busy"):
                await there.receive()
            await closing
            for wire in (here, there):
                with pytest.raises(LinkClosed):
                    await wire.receive()
                with pytest.raises(LinkClosed):
                    await wire.send(b"after")
                await wire.close("again")

    async def test_an_acceptor_that_returns_or_refuses_closes_the_wire(self) -> None:
        async with self.linked() as (here, _there, bob):
            bob.acceptor.reply = NotAReader()
            bob.acceptor.done.set()
            with pytest.raises(LinkClosed, match="not_a_reader"):
                await here.receive()

    async def test_a_sender_waits_for_a_receiver_that_takes_nothing(self) -> None:
        frames = [bytes(FRAME_BYTES_MAX)] * 64
        async with self.linked() as (here, there, _bob):
            sending = asyncio.create_task(_send_all(here, frames))
            await there.receive()
            assert not sending.done()
            for _ in frames[1:]:
                await there.receive()
            await sending

    async def test_a_dial_to_nobody_is_unreachable(self) -> None:
        async with self.network() as join:
            alice = await join(ALICE)
            with pytest.raises(Unreachable):
                await alice.carrier.dial("http://127.0.0.1:1", BOB.public)
            with pytest.raises(Unreachable):
                await alice.carrier.request("http://127.0.0.1:1", BOB.public, JOIN, b"")

    async def test_another_peer_than_the_expected_one_is_told_nothing(self) -> None:
        async with self.network() as join:
            alice, eve = await join(ALICE), await join(EVE)
            with pytest.raises(BadSignature, match="another peer"):
                await alice.carrier.dial(eve.address, BOB.public)
            with pytest.raises(BadSignature, match="another peer"):
                await alice.carrier.request(eve.address, BOB.public, JOIN, b"secret")
            assert eve.acceptor.wires.empty()
            assert eve.acceptor.requests == []

    async def test_a_request_is_answered_and_each_has_its_own_nonce(self) -> None:
        async with self.network() as join:
            alice, bob = await join(ALICE), await join(BOB)
            for _ in range(2):
                assert await alice.carrier.request(bob.address, BOB.public, JOIN, b"ask") == (200, b"answer")
            asked = bob.acceptor.requests
            assert [request[:3] for request in asked] == [(ALICE.public, JOIN, b"ask")] * 2
            assert len({nonce for *_, nonce in asked}) == 2
            assert all(len(nonce) == 16 for *_, nonce in asked)

    async def test_a_refusal_is_raised_as_what_it_is(self) -> None:
        async with self.network() as join:
            alice, bob = await join(ALICE), await join(BOB)
            for refusal in (InviteExpired("since noon"), Pending()):
                bob.acceptor.reply = refusal
                with pytest.raises(type(refusal)) as told:
                    await alice.carrier.request(bob.address, BOB.public, JOIN, b"")
                assert told.value.detail == ("since noon" if isinstance(refusal, InviteExpired) else "")

    async def test_an_answer_that_is_no_refusal_is_given_with_its_status(self) -> None:
        async with self.network() as join:
            alice, bob = await join(ALICE), await join(BOB)
            bob.acceptor.reply = (409, b"own words")
            assert await alice.carrier.request(bob.address, BOB.public, JOIN, b"") == (409, b"own words")


async def _send_all(wire: Wire, frames: list[bytes]) -> None:
    try:
        for frame in frames:
            await wire.send(frame)
    except LinkClosed:
        pass  # the other end had enough
