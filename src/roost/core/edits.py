"""What an ``edit`` operation says: the head names the places, the content holds one value per item.

Apart from the merge engine (``core.state``), so that who only writes an edit need not load it.
Source: docs/protocol.md "State".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from roost.core import canonical
from roost.core.errors import BadHead, Malformed, NotCanonical, TooLarge
from roost.core.graph import LogKey, Position
from roost.core.heads import SPLICE_BYTES_MAX, Delete, Edit, EditHead, Splice, decode_head, encode_head
from roost.core.ids import OperationId
from roost.core.operation import BODY_BYTES_MAX, HEAD_BYTES_MAX

Scalar: TypeAlias = "str | int | float | bool | None"  # bool is told from int by its exact type everywhere

SALT_BYTES = 16
CONTAINERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # kind -> maps, texts; the order is the format's
    "session": (("meta", "agents", "tags"), ("notes",)),
    "agent": (("config", "meta", "memory", "schedules", "history"), ("notes",)),
    "memory": (("facts",), ()),
}


class EditRecord(Struct, frozen=True, gc=False):
    """One edit of a document. ``values`` is None while its content is redacted, absent or unreadable."""

    id: OperationId
    log: LogKey
    position: Position
    time: int
    edits: tuple[Edit, ...]
    values: tuple[Scalar, ...] | None


def read_values(head: EditHead, content: bytes | None) -> tuple[Scalar, ...] | None:
    """The values in an edit's content, or None if it is absent or breaks its schema in anything. Never raises."""
    if content is None:
        return None
    try:
        fields = canonical.unpack_map(content, signed=True)
    except (Malformed, NotCanonical):
        return None
    salt, values = fields.get("salt"), fields.get("values")
    if type(salt) is not bytes or len(salt) != SALT_BYTES or type(values) is not list:
        return None
    if len(values) != len(head.edits):
        return None
    if any(_fault(edit, value) for edit, value in zip(head.edits, values, strict=True)):
        return None
    return tuple(values)


def encode_edits(edits: Sequence[Edit], values: Sequence[Scalar], salt: bytes) -> tuple[EditHead, bytes]:
    """Head and content of an edit; ``salt`` is 16 fresh random bytes. Raises Malformed, BadHead or TooLarge."""
    head = EditHead(tuple(edits))
    if len(values) != len(edits) or len(salt) != SALT_BYTES:
        raise Malformed("not one value per edit, or no 16 bytes of salt")
    for number, (edit, value) in enumerate(zip(edits, values, strict=True)):
        fault = _fault(edit, value)
        if fault:
            raise Malformed(f"edit {number}: {fault}")
    try:
        head_bytes = encode_head(head)
        decode_head("edit", head_bytes)
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError) as error:
        raise BadHead("a name or key is no text, or a number has more than 64 bits") from error
    content = canonical.pack({"salt": salt, "values": list(values)})
    if len(head_bytes) > HEAD_BYTES_MAX or len(head_bytes) + len(content) > BODY_BYTES_MAX:
        raise TooLarge("the edit")
    return head, content


def has_places(kind: str, edits: Sequence[Edit]) -> bool:
    """Whether every item names a map or text of a document of ``kind``; if not, the operation makes no change.

    Nor does one whose splices claim more characters than any body can carry: an author who never means to show the
    content could have others write 4,000,000 blocks for 3 KB.
    """
    maps, texts = CONTAINERS.get(kind, ((), ()))
    characters = 0
    for edit in edits:
        if isinstance(edit, Splice):
            characters += edit.length
            if edit.text not in texts:
                return False
        elif edit.map not in maps:
            return False
    return characters <= BODY_BYTES_MAX


def lengths_after(
    edits: Sequence[Edit], lengths: Mapping[str, int], length_of: Callable[[str], int]
) -> dict[str, int] | None:
    """The lengths of the texts after ``edits``, or None if one does not fit what the items before it leave.

    lengths: those that are known, in code points; ``length_of`` answers for the others.
    """
    after = dict(lengths)
    for edit in edits:
        if isinstance(edit, Splice):
            length = after[edit.text] if edit.text in after else length_of(edit.text)
            if edit.index + edit.remove > length:
                return None
            after[edit.text] = length - edit.remove + edit.length
    return after


def _fault(edit: Edit, value: object) -> str:
    """What is wrong with ``value`` as the value of ``edit``; empty if nothing is."""
    kind = type(value)
    if isinstance(edit, Splice):
        return _splice_fault(edit, value)
    if isinstance(edit, Delete):
        return "" if value is None else "a delete has no value"
    if kind is str:
        return "" if _utf8_size(str(value)) is not None else "a lone surrogate is no text"
    if kind is int:
        within = canonical.SIGNED_MIN <= value <= canonical.SIGNED_MAX  # type: ignore[operator]
        return "" if within else "an integer beyond 64 bits"
    if kind is float:
        return "" if math.isfinite(value) else "not a finite number"  # type: ignore[arg-type]
    return "" if value is None or kind is bool else "a value is text, a number, true, false or nil"


def _splice_fault(edit: Splice, value: object) -> str:
    if type(value) is not str:
        return "a splice takes text"
    if len(value) != edit.length:
        return "the text is not as long as the head says"
    size = _utf8_size(value)
    if size is None:
        return "a lone surrogate is no text"
    return "" if size <= SPLICE_BYTES_MAX else "more than 64 KiB in one splice"


def _utf8_size(text: str) -> int | None:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None
