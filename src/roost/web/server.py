"""The peer's HTTP side: what it routes, where it listens, and the file that tells this machine's programs where.

Every route has one way to be allowed: none, the token of the data directory, or a peer's signature.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aiohttp import web

from roost.adapters.carriers.carrier import (
    HEARTBEAT_SECONDS,
    LINK_PATH,
    PEER_PATHS,
    REQUEST_BYTES_MAX,
    Acceptor,
)
from roost.adapters.carriers.websocket import CLOSE_SECONDS_MAX, MESSAGE_BYTES_MAX, SocketWire
from roost.adapters.signatures import VerifiedRequest
from roost.core.errors import Malformed, RoostError
from roost.web.api import BoundCommand, LocalApi
from roost.web.guard import PeerGate, read_body
from roost.web.listener import CONNECTIONS_MAX, Budget, check_exposure, listen, url_of

API_NAME: Final = "api.json"  # in the data directory, while a peer runs on it
TOKEN_BYTES: Final = 32
STOP_SECONDS_MAX: Final = 3.0  # for requests that are being answered

Auth: TypeAlias = Literal["none", "token", "peer"]
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
_AUTH: Final = web.AppKey("auth", dict[Handler, Auth])


class PeerServer:
    """Serves one peer: to others by signature, to its own machine by token."""

    def __init__(
        self,
        *,
        home: Path,
        peer: str,
        token: str,
        gate: PeerGate,
        acceptor: Acceptor,
        commands: Mapping[str, BoundCommand],
        ready: Callable[[], bool],
    ) -> None:
        """peer is the key as hex; token, from TOKEN_BYTES random bytes, is for this run of the process."""
        self._home = home
        self._peer = peer
        self._token = token
        self._gate = gate
        self._acceptor = acceptor
        self._ready = ready
        self._api = LocalApi(commands, token, peer)
        self._listening: list[asyncio.Server] = []
        self.app: Final = self._application()
        self._runner = web.AppRunner(self.app, handle_signals=False, shutdown_timeout=STOP_SECONDS_MAX)

    async def start(
        self, listens: Sequence[tuple[str, int]], *, behind_proxy: bool = False, insecure: bool = False
    ) -> list[str]:
        """Listen at (host, port) each, port 0 being any, and privately for the local API; returns the URLs bound.

        When it cannot listen at one of them it listens at none. Raises Usage, Conflict, Denied.
        """
        check_exposure(listens, behind_proxy=behind_proxy, insecure=insecure)
        await self._runner.setup()
        try:
            of_one = {"of_one": CONNECTIONS_MAX} if behind_proxy else {}
            urls = [url for host, port in listens for url in await self._listen(host, port, Budget(**of_one))]
            (private,) = await self._listen("127.0.0.1", 0, Budget(of_one=CONNECTIONS_MAX))
            self._tell_where(private)
        except BaseException:
            await self.stop()
            raise
        return urls

    async def stop(self) -> None:
        """Stop listening and end what is being served. Links are the node's to close before."""
        self._forget_where()
        for server in self._listening:
            server.close()
        await self._api.stop()
        await self._runner.cleanup()
        await asyncio.sleep(0)  # sockets are closed one turn of the loop after their transports

    async def _listen(self, host: str, port: int, budget: Budget) -> list[str]:
        assert self._runner.server is not None
        listening = await listen(self._runner.server, host, port, budget)
        self._listening.append(listening)
        return [url_of(*bound.getsockname()[:2]) for bound in listening.sockets]

    # --- where this machine's programs find it --------------------------------------------------------------------

    def _tell_where(self, url: str) -> None:
        """Write the file whole or not at all, readable by its owner alone."""
        text = json.dumps({"url": url, "token": self._token, "pid": os.getpid(), "peer": self._peer})
        new = self._home / f"{API_NAME}.{os.getpid()}.new"
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(self._home / API_NAME)

    def _forget_where(self) -> None:
        """Remove the file, if it is this server's."""
        path = self._home / API_NAME
        with suppress(OSError, ValueError):
            if json.loads(path.read_bytes()).get("token") == self._token:
                path.unlink()

    # --- routes ----------------------------------------------------------------------------------------------------

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[_typed_refusals])
        app[_AUTH] = {}
        _route(app, "GET", "/healthz", "none", self._health)
        _route(app, "GET", "/readyz", "none", self._readiness)
        _route(app, "GET", LINK_PATH, "peer", self._link)
        for path in sorted(PEER_PATHS):
            _route(app, "POST", path, "peer", self._request)
        _route(app, "POST", "/api/v1/{command}", "token", self._api.handle)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def _readiness(self, _request: web.Request) -> web.Response:
        ready = self._ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _request(self, request: web.Request) -> web.Response:
        if busy := self._gate.too_busy(request):
            return busy
        try:
            body = await read_body(request, REQUEST_BYTES_MAX)
            verified = self._gate.verify(request, body)
            status, answer = await self._acceptor.on_request(verified.peer, request.path, body, verified.nonce)
        except RoostError as error:
            return self._gate.refuse(request, error)
        return self._gate.answer(verified, status, answer)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        if busy := self._gate.too_busy(request):
            return busy
        upgraded = web.WebSocketResponse(
            compress=False, max_msg_size=MESSAGE_BYTES_MAX, heartbeat=HEARTBEAT_SECONDS, timeout=CLOSE_SECONDS_MAX
        )
        try:
            if not upgraded.can_prepare(request):
                raise Malformed("a link begins as a WebSocket")
            verified = self._gate.verify(request, b"")
        except RoostError as error:
            return self._gate.refuse(request, error)
        upgraded.headers.update(self._gate.sign(verified.signature, 101, b""))
        await upgraded.prepare(request)
        await self._serve(upgraded, verified, request.remote or "")
        return upgraded

    async def _serve(self, upgraded: web.WebSocketResponse, verified: VerifiedRequest, address: str) -> None:
        wire = SocketWire(upgraded, peer=verified.peer, dialled=False, address=address)
        code = ""
        try:
            await self._acceptor.on_wire(wire)
        except RoostError as error:
            code = error.code
        finally:
            await wire.close(code)


def routes(app: web.Application) -> list[dict[str, str]]:
    """Every route as ``roost routes`` shows it."""
    return [
        {"method": route.method, "path": route.resource.canonical, "auth": app[_AUTH][route.handler]}
        for route in app.router.routes()
        if route.resource is not None
    ]


def _route(app: web.Application, method: str, path: str, auth: Auth, handler: Handler) -> None:
    app[_AUTH][app.router.add_route(method, path, handler).handler] = auth


@web.middleware
async def _typed_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What the router itself refuses, in the form that everything else has."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        code = {404: "not_found", 405: "usage"}.get(error.status, "bad_request")
        return web.json_response({"code": code, "detail": error.reason}, status=error.status)
