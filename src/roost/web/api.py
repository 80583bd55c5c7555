"""The local API: a command's arguments as a JSON object in, its rows out as they come, one JSON object per line.

The last line is ``{"~end": true}`` or ``{"~error": {"code", "message", "detail", "exit"}}``; an answer without one was
cut off. A command may yield ``{"~warning": TEXT}`` and ``{"~progress": ...}`` between its rows.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

from aiohttp import web

from roost.core.errors import NotFound, NotRunning, RoostError, Usage
from roost.node.transcript import Json
from roost.web.guard import check_token, read_body
from roost.web.listener import on_lost

ARGUMENTS_BYTES_MAX: Final = 8 << 20  # a text of the largest operation, each byte of it escaped
PEER_FIELD: Final = "Roost-Peer"
FLUSH_BYTES: Final = 1 << 16  # rows that come without a pause between them are sent together

BoundCommand: TypeAlias = "Callable[[Mapping[str, Json]], AsyncIterator[Mapping[str, Json]]]"  # bound to its peer

_log = logging.getLogger(__name__)


class LocalApi:
    """Runs commands for programs of this machine that know the token."""

    def __init__(self, commands: Mapping[str, BoundCommand], token: str, peer: str) -> None:
        """peer is sent along, so that a caller notices when another process answers at an old address."""
        self._commands = commands
        self._token = token
        self._headers = {"Cache-Control": "no-store", PEER_FIELD: peer}
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            check_token(request, self._token)
            rows = await self._begin(request)
        except RoostError as error:
            return web.json_response(told(error), status=error.http_status, headers=self._headers)
        response = web.StreamResponse(headers=self._headers | {"Content-Type": "application/jsonl"})
        await response.prepare(request)
        lines = _Lines(response)
        running = asyncio.create_task(_pump(rows, lines))
        self._running.add(running)
        try:
            with on_lost(request, running.cancel):
                await asyncio.wait([running])
        finally:
            running.cancel()
            self._running.discard(running)
        await lines.put(_outcome(running, request))
        await lines.flush()
        return response

    async def stop(self) -> None:
        """End every command that still runs; its caller is told."""
        self._stopped = True
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _begin(self, request: web.Request) -> AsyncIterator[Mapping[str, Json]]:
        if self._stopped:
            raise NotRunning("it is being stopped")
        command = self._commands.get(request.match_info["command"])
        if command is None:
            raise NotFound("a command of that name; the running peer may be older than this program")
        return command(_arguments(await read_body(request, ARGUMENTS_BYTES_MAX)))


def told(error: BaseException) -> dict[str, Json]:
    """What a caller in another process needs to know of a failure: cli.client makes it an error again."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, RoostError):
        return {"code": error.code, "message": str(error), "detail": error.detail, "exit": error.exit_code}
    return {"code": RoostError.code, "message": f"{type(error).__name__}: {error}", "detail": "", "exit": 1}


def _arguments(body: bytes) -> Mapping[str, Json]:
    try:
        arguments = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Usage("the arguments are not JSON") from error
    if not isinstance(arguments, dict):
        raise Usage("the arguments are not a JSON object")
    return arguments


async def _pump(rows: AsyncIterator[Mapping[str, Json]], lines: _Lines) -> None:
    try:
        async for row in rows:
            await lines.put(row)
    finally:
        if isinstance(rows, AsyncGenerator):
            await rows.aclose()


def _outcome(running: asyncio.Task[None], request: web.Request) -> Mapping[str, Json]:
    """The last line of an answer."""
    if running.cancelled():
        return {"~error": told(NotRunning("it was stopped before the answer was complete"))}
    error = running.exception()
    if error is None:
        return {"~end": True}
    if not isinstance(error, RoostError):
        _log.error("the command %s failed", request.match_info["command"], exc_info=error)
    return {"~error": told(error)}


class _Lines:
    """Rows on their way to the caller: at once, but those that come without a pause between them in one piece."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response
        self._waiting = bytearray()
        self._writing: asyncio.Task[None] | None = None

    async def put(self, row: Mapping[str, Json]) -> None:
        self._waiting += json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(self._waiting) >= FLUSH_BYTES:
            await self.flush()
            await asyncio.sleep(0)  # a command that never waits must not stop everything else
        elif self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def flush(self) -> None:
        if self._writing is not None:
            await self._writing
        await self._write()

    async def _write(self) -> None:
        lines, self._waiting = self._waiting, bytearray()
        with suppress(ConnectionError):  # on_lost tells it
            if lines:
                await self._response.write(lines)
