"""Import: another agent's transcript file becomes a session, line by line, branch by branch, once.

The file is read twice as a stream, never held: first for its shape (which entries lie on the way to where its user
left off: that way is the session's first branch), then for its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard
from msgspec import Struct

from roost.adapters.store.rows import origin_hash
from roost.adapters.store.store import Store
from roost.core.errors import NotFound, NothingUsable, Usage
from roost.core.heads import Origin
from roost.core.ids import OperationId
from roost.formats.lines import ImportedEntry, Skipped, Warned
from roost.formats.pi import PiReader, looks_like_pi, read_pi
from roost.node.documents import Documents
from roost.node.registry import Registry
from roost.node.replica import Replica
from roost.node.sessions import NewEntry, Sessions
from roost.node.states import States
from roost.node.transcript import Json

CHUNK_ENTRIES = 200  # per commit: signing them holds the loop for some 20 ms
FIRST_BYTES = 4096
WARNINGS_MAX = 1000
PACKED_FROM_BYTES = 64 << 10  # longer lines are kept under zstd
TEXT_BYTES_MAX = 256 << 10  # of what a person reads of one line
PACKED_BYTES_MAX = 640 << 10  # with the text and the head below what an entry may hold

_compressor = zstandard.ZstdCompressor(level=3)


class Shape(Struct):
    """What the first pass finds."""

    session: str
    title: str | None
    main: set[str]  # positions on the way from the root to where the file's user left off
    entries: int


class Tally(Struct):
    entries: int = 0
    existing: int = 0
    skipped: int = 0
    warnings: list[Json] = []


class Importer:
    """Brings transcript files into sessions."""

    def __init__(
        self, store: Store, documents: Documents, sessions: Sessions, registry: Registry, states: States
    ) -> None:
        self._store = store
        self._documents = documents
        self._sessions = sessions
        self._registry = registry
        self._states = states

    async def import_file(self, path: Path, tool: str = "auto") -> dict[str, Json]:
        """Import one file; the row that ``roost import`` prints. Raises NotFound, NothingUsable, Usage."""
        if not path.is_file():  # noqa: ASYNC240  # files are read here in the loop, in small steps
            raise NotFound(str(path))
        with path.open("rb") as stream:
            tool = _detect(stream, tool, path)
            shape = _shape(read_pi(stream))
            stream.seek(0)
            replica = await self._session(tool, shape)
            lines = Lines(self._store, self._sessions, replica, shape)
            for chunk in _chunks(read_pi(stream)):
                await lines.take(chunk)
        tally = lines.tally
        return {
            "path": str(path),
            "format": tool,
            "session": replica.id.hex(),
            "entries": tally.entries,
            "skipped": tally.skipped,
            "existing": tally.existing,
            "warnings": tally.warnings[:WARNINGS_MAX],
        }

    async def _session(self, tool: str, shape: Shape) -> Replica:
        """The session that holds this transcript already, own or synced, or a new one."""
        origin = f"{tool}:{shape.session}"
        for row in self._store.reader.documents_by_origin(origin):
            replica = self._documents.get(row.id)
            if replica.document.open:
                return replica
        replica = await self._sessions.create(None, origin=origin, source=tool)
        wanted = _name(tool, shape)
        name = self._registry.acceptable(wanted, replica.id) or self._registry.free_name(f"{tool} {wanted}", replica.id)
        await self._sessions.rename(replica.id, name)
        await self._states.put(replica.id, "meta", "name", wanted)
        return replica


class Lines:
    """Writes imported lines: finds the branch that each one continues, or opens one."""

    def __init__(self, store: Store, sessions: Sessions, replica: Replica, shape: Shape) -> None:
        self.tally = Tally()
        self._store = store
        self._sessions = sessions
        self._replica = replica
        self._main = shape.main
        self._ids: dict[str, OperationId] = {}
        self._branches: dict[str, bytes] = {}
        self._tips: dict[bytes, str] = {}

    async def take(self, chunk: list[ImportedEntry | Skipped | Warned]) -> None:
        """One chunk of the file, in one commit."""
        entries = [item for item in chunk if isinstance(item, ImportedEntry)]
        before = self._existing(entries)
        writing = self._replica.begin()
        for item in chunk:
            if isinstance(item, ImportedEntry):
                known = before.get(_origin_hash(item))
                if known is None:
                    self._note(item, writing.add("entry", *self._encode(item)).id)
                    self.tally.entries += 1
                else:
                    self._note(item, known)
                    self.tally.existing += 1
                continue
            if isinstance(item, Skipped):
                self.tally.skipped += 1
            self.tally.warnings.append({"offset": item.offset, "reason": item.reason})
        await writing.commit()

    def _existing(self, entries: Iterable[ImportedEntry]) -> dict[bytes, OperationId]:
        found = self._store.reader.by_origin(self._replica.id, [_origin_hash(entry) for entry in entries])
        return {line.origin: line.operation for line in found if line.accepted}

    def _encode(self, entry: ImportedEntry) -> tuple[bytes, bytes]:
        parent = None if entry.parent is None else self._ids.get(entry.parent)
        branch, opens = self._branch(entry)
        new = NewEntry(
            entry.content,
            entry.type,
            entry.sender,
            parent=parent,
            branch=branch,
            opens_branch=opens,
            origin=_origin(entry),
            at=entry.at or None,
            raw=entry.raw,
        )
        if len(entry.raw) > PACKED_FROM_BYTES:
            new = self._packed(new, entry)
        return self._sessions.encode(self._replica, new)

    def _packed(self, new: NewEntry, entry: ImportedEntry) -> NewEntry:
        """A long line: its text is cut, its bytes are kept under zstd; what is too long even so is kept in part."""
        text = entry.content.encode()
        if len(text) > TEXT_BYTES_MAX:
            text = text[:TEXT_BYTES_MAX]
        raw = entry.raw
        packed = _compressor.compress(raw)
        if len(packed) > PACKED_BYTES_MAX:
            packed = _compressor.compress(raw[: PACKED_BYTES_MAX // 2])
            reason = (
                f"a line of {len(raw)} bytes is larger than an entry may be: its first {PACKED_BYTES_MAX // 2} are kept"
            )
            self.tally.warnings.append({"offset": entry.offset, "reason": reason})
        content = text.decode(errors="ignore")
        return msgspec.structs.replace(new, content=content, raw=None, packed=packed)

    def _branch(self, entry: ImportedEntry) -> tuple[bytes, bool]:
        """(branch, whether this entry opens it)."""
        if entry.origin.position in self._main:
            return b"", False
        if entry.parent is None:
            return b"", bool(self._tips) or bool(self._main)
        branch = self._branches.get(entry.parent, b"")
        continues = branch != b"" and self._tips.get(branch) == entry.parent
        return branch, not continues

    def _note(self, entry: ImportedEntry, identity: OperationId) -> None:
        branch, opens = self._branch(entry)
        branch = bytes(identity) if opens else branch
        position = entry.origin.position
        self._ids[position] = identity
        self._branches[position] = branch
        self._tips[branch] = position


def _detect(stream: BinaryIO, tool: str, path: Path) -> str:
    if tool not in ("auto", "pi"):
        raise Usage(f"format {tool} is not known; known: auto, pi")
    first = stream.read(FIRST_BYTES)
    stream.seek(0)
    if tool == "auto" and first.strip() and not looks_like_pi(first):
        raise NothingUsable(f"{path}: no format that roost knows")
    return "pi"


def _shape(reader: PiReader) -> Shape:
    """Read the whole file once for its tree. Raises NothingUsable."""
    parents: dict[str, str | None] = {}
    leaf: str | None = None
    session = ""
    for item in reader:
        if not isinstance(item, ImportedEntry):
            continue
        session = item.origin.session
        parents[item.origin.position] = item.parent
        leaf = item.origin.position
        if item.type == "select" and item.target is not None:
            leaf = item.target
    main: set[str] = set()
    while leaf is not None and leaf not in main:
        main.add(leaf)
        leaf = parents.get(leaf)
    if not session:
        header = reader.header
        session = "" if header is None else header.session
    return Shape(session, reader.title, main, len(parents))


def _name(tool: str, shape: Shape) -> str:
    title = "".join(character if character.isprintable() else " " for character in shape.title or "").strip()
    return title[:80] or f"{tool} {shape.session[:13] or 'transcript'}"


def _chunks(reader: Iterable[ImportedEntry | Skipped | Warned]) -> Iterator[list[ImportedEntry | Skipped | Warned]]:
    chunk: list[ImportedEntry | Skipped | Warned] = []
    for item in reader:
        chunk.append(item)
        if len(chunk) == CHUNK_ENTRIES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _origin(entry: ImportedEntry) -> Origin:
    return Origin(entry.origin.tool, entry.origin.session, entry.origin.position)


def _origin_hash(entry: ImportedEntry) -> bytes:
    return origin_hash(_origin(entry))
