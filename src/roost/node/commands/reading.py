"""Commands that read sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.adapters.store.records import DocumentRow, Row
from roost.core.heads import EntryHead
from roost.core.ids import DocumentId
from roost.node.commands import Rows, parse
from roost.node.transcript import Json, Transcript, branch_of, entry_json, iso
from roost.node.verification import verify_document

if TYPE_CHECKING:
    from roost.node.peer import Peer

DEFAULT_LIMIT = 50


class Log(Struct):
    session: str
    limit: int | None = None
    after: str | None = None
    before: str | None = None
    all: bool = False


async def log(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    """Oldest first. Without --after the newest ``limit`` entries; --all is without limit."""
    wanted = parse(arguments, Log)
    document = peer.sessions.resolve(wanted.session)
    replica = peer.documents.get(document)
    for row in _chosen(peer, document, wanted):
        yield entry_json(row, hidden=replica.hides(row.operation.id))


def _chosen(peer: Peer, document: DocumentId, wanted: Log) -> Iterator[Row]:
    transcript = Transcript(peer.store, document)
    branch = None if wanted.all else transcript.current_branch()
    after = None if wanted.after is None else peer.sessions.entry(document, wanted.after)
    before = None if wanted.before is None else peer.sessions.entry(document, wanted.before)
    limit = wanted.limit if wanted.limit is not None or wanted.all else DEFAULT_LIMIT
    if after is not None or limit is None:
        rows = transcript.oldest_first(branch, after)
        end = None if before is None else before.operation.id
        return islice(_until(rows, end), limit)
    newest = list(islice(transcript.newest_first(branch, before), limit))
    return reversed(newest)


def _until(rows: Iterator[Row], end: bytes | None) -> Iterator[Row]:
    for row in rows:
        if row.operation.id == end:
            return
        yield row


class Follow(Struct):
    session: str
    n: int = 20


async def follow(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    """The newest entries of the current branch, then every new one as it is committed."""
    wanted = parse(arguments, Follow)
    document = peer.sessions.resolve(wanted.session)
    cursor = peer.store.reader.last_cursor()
    transcript = Transcript(peer.store, document)
    branch = transcript.current_branch()
    for row in reversed(list(islice(transcript.newest_first(branch, None), max(wanted.n, 0)))):
        yield entry_json(row, hidden=peer.documents.get(document).hides(row.operation.id))
    async for notice in peer.notices.subscribe(cursor, document):
        if notice.kind != "entry":
            continue
        found = peer.store.reader.operation(notice.operation)
        if found is None or not isinstance(found.operation.head, EntryHead):
            continue
        if found.operation.head.type == "select":
            branch = transcript.current_branch()
        if branch_of(found.operation.id, found.operation.head) == branch:
            shown = entry_json(found, hidden=peer.documents.get(document).hides(found.operation.id))
            if notice.what in ("withdrawn", "erased"):
                shown[notice.what] = True
            yield shown


class Sessions(Struct):
    all: bool = False


async def sessions(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Sessions)
    rows = [row for row in peer.store.reader.documents() if row.kind == "session"]
    for row in sorted(rows, key=lambda row: row.updated, reverse=True):
        if row.mode == "persistent" or (wanted.all and row.mode in ("incognito", "temporary")):
            yield session_json(peer, row)
    if wanted.all and peer.has_temporary:
        async for shown in sessions(peer.temporary, arguments):
            yield shown


def session_json(peer: Peer, row: DocumentRow) -> dict[str, Json]:
    record = peer.registry.session(row.id)
    return {
        "session": row.id.hex(),
        "name": peer.registry.name_of(row.id),
        "kind": row.kind,
        "mode": row.mode,
        "entries": row.entries,
        "role": peer.role_in(row.id),
        "updated": iso(row.updated),
        "origin": "sync" if record is None else record.origin,
    }


class OfSession(Struct):
    session: str


async def state(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    document = peer.sessions.resolve(parse(arguments, OfSession).session)
    yield await peer.states.json(document)


async def heads(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    document = peer.sessions.resolve(parse(arguments, OfSession).session)
    replica = peer.documents.get(document)
    row = peer.store.reader.document(document)
    assert row is not None
    yield {
        "session": document.hex(),
        "heads": [head.hex() for head in replica.document.heads],
        "operations": row.operations,
        "void": row.void,
        "parked": replica.parked_count() + peer.links.parked(document),
    }


class Status(Struct):
    session: str | None = None


async def status(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Status)
    if wanted.session is None:
        rows = [row for row in peer.store.reader.documents() if row.kind == "session"]
        yield {
            "peer": peer.key.public.hex(),
            "name": peer.name,
            "running": peer.url is not None,
            "url": peer.url,
            "sessions": len(rows),
            "links": peer.links.rows(),
        }
        return
    document = peer.sessions.resolve(wanted.session)
    row = peer.store.reader.document(document)
    assert row is not None
    shown = session_json(peer, row)
    last_sync = peer.links.last_sync(document)
    yield {
        **{name: shown[name] for name in ("session", "name", "kind", "mode", "role", "entries")},
        "operations": row.operations,
        "links": peer.links.rows(document),
        "last_sync": None if last_sync is None else iso(last_sync),
    }


async def verify(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    document = peer.sessions.resolve(parse(arguments, OfSession).session)
    yield await verify_document(peer.store, document)


COMMANDS = {
    "log": log,
    "follow": follow,
    "sessions": sessions,
    "state": state,
    "heads": heads,
    "status": status,
    "verify": verify,
}
