"""The test vectors beside docs/protocol.md, typed. In the files byte strings are hex."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from roost.core import operation as operations
from roost.core.operation import Operation

VECTORS = Path(__file__).parent / "vectors"

Form = TypeVar("Form")


if TYPE_CHECKING:
    Hex: TypeAlias = bytes
else:

    class Hex(bytes):
        """Bytes that the file holds as hex digits."""


class Key(Struct):
    seed: Hex
    public: Hex


class Sent(Struct):
    """An operation as it travels."""

    name: str
    header: Hex
    signature: Hex
    head: Hex
    content: Hex | None

    def decode(self, content_hash: bytes | None = None, absence: bytes = operations.NOT_HELD) -> Operation:
        return operations.decode(self.header, self.signature, self.head, self.content, content_hash, absence)


class Good(Sent):
    by: str
    id: Hex
    content_hash: Hex
    fields: dict[str, object]
    head_fields: dict[str, object]
    accepted: bool


class Operations(Struct):
    keys: dict[str, Key]
    operations: list[Good]
    order: list[str]
    heads: list[Hex]
    roles: dict[str, str | None]


class Bad(Sent):
    why: str
    stage: str
    code: str | None
    content_hash: Hex | None
    absence: Hex
    outcome: str = "refused"


class Refused(Struct):
    clock: int
    refused: list[Bad]


def load(name: str, form: type[Form]) -> Form:
    return msgspec.json.decode((VECTORS / name).read_bytes(), type=form, dec_hook=_from_hex)


def as_plain(value: object) -> object:
    """A value as the files hold it."""
    match value:
        case bytes():
            return value.hex()
        case list() | tuple():
            return [as_plain(item) for item in value]
        case dict():
            return {key: as_plain(item) for key, item in value.items()}
    return value


def _from_hex(form: type, value: object) -> object:
    return Hex.fromhex(str(value)) if form is Hex else value
