"""What happens in a world: peers found and share documents, a storm of writes and faults, then peace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from roost.core.heads import Grant, RedactHead, Splice, encode_access, encode_head
from roost.core.ids import DocumentId, OperationId
from roost.node.commands import registry
from roost.node.peer import Peer
from roost.node.sessions import NewEntry
from tests.simulation.machine import Machine
from tests.simulation.plan import KINDS, LOSSY, STEADY, WEATHERS
from tests.simulation.rogue import Rogue
from tests.simulation.world import Ack, World

COMMANDS = registry()
JOIN_SECONDS = 20.0


async def live(world: World) -> None:
    """Everything up to the end of the storm."""
    storm = Storm(world)
    for machine in world.machines:
        world.boot(machine, world.new_url())
        storm.set_clock(machine, "skew")
    await storm.found()
    for _ in range(world.plan.actions):
        await asyncio.sleep(world.chance.choice((0.0, 0.02, 0.2, 1.0)) * world.chance.random() * 2)
        storm.next()
    await asyncio.sleep(world.chance.random() * 5)


class Storm:
    """Draws the actions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance: Random = world.chance
        self._texts = 0
        self._acts: dict[str, Callable[[Machine, DocumentId], None]] = {
            "send": self._send, "burst": self._burst, "keyed": self._keyed, "put": self._put, "splice": self._splice,
            "redact": self._redact, "access": self._access, "share": self._share, "restart": self._restart,
            "move": self._move, "crash": self._crash, "crash_commit": self._crash_commit, "pause": self._pause,
            "partition": self._partition, "clock": self._jump_clock, "weather": self._change_weather,
        }  # fmt: skip

    # --- the beginning ----------------------------------------------------------------------------------------------

    async def found(self) -> None:
        """Documents are founded and shared; most join at once."""
        world = self.world
        for number in range(world.plan.documents):
            founder = world.machines[number]
            await world.act("found", founder, self._founding(f"session {number}")).task
        if world.plan.rogue is not None:
            odd = world.plan.odd_clocks
            world.rogue = Rogue(world.seed, world.network, world.fired, odd_clocks=odd)
            for number, document in enumerate(world.documents):
                head = encode_access((Grant(world.rogue.key.public, world.plan.rogue),))  # type: ignore[arg-type]
                await world.act("grant", world.machines[number], self._appending(document, "access", head)).task
        if world.plan.wild:
            self._change_weather(world.machines[0], world.documents[0])
        for document, ticket in list(world.tickets):
            for machine in world.machines:
                if not machine.peer.documents.holds(document) and self.chance.random() < 0.8:
                    world.act("join", machine, self._joining(ticket))
        await asyncio.sleep(self.chance.choice((1.0, 6.0)))

    def _founding(self, name: str) -> Callable[[Peer], Awaitable[None]]:
        async def found(peer: Peer) -> None:
            (row,) = [row async for row in COMMANDS["new"](peer, {"name": name})]
            document = DocumentId(bytes.fromhex(str(row["session"])))
            self.world.documents.append(document)
            await self._sharing(document)(peer)

        return found

    def _sharing(self, document: DocumentId) -> Callable[[Peer], Awaitable[None]]:
        async def share(peer: Peer) -> None:
            async for row in COMMANDS["share"](peer, {"session": document.hex(), "role": "write"}):
                if "ticket" in row:
                    self.world.tickets.append((document, str(row["ticket"])))

        return share

    def _joining(self, ticket: str) -> Callable[[Peer], Awaitable[None]]:
        async def join(peer: Peer) -> None:
            async for _ in COMMANDS["sync"](peer, {"ticket": ticket, "wait_seconds": JOIN_SECONDS}):
                pass

        return join

    # --- the storm --------------------------------------------------------------------------------------------------

    def next(self) -> None:
        """One action, by somebody, on some document."""
        world = self.world
        if world.rogue is not None and self.chance.random() < 0.2:
            document = self.chance.choice(world.documents)
            targets = world.holders(document)
            if targets:
                world.rogue.act(document, targets)
            return
        up = world.up()
        if not up:
            return
        machine = self.chance.choice(up)
        held = [document for document in world.documents if machine.peer.documents.holds(document)]
        document = self.chance.choice(held or world.documents)
        kinds = [kind for kind in KINDS if not world.plan.steady or kind in STEADY]
        kind = self.chance.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        if not held and kind in ("send", "burst", "keyed", "put", "splice", "redact", "access"):
            kind = "share"
        self._acts[kind](machine, document)

    def _text(self) -> str:
        self._texts += 1
        return f"text {self._texts}"

    # --- writing ----------------------------------------------------------------------------------------------------

    def _sending(self, document: DocumentId, text: str, key: str | None = None) -> Callable[[Peer], Awaitable[None]]:
        async def send(peer: Peer) -> None:
            identity = await peer.sessions.send(document, NewEntry(text, sender=peer.name, key=key))
            self._acknowledged(peer, document, identity, text, key)

        return send

    def _appending(self, document: DocumentId, kind: str, head: bytes) -> Callable[[Peer], Awaitable[None]]:
        async def append(peer: Peer) -> None:
            made = await peer.documents.get(document).append(kind, head)
            self._acknowledged(peer, document, made.id)

        return append

    def _acknowledged(
        self, peer: Peer, document: DocumentId, identity: OperationId, text: str | None = None, key: str | None = None
    ) -> None:
        name = next(one.name for one in self.world.machines if one.key.public == peer.key.public)
        self.world.acks.append(Ack(name, document, identity, text, key))
        self.world.say(f"{name} has written {identity.hex()[:8]}")

    def _send(self, machine: Machine, document: DocumentId) -> None:
        self.world.act("send", machine, self._sending(document, self._text()))

    def _burst(self, machine: Machine, document: DocumentId) -> None:
        """Several peers at once, each with several entries in flight."""
        for one in self.world.holders(document):
            for _ in range(self.chance.randint(0, 4)):
                self.world.act("send", one, self._sending(document, self._text()))

    def _keyed(self, machine: Machine, document: DocumentId) -> None:
        """The same entry under the same key, at once and again later, perhaps after a crash."""
        text = self._text()

        def again() -> None:
            if machine.serves and machine.peer.documents.holds(document):
                self.world.act("send again", machine, self._sending(document, text, text))

        again()
        if self.chance.random() < 0.5:
            again()
        self.world.later(self.chance.random() * 20, again)

    def _put(self, machine: Machine, document: DocumentId) -> None:
        text = self._text()
        key = f"key {self.chance.randrange(4)}"

        async def put(peer: Peer) -> None:
            self._acknowledged(peer, document, await peer.states.put(document, "meta", key, text))

        self.world.act("put", machine, put)

    def _splice(self, machine: Machine, document: DocumentId) -> None:
        text = self._text()
        at, remove = self.chance.random(), self.chance.randrange(4)

        async def splice(peer: Peer) -> None:
            length = len((await peer.states.view(document)).texts["notes"])
            index = round(at * length)
            edit = Splice("notes", index, min(remove, length - index), len(text))
            made = await peer.states.edit(peer.documents.get(document), [edit], [text])
            self._acknowledged(peer, document, made)

        self.world.act("splice", machine, splice)

    def _redact(self, machine: Machine, document: DocumentId) -> None:
        """Take back something of one's own."""
        mine = [ack for ack in self.world.acks if ack.machine == machine.name and ack.document == document]
        if mine:
            target = self.chance.choice(mine).id
            self.world.act("redact", machine, self._appending(document, "redact", encode_head(RedactHead(target))))

    def _access(self, machine: Machine, document: DocumentId) -> None:
        """Somebody is removed, admitted again, or given another role."""
        if not self.world.plan.removals:
            return
        victims = [one.key.public for one in self.world.machines if one is not machine]
        if self.world.rogue is not None:
            victims.append(self.world.rogue.key.public)
        victim = self.chance.choice(victims)
        if self.chance.random() < 0.5:
            head = encode_access(revokes=(victim,))
        else:
            head = encode_access((Grant(victim, self.chance.choice(("read", "write", "write", "admin"))),))
        founder = self.world.machines[self.world.documents.index(document)]
        by = founder if founder.serves else machine
        self.world.act("access", by, self._appending(document, "access", head))

    def _share(self, machine: Machine, document: DocumentId) -> None:
        """Give out another ticket, and somebody who has not got the document joins with some ticket."""
        if machine.peer.documents.holds(document):
            self.world.act("share", machine, self._sharing(document))
        for one in self.world.up():
            if not one.peer.documents.holds(document):
                tickets = [ticket for of, ticket in self.world.tickets if of == document]
                if tickets:
                    self.world.act("join", one, self._joining(self.chance.choice(tickets)))
                return

    # --- faults -----------------------------------------------------------------------------------------------------

    def _restart(self, machine: Machine, document: DocumentId) -> None:
        self.world.fired["restart"] += 1
        self.world.chore(self._restarting(machine, moves=False))

    def _move(self, machine: Machine, document: DocumentId) -> None:
        machine = self.world.machines[self.world.plan.mover]
        if machine.serves:
            self.world.chore(self._restarting(machine, moves=True))

    async def _restarting(self, machine: Machine, *, moves: bool) -> None:
        if not machine.serves:
            return
        peer, down_seconds = machine.peer, self.chance.random() * 10
        left = await machine.stop([doing.task for doing in self.world.doing])
        if left:
            self.world.problems.append(f"{machine.name} was stopped and still runs {left}")
        if machine.process is None:
            await asyncio.sleep(down_seconds)
        if machine.process is not None:
            return
        url = machine.url
        if moves and self._knows_all(peer):
            url = self.world.new_url()
            self.world.fired["move"] += 1
        self.world.boot(machine, url)

    def _knows_all(self, peer: Peer) -> bool:
        """Whether a peer can find all others by itself: else it may not move, as nobody could find anybody."""
        others = [one.key.public for one in self.world.machines if one.key.public != peer.key.public]
        known = [peer.membership.record_of(key) for key in others]
        return None not in known

    def _crash(self, machine: Machine, document: DocumentId) -> None:
        body = machine.running.body
        down = self.chance.choice((0.1, 3.0, 15.0))
        body.on_fuse = lambda: self.world.crash(machine, "crash", down)
        body.fuse = self.chance.choice((1, 10, 100, 400)) + self.chance.randrange(40)

    def _crash_commit(self, machine: Machine, document: DocumentId) -> None:
        down = self.chance.choice((0.1, 3.0, 15.0))
        machine.disk.after = self.chance.random() < 0.5
        machine.disk.on_fuse = lambda: self.world.crash(machine, "crash_commit", down)
        machine.disk.fuse = self.chance.randint(1, 30)
        if machine.peer.documents.holds(document):
            self._send(machine, document)

    def _pause(self, machine: Machine, document: DocumentId) -> None:
        body = machine.running.body
        if body.frozen:
            return
        body.frozen = True
        self.world.fired["pause"] += 1
        self.world.say(f"{machine.name} is paused")
        self.world.later(self.chance.choice((1.0, 10.0, 45.0)) * self.chance.random(), body.thaw)

    def _partition(self, machine: Machine, document: DocumentId) -> None:
        sides = {one.url: self.chance.randrange(2) for one in self.world.machines}
        self.world.weather.islands = sides
        self.world.say(f"partition {list(sides.values())}")
        self.world.later(self.chance.choice((2.0, 20.0, 60.0)) * self.chance.random(), self._unite)

    def _unite(self) -> None:
        self.world.weather.islands = {}

    def _jump_clock(self, machine: Machine, document: DocumentId) -> None:
        self.set_clock(machine, "clock_jump")

    def set_clock(self, machine: Machine, why: str) -> None:
        before = machine.clock.skew
        if self.chance.random() < 0.7:
            machine.clock.skew = self.chance.randint(-self.world.plan.skew_max, self.world.plan.skew_max)
        if abs(machine.clock.skew - before) > 3600 * 1_000_000:
            self.world.fired[why] += 1
            self.world.say(f"{machine.name} has a clock {machine.clock.skew / 3.6e9:+.1f} h off")

    def _change_weather(self, machine: Machine, document: DocumentId) -> None:
        self.world.weather.rates = LOSSY if self.world.plan.steady else self.chance.choice(WEATHERS)
