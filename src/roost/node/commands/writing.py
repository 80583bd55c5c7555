"""Commands that write into sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.core.errors import NameTaken, NotRunning, RoostError, Usage
from roost.core.ids import DocumentId
from roost.node.commands import Rows, parse
from roost.node.sessions import NewEntry
from roost.node.transcript import Json

if TYPE_CHECKING:
    from roost.node.peer import Peer

LINES_MAX = 1000


class Init(Struct):
    name: str | None = None


async def init(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Init).name
    if wanted is not None:
        await peer.rename(wanted)
    yield {"peer": peer.key.public.hex(), "name": peer.name, "home": str(peer.home or "")}


class New(Struct):
    name: str | None = None
    mode: str = "persistent"


async def new(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, New)
    if wanted.mode not in ("persistent", "incognito", "temporary"):
        raise Usage("a mode is persistent, incognito or temporary")
    if wanted.mode == "temporary":
        if peer.url is None:
            raise NotRunning("a temporary session lives in the memory of a running peer")
        if wanted.name is not None and peer.registry.by_name(wanted.name) is not None:
            raise NameTaken(wanted.name)
        peer = peer.temporary
    replica = await peer.sessions.create(wanted.name, wanted.mode)
    if wanted.name is not None:
        await peer.states.put(replica.id, "meta", "name", wanted.name)
    yield {"session": replica.id.hex(), "name": peer.registry.name_of(replica.id)}


class Send(Struct):
    session: str
    content: str
    type: str = "message"
    sender: str | None = None
    key: str | None = None
    parent: str | None = None
    data: str | None = None


async def send(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Send)
    document = peer.sessions.resolve(wanted.session)
    entry = await peer.sessions.send(document, _new_entry(peer, document, wanted))
    yield {"session": document.hex(), "entry": entry.hex()}


def _new_entry(peer: Peer, document: DocumentId, wanted: Send) -> NewEntry:
    parent = None if wanted.parent is None else peer.sessions.entry(document, wanted.parent).operation.id
    if wanted.data is not None:
        try:
            json.loads(wanted.data)
        except (ValueError, RecursionError) as error:
            raise Usage(f"data is not JSON: {error}") from error
    sender = peer.name if wanted.sender is None else wanted.sender
    return NewEntry(wanted.content, wanted.type, sender, wanted.key, parent, wanted.data)


class SendLines(Struct):
    session: str
    lines: list[dict[str, object]]
    sender: str | None = None


class Line(Struct):
    content: str
    type: str = "message"
    sender: str | None = None
    parent: str | None = None
    key: str | None = None


async def send_lines(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    """Several entries in turn, each acknowledged after its commit."""
    wanted = parse(arguments, SendLines)
    if len(wanted.lines) > LINES_MAX:
        raise Usage(f"at most {LINES_MAX} lines at once")
    document = peer.sessions.resolve(wanted.session)
    for raw in wanted.lines:
        line = parse(raw, Line)  # type: ignore[arg-type]
        sender = line.sender if line.sender is not None else wanted.sender
        one = Send(wanted.session, line.content, line.type, sender, line.key, line.parent)
        entry = await peer.sessions.send(document, _new_entry(peer, document, one))
        yield {"session": document.hex(), "entry": entry.hex()}


class Name(Struct):
    session: str
    name: str


async def name(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Name)
    document = peer.sessions.resolve(wanted.session)
    await peer.sessions.rename(document, wanted.name)
    if peer.documents.get(document).may_write():
        await peer.states.put(document, "meta", "name", wanted.name)
    yield {"session": document.hex(), "name": peer.registry.name_of(document)}


class Set(Struct):
    session: str
    path: str
    value: str | int | float | bool | None


async def set_value(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Set)
    document = peer.sessions.resolve(wanted.session)
    container, dot, key = wanted.path.partition(".")
    if not dot or not container or not key:
        raise Usage("a path is map.key, such as meta.topic or tags.urgent")
    await peer.states.put(document, container, key, wanted.value)
    yield {"session": document.hex(), "path": wanted.path, "value": wanted.value}


class Import(Struct):
    path: str
    format: str = "auto"


async def import_path(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Import)
    try:
        row = await peer.importer.import_file(Path(wanted.path), wanted.format)
    except OSError as error:
        raise RoostError(f"{wanted.path}: {error.strerror}") from error
    title = peer.registry.name_of(DocumentId(bytes.fromhex(str(row["session"]))))
    yield {**row, "name": title}


COMMANDS = {
    "init": init,
    "new": new,
    "send": send,
    "send_lines": send_lines,
    "name": name,
    "set": set_value,
    "import": import_path,
}
