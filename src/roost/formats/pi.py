"""Session files of the pi coding agent: v3 and the older v1 and v2, the harness dialect, and the entries of v4.

The rule for every file: entries + skipped = lines that are not blank - headers. So unknown types, lines of other
programs and lines with broken links are kept; only what is no JSON object is skipped, by byte offset.

Origins. ``session`` is the id in the file's first header; a file that begins without one is named after the hash of its
first usable line, which growing, tearing off the tail or damage before that line leave as it is. A fork made by pi has
a new session id and so other origins. ``position`` is the entry's own id; a repeated id gets ``#2``, ``#3`` in file
order; a line without id is named after the hash of its bytes. pi gives a v1 file ids when it opens it, at random: the
file before and after that shares no origins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from roost.core.errors import Malformed, NothingUsable
from roost.formats.lines import (
    LINE_BYTES_MAX,
    ImportedEntry,
    JsonValue,
    Line,
    Origin,
    Skipped,
    Warned,
    parse_json,
    read_lines,
)
from roost.formats.pi_text import entry_type, readable, sender

TOOL = "pi"
NAME_BYTES_MAX = 200  # origins stand in an operation's head of at most 16 KiB; the hash of a longer id stands for it
MICROSECONDS_END = 1 << 53  # later times do not fit the format's integers

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TARGETS = {
    "compaction": "firstKeptEntryId",
    "branch_summary": "fromId",
    "label": "targetId",
    "context_edit": "targetId",
    "leaf": "targetId",
}

Record = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class PiHeader:
    """The file's first header. session: as in the origins; parent_session: a path or an id, as the file has it."""

    session: str
    version: int
    at: int
    cwd: str
    parent_session: str | None
    raw: bytes


def looks_like_pi(first_bytes: bytes) -> bool:
    """Whether the beginning of a file (some KiB) holds a header or an entry as pi writes them."""
    for raw in first_bytes.split(b"\n"):
        try:
            value = parse_json(raw).value
        except Malformed:
            continue
        if isinstance(value, dict) and (_is_header(value) or _is_own_entry(value)):
            return True
    return False


def read_pi(stream: BinaryIO, line_bytes_max: int = LINE_BYTES_MAX) -> PiReader:
    return PiReader(stream, line_bytes_max)


