"""Transcript files as lines: bytes of any quality in, JSON values and the records that every importer yields out.

Nothing here opens a file: a stream is read in chunks, and a line that is too long is passed over without being held.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, TypeAlias

from roost.core.errors import Malformed

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

CHUNK_BYTES = 64 << 10
LINE_BYTES_MAX = 64 << 20  # held once while it is parsed; the longest lines seen in the wild (images) are about 12 MiB
JSON_DEPTH_MAX = 100  # the parser and the walk below recurse; real lines nest about 10 deep
INTEGER_CHARACTERS_MAX = 20  # "-9223372036854775808"; beyond it, converting costs quadratic time and may be refused

_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an imported line comes from. Equal origins are the same line, also across peers and copies of a file."""

    tool: str
    session: str
    position: str


@dataclass(frozen=True, slots=True)
class ImportedEntry:
    """One line of a transcript.

    parent: position of the entry it continues, always one yielded before; None begins a tree of its own.
    target: position of the entry it speaks of (what a label names, a select selects, a summary keeps from), if any.
    type: an entry type of roost; "custom" for what the importer does not know.
    at: microseconds since the epoch by the author's wall clock, below 2^53; 0 if the line has no readable time.
    content: what a person reads of it, in valid UTF-8, of any length up to the line's.
    data: the line as parsed and made safe (see parse_json); raw: its very bytes, without the line ending.
    """

    origin: Origin
    parent: str | None
    target: str | None
    type: str
    at: int
    sender: str
    content: str
    data: Mapping[str, JsonValue]
    raw: bytes
    offset: int  # of the line's first byte in the file


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that was left out; offset is that of its first byte."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A line that was kept although something about it is wrong; comes just before its entry."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank. ended: a line feed followed it, so it is not torn."""

    offset: int
    raw: bytes
    ended: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    """repaired: the bytes were no valid UTF-8, and U+FFFD stands where they were not."""

    value: JsonValue
    repaired: bool


def read_lines(stream: BinaryIO, line_bytes_max: int = LINE_BYTES_MAX) -> Iterator[Line | Skipped]:
    """The lines of a stream that are not blank, without their LF or CRLF and without a byte order mark at the start."""
    chunk = _first_chunk(stream)
    start = len(_BOM) if chunk.startswith(_BOM) else 0
    line = _OpenLine(offset=start, bytes_max=line_bytes_max)
    while chunk:
        while (end := chunk.find(b"\n", start)) >= 0:
            line.add(chunk[start:end])
            yield from line.close(ended=True)
            line = _OpenLine(offset=line.offset + line.size + 1, bytes_max=line_bytes_max)
            start = end + 1
        line.add(chunk[start:])
        chunk, start = stream.read(CHUNK_BYTES), 0
    yield from line.close(ended=False)


def _first_chunk(stream: BinaryIO) -> bytes:
    """Long enough to tell whether it begins with a byte order mark."""
    chunk = stream.read(CHUNK_BYTES)
    while len(chunk) < len(_BOM) and (more := stream.read(CHUNK_BYTES)):
        chunk += more
    return chunk


@dataclass(slots=True)
class _OpenLine:
    offset: int
    bytes_max: int
    size: int = 0
    blank: bool = True
    held: bytearray = field(default_factory=bytearray)

    def add(self, part: bytes) -> None:
        self.size += len(part)
        self.blank = self.blank and not part.strip()
        if self.size <= self.bytes_max:
            self.held += part
        else:
            self.held = bytearray()

    def close(self, *, ended: bool) -> Iterator[Line | Skipped]:
        if self.blank:
            return
        if self.size > self.bytes_max:
            yield Skipped(self.offset, f"longer than {self.bytes_max} bytes ({self.size})")
            return
        yield Line(self.offset, bytes(self.held).removesuffix(b"\r"), ended)


def parse_json(raw: bytes) -> Parsed:
    """One JSON value, safe to store: valid UTF-8 throughout, integers within 64 bits, finite floats, bounded depth.

    U+FFFD replaces lone surrogates; a number out of range becomes the string of its digits. Raises Malformed with the
    reason for anything else, NaN and Infinity among it.
    """
    text = raw.removeprefix(_BOM).decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant)
        return Parsed(_safe(value, depth=0), repaired="\ufffd" in text and not _is_utf8(raw))
    except json.JSONDecodeError as fault:
        raise Malformed(f"not JSON, character {fault.pos}: {fault.msg}") from None
    except RecursionError:
        raise Malformed(f"nested deeper than {JSON_DEPTH_MAX}") from None


def _safe(value: object, depth: int) -> JsonValue:
    if depth > JSON_DEPTH_MAX:
        raise Malformed(f"nested deeper than {JSON_DEPTH_MAX}")
    match value:
        case str():
            return _LONE_SURROGATE.sub("\ufffd", value)
        case None | bool() | int() | float():
            return value
        case list():
            return [_safe(item, depth + 1) for item in value]
        case dict():
            return {_LONE_SURROGATE.sub("\ufffd", key): _safe(item, depth + 1) for key, item in value.items()}
        case _:
            raise AssertionError(f"JSON holds no {type(value)}")


def _integer(digits: str) -> int | str:
    if len(digits) <= INTEGER_CHARACTERS_MAX and -(1 << 63) <= (number := int(digits)) < 1 << 63:
        return number
    return digits


def _float(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def _refuse_constant(name: str) -> JsonValue:
    raise Malformed(f"not JSON, it holds {name}")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
