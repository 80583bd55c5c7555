"""Values to columns and back. What comes off the disk is checked again: bytes there can rot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from roost.adapters.store.records import CONTENT_ABSENT, CONTENT_HELD, DocumentRow, Packed, Row
from roost.core import canonical, operation
from roost.core.errors import Refused, Unverified
from roost.core.graph import LogKey, Position
from roost.core.heads import EntryHead, Head, Origin, RedactHead
from roost.core.ids import ID_BYTES, DocumentId, LogId, OperationId, PeerKey
from roost.core.outcome import GroupRow, NewOperation, StretchRow

Columns: TypeAlias = tuple[Any, ...]  # what SQLite takes and gives: int, str, bytes or None each

OPERATION_COLUMNS = (
    "n", "document", "stretch", "seq", "id", "time", "kind", "grp", "accepted", "verified", "local", "arrived",
    "content_state", "deps", "branch", "key", "origin", "target", "absence", "content_hash", "header", "signature",
    "head", "content",
)  # fmt: skip
ROW_COLUMNS = (
    "n, stretch, seq, grp, accepted, verified, local, arrived, content_state,"
    " absence, content_hash, header, signature, head, content"
)
PACKED_COLUMNS = "id, time, stretch, seq, verified, absence, content_hash, header, signature, head, content"
STORED_DOCUMENT = """
SELECT given.*, newest.id, newest.arrived, newest.n FROM (
  SELECT id, kind, mode, created, origin, local, heads,
    (SELECT sum((SELECT max(seq) FROM operations WHERE document = documents.number AND stretch = stretches.number)
      - first + 1) FROM stretches WHERE document = documents.number),
    (SELECT count(*) FROM operations WHERE document = documents.number AND accepted = 0),
    (SELECT count(*) FROM operations INDEXED BY other_kind
      WHERE document = documents.number AND branch IS NULL AND accepted = 1),
    (SELECT max(n) FROM notices WHERE document = documents.number),
    (SELECT max((SELECT n FROM operations WHERE document = documents.number AND stretch = stretches.number
      ORDER BY seq DESC LIMIT 1)) FROM stretches WHERE document = documents.number) AS newest_n
  FROM documents WHERE {} ORDER BY number) AS given
LEFT JOIN operations AS newest ON newest.n = given.newest_n"""
STRETCH_COLUMNS = "number, author, log, base_stretch, base_seq, first, last, live, runs, parked_from, parked_until"
STORED_STRETCH = """number, author, log, base_stretch, base_seq, first,
  coalesce(last, (SELECT max(seq) FROM operations WHERE document = stretches.document AND stretch = number)),
  live, runs, parked_from, parked_until"""
BY_ID = "substr(id, 1, 8) = substr(?1, 1, 8) AND id = ?1"  # as the index has it
ORIGIN_HASH_BYTES = 16  # the index holds one per imported line; who finds a collision only hides a line of their own

_positions = msgspec.msgpack.Decoder(tuple[Position, ...])
_runs = msgspec.msgpack.Decoder(tuple[tuple[int, int], ...])
SELECT = b"select"  # in the column ``target``: marks the entries that choose the current branch

_encode = msgspec.msgpack.Encoder().encode


def origin_hash(origin: Origin) -> bytes:
    """What ``Reader.by_origin`` looks imported lines up by; 16 bytes."""
    packed = canonical.pack([origin.tool, origin.session, origin.position])
    return sha256(packed).digest()[:ORIGIN_HASH_BYTES]


def derived_columns(identity: OperationId, head: Head) -> tuple[bytes | None, str | None, bytes | None, bytes | None]:
    """branch, key, origin and target: what entries and redacts are looked up by."""
    if type(head) is EntryHead:
        branch = identity if isinstance(head.branch, str) else head.branch or b""
        origin = origin_hash(head.origin) if head.origin else None
        return branch, head.key or None, origin, SELECT if head.type == "select" else None
    return None, None, None, head.target if type(head) is RedactHead else None


def operation_columns(new: NewOperation, cursor: int, document: int) -> Columns:
    """In the order of OPERATION_COLUMNS."""
    it = new.operation
    held = it.content is not None
    return (
        cursor, document, new.position.stretch, new.position.seq, it.id, it.time, it.kind, new.group,
        int(new.accepted), int(new.verified), int(new.local), new.arrived,
        CONTENT_HELD if held else CONTENT_ABSENT,
        _encode(new.deps) if new.deps else None,
        *derived_columns(it.id, it.head),
        None if held else it.absence,
        None if held else it.content_hash,
        it.header_bytes, it.signature, it.head_bytes, it.content,
    )  # fmt: skip


def to_row(columns: Columns) -> Row:
    """From ROW_COLUMNS. Raises Unverified if the bytes do not fit their hashes."""
    cursor, stretch, seq, group, accepted, verified, local, arrived, state, absence, *signed = columns
    content_hash, header, signature, head, content = signed
    try:
        whole = operation.decode(header, signature, head, content, content_hash, absence or operation.NOT_HELD)
    except (Refused, TypeError) as error:  # TypeError: not even the types are as they were written
        raise Unverified(f"stored at cursor {cursor}: {error}") from error
    return Row(
        cursor, whole, Position(stretch, seq), group, bool(accepted), bool(verified), bool(local), arrived, state
    )


def to_packed(columns: Columns) -> Packed:
    """From PACKED_COLUMNS."""
    identity, time, stretch, seq, verified, absence, content_hash, header, signature, head, content = columns
    return Packed(
        identity, time, Position(stretch, seq), bool(verified), header, signature, head, content, content_hash,
        absence or operation.NOT_HELD,
    )  # fmt: skip


def to_positions(packed: bytes | None) -> tuple[Position, ...]:
    return () if packed is None else _positions.decode(packed)


def pack_heads(heads: Sequence[OperationId]) -> bytes:
    return b"".join(heads)


def to_document(columns: Columns) -> DocumentRow:
    """From STORED_DOCUMENT."""
    identity, kind, mode, created, origin, local, heads, operations, void, others, noticed, _, *newest = columns
    newest_id, updated, cursor = newest
    packed = newest_id if heads is None else heads
    ids = tuple(OperationId(packed[at : at + ID_BYTES]) for at in range(0, len(packed or b""), ID_BYTES))
    entries = (operations or 0) - void - others
    return DocumentRow(
        identity, kind, mode, created, origin, bool(local), ids, operations or 0, entries, void, updated or 0,
        max(cursor or 0, noticed or 0),
    )  # fmt: skip


def stretch_columns(row: StretchRow, document: int) -> Columns:
    """``document``, then STRETCH_COLUMNS."""
    base = (None, None) if row.base is None else row.base
    end = (None, None) if row.live == row.last else (row.last, row.live)
    return (
        document, row.number, row.log.author, row.log.log, *base, row.first, *end, _encode(row.runs),
        row.parked_from, row.parked_until,
    )  # fmt: skip


def to_stretch(document: DocumentId, columns: Columns) -> StretchRow:
    """From STORED_STRETCH."""
    number, author, log, base_stretch, base_seq, first, last, live, runs, parked_from, parked_until = columns
    base = None if base_stretch is None else Position(base_stretch, base_seq)
    key = LogKey(PeerKey(author), LogId(log))
    live = last if live is None else live
    return StretchRow(document, number, key, base, first, last, live, _runs.decode(runs), parked_from, parked_until)


def to_groups(document: DocumentId, rows: Iterable[Columns]) -> list[GroupRow]:
    return [GroupRow(document, number, author, proof) for number, author, proof in rows]