class PiReader:
    """Reads a stream once, in file order, and keeps of each entry only its id.

    header, title (the newest session name; None if cleared) and the counts hold for what has been read so far.
    Iterating ends with NothingUsable if there was neither a header nor an entry.
    """

    def __init__(self, stream: BinaryIO, line_bytes_max: int) -> None:
        self._lines = read_lines(stream, line_bytes_max)
        self._session: str | None = None
        self._tree = _Tree()
        self._ordinals: list[str | None] = []  # v1 only: what firstKeptEntryIndex counts, the header included
        self.header: PiHeader | None = None
        self.title: str | None = None
        self.headers = 0
        self.entries = 0
        self.skipped = 0

    def __iter__(self) -> Iterator[ImportedEntry | Skipped | Warned]:
        for line in self._lines:
            item = line if isinstance(line, Skipped) else self._read(line)
            match item:
                case Skipped():
                    self.skipped += 1
                    yield item
                case _Kept(entry, warnings):
                    self.entries += 1
                    yield from warnings
                    yield entry
                case None:
                    self.headers += 1
        if self.headers + self.entries == 0:
            raise NothingUsable(f"lines that are no JSON objects: {self.skipped}" if self.skipped else "it is empty")

    def _read(self, line: Line) -> _Kept | Skipped | None:
        """None for a header."""
        try:
            parsed = parse_json(line.raw)
        except Malformed as fault:
            return Skipped(line.offset, fault.detail if line.ended else f"incomplete last line: {fault.detail}")
        transaction = _Transaction.of(parsed.value)
        if transaction is None:
            return Skipped(line.offset, "not a JSON object")
        if _is_header(transaction.fields):
            self._take_header(transaction.fields, line.raw)
            return None
        warnings = ["not valid UTF-8: U+FFFD stands where it was not"] if parsed.repaired else []
        entry = self._take_entry(transaction, line, warnings)
        return _Kept(entry, [Warned(line.offset, reason) for reason in warnings])

    def _take_header(self, fields: Record, raw: bytes) -> None:
        if self.header is None:
            session = self._name_session(fields.get("id"), raw)
            self.header = _header(fields, session, raw)
        self._ordinals.append(None)

    def _name_session(self, id_: JsonValue, raw: bytes) -> str:
        """Fixed by the first line that is used, so that what comes later changes no origin."""
        if self._session is None:
            self._session = _bounded(id_) if isinstance(id_, str) and id_ else _hash_name("headerless", raw)
        return self._session

    def _take_entry(self, transaction: _Transaction, line: Line, warnings: list[str]) -> ImportedEntry:
        fields, raw = transaction.fields, line.raw
        session = self._name_session(None, raw)
        parent = self._parent(fields, warnings)
        position = self._position(transaction.ids, raw, warnings)
        self._tree.add(position, transaction.ids, parent, aside=_stands_aside(fields))
        if self.header is None or self.header.version == 1:
            self._ordinals.append(position)
        self._take_title(transaction.writes)

        type_ = entry_type(fields)
        target = self._target(fields, warnings)
        if type_ == "select" and target is None and fields.get("targetId") is not None:
            type_ = "custom"  # it selects nothing that is here; None would select the root
        return ImportedEntry(
            origin=Origin(TOOL, session, position),
            parent=parent,
            target=target,
            type=type_,
            at=_time(fields),
            sender=sender(fields),
            content=readable(fields),
            data=transaction.data,
            raw=raw,
            offset=line.offset,
        )

    def _parent(self, fields: Record, warnings: list[str]) -> str | None:
        last = self._tree.last
        if "parentId" not in fields:
            if "id" in fields and "kind" not in fields:
                warnings.append("it names no parent: it continues the entry before it")
            return last
        parent_id = fields["parentId"]
        if parent_id is None:
            return None if self._tree.rooted else last
        parent = self._tree.find(parent_id)
        if parent is None:
            warnings.append("its parent is not among the entries before it: it continues the one before it")
            return last
        return self._tree.newest_aside(parent)

    def _position(self, ids: list[str], raw: bytes, warnings: list[str]) -> str:
        if not ids:
            return self._tree.claim(_hash_name("line", raw))
        if self._tree.find(ids[0]) is not None:
            warnings.append("its id occurred before")
        return self._tree.claim(_bounded(ids[0]))

    def _target(self, fields: Record, warnings: list[str]) -> str | None:
        type_ = fields.get("type")
        index = fields.get("firstKeptEntryIndex")
        if type_ == "compaction" and isinstance(index, int) and 0 <= index < len(self._ordinals):
            return self._ordinals[index]
        key = _TARGETS.get(type_) if isinstance(type_, str) else None
        named = fields.get(key) if key else None
        target = self._tree.find(named)
        if named is not None and target is None and type_ != "branch_summary":  # a fork leaves that branch behind
            warnings.append(f"{key} is not among the entries before it")
        return target

    def _take_title(self, writes: list[Record]) -> None:
        for write in writes:
            if write.get("type") == "session_info":
                name = write.get("name")
            elif write.get("namespace") == "pi.session.name":
                name = write.get("value", "")
            else:
                continue
            if isinstance(name, str):
                self.title = name or None


@dataclass(frozen=True, slots=True)
class _Kept:
    entry: ImportedEntry
    warnings: list[Warned]


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A line's writes: one object, or in v4 a list of them, of which the first entry speaks for the line."""

    writes: list[Record]
    fields: Record
    ids: list[str]
    data: Mapping[str, JsonValue]

    @classmethod
    def of(cls, value: JsonValue) -> _Transaction | None:
        """None if it is neither."""
        match value:
            case dict():
                return cls([value], value, _ids([value]), value)
            case list():
                writes = [item for item in value if isinstance(item, dict) and isinstance(item.get("kind"), str)]
                if not writes or len(writes) < len(value):
                    return None
                entries = [write for write in writes if write["kind"] == "entry"]
                fields: Record = entries[0] if entries else {"kind": "transaction"}
                return cls(writes, fields, _ids(entries), {"writes": value})
            case _:
                return None


