"""What people and tools said: the content of an ``entry`` operation, and who may be heard in whose name.

Source: docs/protocol.md "Entries".
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType

from roost.core import canonical
from roost.core.errors import Malformed, NotCanonical, TooLarge
from roost.core.operation import BODY_BYTES_MAX, HEAD_BYTES_MAX

SALT_BYTES = 16
CONTENT_BYTES_MAX = BODY_BYTES_MAX - HEAD_BYTES_MAX


class EntryContent(Struct, frozen=True):
    """``sender`` is a label and proves nothing. ``data`` is JSON text.

    ``raw`` is an imported line, byte for byte; ``packed`` the same under zstd, where it is long.
    """

    salt: bytes
    sender: str
    content: str
    data: str | UnsetType = UNSET
    raw: bytes | UnsetType = UNSET
    packed: bytes | UnsetType = UNSET


_decoder = msgspec.msgpack.Decoder(EntryContent)


def encode_content(
    salt: bytes,
    sender: str,
    content: str,
    data: str | None = None,
    raw: bytes | None = None,
    packed: bytes | None = None,
) -> bytes:
    """The content of an entry. Raises TooLarge. ``salt`` is 16 random bytes, so that no guess can be confirmed."""
    value: dict[str, canonical.Value] = {"salt": salt, "sender": sender, "content": content}
    optional = {"data": data, "raw": raw, "packed": packed}
    value.update((name, given) for name, given in optional.items() if given is not None)
    encoded = canonical.pack(value)
    if len(encoded) > CONTENT_BYTES_MAX:
        raise TooLarge(f"an entry holds at most {CONTENT_BYTES_MAX >> 10} KiB")
    return encoded


def decode_content(raw: bytes | None) -> EntryContent | None:
    """What an entry says; None if its content is absent or breaks its schema. Never raises on hostile bytes."""
    if raw is None:
        return None
    try:
        canonical.unpack_map(raw)
        content = _decoder.decode(raw)
    except (NotCanonical, Malformed, msgspec.MsgspecError, ValueError):
        return None
    return content if len(content.salt) == SALT_BYTES else None
