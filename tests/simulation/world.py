"""Some peers, a network between them, and all that can go wrong; decided by a seed, and the same each time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from hashlib import sha256
from random import Random
from typing import Any, Final

from msgspec import Struct

from roost.adapters.carriers.memory import Network
from roost.core import wire
from roost.core.errors import RoostError
from roost.core.ids import DocumentId, OperationId
from roost.node.peer import Peer
from tests.simulation.loop import Killed, VirtualLoop
from tests.simulation.machine import Machine
from tests.simulation.plan import HOUR, Plan
from tests.simulation.rogue import Rogue
from tests.simulation.weather import CALM, Weather

FIRST_PORT: Final = 7000
TICK_SECONDS_MAX: Final = 36.0  # between two rounds of anti-entropy


class Ack(Struct, frozen=True):
    """A write that returned: the peer promised that it is never lost."""

    machine: str
    document: DocumentId
    id: OperationId
    text: str | None = None
    key: str | None = None


class Doing(Struct):
    """Something that a peer was asked for."""

    name: str
    machine: Machine
    task: asyncio.Task[None]


class World:
    """What everything happens in; ``tests.simulation.story`` says what happens, ``checks`` what must hold after."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seed = str(plan.seed)
        self.loop = VirtualLoop()
        self.chance = Random(f"{self.seed}/world")
        self.fired: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.acks: list[Ack] = []
        self.documents: list[DocumentId] = []
        self.tickets: list[tuple[DocumentId, str]] = []
        self.problems: list[str] = []
        self.story: list[str] = []
        self.weather = Weather(Random(f"{self.seed}/weather"), self.fired)
        self.network = Network(self.weather)
        self.machines = [Machine(f"p{n}", self.seed, self.network, self._saw) for n in range(plan.peers)]
        self.rogue: Rogue | None = None
        self.carried = 0  # operations that peers sent since this was last set to 0
        self.frames = 0
        self.doing: list[Doing] = []
        self._context = copy_context()  # whoever dies, what the world itself does goes on
        self._chores: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.Task[None]] = []
        self._names: dict[str, str] = {}
        self._ports = FIRST_PORT
        self._trace = sha256()
        self.ended = False

    # --- what is seen -----------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Note what happens; it is part of the trace."""
        line = f"{self.loop.time():10.4f} {text}"
        self._trace.update(line.encode())
        self.story.append(line)

    def _saw(self, source: str, target: str, frame: bytes) -> None:
        self.frames += 1
        self._trace.update(f"{self.loop.time():.6f} {source} {target} ".encode())
        self._trace.update(frame)
        if self.ended:
            message = wire.decode_frame(frame)
            if isinstance(message, wire.Operations):
                self.carried += len(message)

    @property
    def trace(self) -> str:
        """The hash of every frame, with its time, and of all that was noted."""
        return self._trace.hexdigest()

    def named(self, name: str) -> Machine:
        return next(one for one in self.machines if one.name == name)

    def up(self) -> list[Machine]:
        return [one for one in self.machines if one.serves]

    def holders(self, document: DocumentId) -> list[Machine]:
        return [one for one in self.up() if one.peer.documents.holds(document)]

    # --- machines ---------------------------------------------------------------------------------------------------

    def new_url(self) -> str:
        self._ports += 1
        return f"http://127.0.0.1:{self._ports}"

    def boot(self, machine: Machine, url: str | None = None) -> None:
        machine.boot(url or machine.url or self.new_url())
        self.say(f"{machine.name} boots at {machine.url}")

    def crash(self, machine: Machine, how: str, down_seconds: float) -> None:
        """The process dies now, and is started again later."""
        self.fired[how] += 1
        self.say(f"{machine.name} dies ({how})")
        machine.die()
        self.later(down_seconds, lambda: self._boot_if_down(machine))

    def _boot_if_down(self, machine: Machine) -> None:
        if machine.process is None:
            self.boot(machine)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something of the world's own after a time, or when the world heals."""

        async def wait() -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(seconds)
            action()

        self._timers.append(self.loop.create_task(wait(), context=self._context.copy()))

    def chore(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that the world itself must see to the end."""
        self._chores.append(self.loop.create_task(work, context=self._context.copy()))

    def act(self, name: str, machine: Machine, work: Callable[[Peer], Awaitable[None]]) -> Doing:
        """Ask a running peer for something; it may be refused, and it may be lost with the process."""
        body = machine.running.body
        doing = Doing(name, machine, body.start(self._guarded(name, machine, work)))
        self.doing.append(doing)
        return doing

    async def _guarded(self, name: str, machine: Machine, work: Callable[[Peer], Awaitable[None]]) -> None:
        self.say(f"{machine.name} begins {name}")
        try:
            await work(machine.peer)
        except RoostError as error:
            self.refused[f"{name}: {error.code}"] += 1
            self.say(f"{machine.name} {name}: {error.code}")
        else:
            self.say(f"{machine.name} ends {name}")

    # --- the end ----------------------------------------------------------------------------------------------------

    async def heal(self) -> None:
        """Network, clocks and processes are well again; whoever was bad is gone."""
        self.say("heal")
        self.weather.rates = CALM
        self.weather.islands = {}
        for machine in self.machines:
            machine.disk.fuse = None
            if machine.process is not None:
                machine.process.body.fuse = None
                if machine.process.body.frozen:
                    machine.process.body.thaw()
        if self.rogue is not None:
            self.rogue.leave()
        while self._chores or self._timers:
            timers, chores, self._timers, self._chores = self._timers, self._chores, [], []
            for timer in timers:
                timer.cancel()
            await asyncio.gather(*timers, *chores)
        for machine in self.machines:
            self._boot_if_down(machine)
        self.right_clocks(72)

    def right_clocks(self, hours: int) -> None:
        """All show the same, so many hours on: whatever anybody holds back for less is due."""
        for machine in self.machines:
            machine.clock.skew = hours * HOUR

    def run(self, story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Play it to the end, and put everything away."""
        try:
            self.loop.run_until_complete(story(self))
        finally:
            self._put_away()

    def _put_away(self) -> None:
        bodies = [body for machine in self.machines for body in machine.bodies]
        if self.rogue is not None:
            bodies.append(self.rogue.body)
        self.loop.bury(bodies)
        rest = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        for task in rest:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True)) if rest else None
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        for machine in self.machines:
            machine.disk.close()


def failures(doing: Sequence[Doing]) -> list[str]:
    """What peers were asked for and neither did nor refused, though they lived."""
    found = []
    for one in doing:
        alive = one.machine.process is not None and one.task in one.machine.process.body.tasks
        if not one.task.done():
            if alive:
                found.append(f"{one.machine.name}: {one.name} hangs")
        elif not one.task.cancelled():
            error = one.task.exception()
            if error is not None and not isinstance(error, Killed):
                found.append(f"{one.machine.name}: {one.name} failed: {error!r}")
    return found