@dataclass(slots=True)
class _Tree:
    """Which position an id stands for, and what a later line continues.

    Some lines stand aside: they say something about the file (a leaf, another program's marker), but pi goes on from
    the entry they were put after. Whatever continues that entry later continues them, so that they open no branch.
    """

    last: str | None = None
    rooted: bool = False  # until then only asides came, and the first root continues them
    _positions: dict[str, str] = field(default_factory=dict)  # id -> position of its latest occurrence
    _taken: set[str] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _base: dict[str, str] = field(default_factory=dict)  # aside -> the entry it was put after
    _aside: dict[str, str] = field(default_factory=dict)  # entry -> the newest aside put after it

    def claim(self, name: str) -> str:
        """A position that no line before has: the name, or the name with a number."""
        count = self._counts.get(name, 0) + 1
        position = name if count == 1 else f"{name}#{count}"
        while position in self._taken:  # an id may itself look like a numbered one
            count += 1
            position = f"{name}#{count}"
        self._counts[name] = count
        self._taken.add(position)
        return position

    def add(self, position: str, ids: list[str], parent: str | None, *, aside: bool) -> None:
        for id_ in ids:
            self._positions[id_] = position
        self.rooted = self.rooted or not aside
        if aside and parent is not None:
            base = self._base.get(parent, parent)
            self._base[position] = base
            self._aside[base] = position
        self.last = position

    def find(self, id_: JsonValue) -> str | None:
        return self._positions.get(id_) if isinstance(id_, str) else None

    def newest_aside(self, position: str) -> str:
        return self._aside.get(self._base.get(position, position), position)


def _is_header(fields: Record) -> bool:
    return fields.get("type") == "session" or (fields.get("kind") == "header" and "v" in fields)


def _is_own_entry(fields: Record) -> bool:
    if fields.get("type") == "message" and isinstance(fields.get("message"), dict) and "uuid" not in fields:
        return True
    return entry_type(fields) != "custom" and isinstance(fields.get("id"), str) and "parentId" in fields


def _stands_aside(fields: Record) -> bool:
    return fields.get("type") == "leaf" or ("parentId" not in fields and ("id" not in fields or "kind" in fields))


def _ids(writes: list[Record]) -> list[str]:
    return [id_ for write in writes if isinstance(id_ := write.get("id"), str) and id_]


def _header(fields: Record, session: str, raw: bytes) -> PiHeader:
    version = fields.get("version", fields.get("v", 1))  # v1 wrote none
    parents = (fields.get(key) for key in ("parentSession", "parentSessionId", "branchedFrom"))
    cwd = fields.get("cwd")
    return PiHeader(
        session=session,
        version=version if isinstance(version, int) else 1,
        at=_microseconds(fields.get("timestamp")) or _microseconds(fields.get("createdAt")),
        cwd=cwd if isinstance(cwd, str) else "",
        parent_session=next((parent for parent in parents if isinstance(parent, str)), None),
        raw=raw,
    )


def _hash_name(kind: str, raw: bytes) -> str:
    return f"{kind}:{hashlib.sha256(raw.strip()).hexdigest()[:32]}"


def _bounded(name: str) -> str:
    encoded = name.encode()
    return name if len(encoded) <= NAME_BYTES_MAX else f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def _time(fields: Record) -> int:
    message = fields.get("message")
    inner = message.get("timestamp") if isinstance(message, dict) else None
    return _microseconds(fields.get("timestamp")) or _microseconds(inner)


def _microseconds(timestamp: JsonValue) -> int:
    """From an ISO string (UTC unless it says otherwise) or milliseconds since the epoch; 0 if it is neither."""
    match timestamp:
        case bool():
            return 0
        case int() | float():
            milliseconds = timestamp if 0 < timestamp < MICROSECONDS_END else 0  # before a float overflows
            microseconds = int(milliseconds * 1000)
        case str():
            try:
                moment = datetime.fromisoformat(timestamp)
            except ValueError:
                return 0
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
        case _:
            return 0
    return microseconds if 0 < microseconds < MICROSECONDS_END else 0
