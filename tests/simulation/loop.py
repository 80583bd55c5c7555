"""An event loop whose clock jumps to the next timer, and processes that can be frozen, thawed and killed in it.

Everything that a simulated process does runs in a context that names its ``Body``: tasks inherit it, and so do the
callbacks they leave with the loop. A dead body's callbacks are never run, not even to clean up: that is a SIGKILL. A
frozen body's callbacks wait, while the clock and everybody else go on.
"""

from __future__ import annotations

import asyncio
import selectors
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar

from roost.adapters.carriers import memory

Answer = TypeVar("Answer")

CALLBACKS_MAX: Final = 3_000_000  # a minute of work: a simulation that needs more goes round in circles
_body: ContextVar[Body | None] = ContextVar("body", default=None)


class Killed(BaseException):
    """The process ended in the middle of a callback. Nothing of the project catches it."""


class Body:
    """One run of one process, from its start to its end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.died = asyncio.Event()
        self.frozen = False
        self.fuse: int | None = None  # callbacks until ``on_fuse``
        self.on_fuse: Callable[[], None] = lambda: None
        self.held: list[_Step] = []  # what came while it was frozen, or dead
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._context = copy_context()
        self._context.run(_body.set, self)

    def die(self) -> None:
        self.dead = True
        self.fuse = None
        self.died.set()

    def context(self) -> Context:
        return self._context.copy()

    def run(self, action: Callable[[], Answer]) -> Answer:
        """Do something at once in the name of this process."""
        return self.context().run(action)

    def start(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Begin a task of this process."""
        return asyncio.get_running_loop().create_task(work, context=self.context())

    def thaw(self) -> None:
        self.frozen = False
        held, self.held = self.held, []
        for step in held:
            step.schedule()

    def running(self) -> list[asyncio.Task[Any]]:
        """Its tasks that are not done."""
        return [task for task in self.tasks if not task.done()]


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs as fast as it can; ``time`` moves only while nobody is ready. Close it after ``bury``."""

    def __init__(self) -> None:
        self.jump = _Jump()
        self.unhandled: list[str] = []  # what no task's owner looked at
        super().__init__(self.jump)
        self.set_task_factory(_remember)  # type: ignore[arg-type]  # a factory that takes the context along
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self.jump.now

    def _note(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Killed):
            where = "".join(traceback.format_exception(error)[-3:]) if isinstance(error, BaseException) else ""
            self.unhandled.append(f"{context['message']}: {error!r} {where}")

    def call_soon(  # type: ignore[override]  # the same, without the type variable that links callback and arguments
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        step = self._step(callback, args, context)
        step.handle = super().call_soon(step, context=step.context)
        return step.handle

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        step = self._step(callback, args, context)
        step.handle = handle = super().call_at(when, step, context=step.context)
        return handle

    def _step(self, callback: Callable[..., object], arguments: tuple[Any, ...], context: Context | None) -> _Step:
        context = copy_context() if context is None else context
        # What is on its way on the network arrives, whatever becomes of who sent it.
        body = None if getattr(callback, "__module__", "") == memory.__name__ else context.get(_body)
        return _Step(self, body, callback, arguments, context)

    def bury(self, bodies: list[Body]) -> None:
        """Let the tasks of dead processes end, after everything was looked at: else they would end at random."""
        for body in bodies:
            body.dead, body.fuse = False, None
            body.thaw()
        for _ in range(100):
            left = [task for body in bodies for task in body.running()]
            if not left:
                return
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.sleep(0.001))


class _Step:
    """A callback of one body."""

    __slots__ = ("arguments", "body", "callback", "context", "handle", "loop")

    def __init__(
        self,
        loop: VirtualLoop,
        body: Body | None,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context,
    ) -> None:
        self.loop = loop
        self.body = body
        self.callback = callback
        self.arguments = arguments
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        self.loop.jump.callbacks += 1
        body = self.body
        if body is not None:
            if body.fuse is not None and not body.frozen:
                body.fuse -= 1
                if body.fuse <= 0:
                    body.fuse = None
                    body.on_fuse()
            if body.dead or body.frozen:
                body.held.append(self)
                return
        self.callback(*self.arguments)

    def schedule(self) -> None:
        """Run what was held back, unless it was cancelled meanwhile."""
        before = self.handle
        assert before is not None, "what is held back was called"
        asyncio.SelectorEventLoop.call_soon(self.loop, self._unless_cancelled, before, context=self.context)

    def _unless_cancelled(self, before: asyncio.Handle) -> None:
        if not before.cancelled():
            self()


def _remember(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **options)
    body = (options.get("context") or copy_context()).get(_body)
    if body is not None:
        body.tasks[task] = None
        task.add_done_callback(lambda done: body.tasks.pop(done, None))
    return task


class _Jump(selectors.BaseSelector):
    """Watches no file; waiting moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.callbacks = 0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[number] = key = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits for somebody else, for ever"
        assert self.callbacks < CALLBACKS_MAX, "the simulation goes round in circles"
        self.now += max(timeout, 0.0)
        return []
