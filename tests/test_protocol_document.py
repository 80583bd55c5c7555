"""docs/protocol.md tells the truth: every hex dump in it is decoded, and each commented field is what stands there.

A dump is a block of hex. Two spaces and ``#`` begin a comment; ``name = value`` speaks of the bytes on its line, which
are one value, or a map's key and its value. A line that is only a comment begins a part of an operation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, get_args

import msgspec
import pytest

from roost.core import errors, wire
from roost.core import operation as operations
from roost.core.heads import KNOWN_KINDS
from roost.core.ids import PeerKey
from roost.core.operation import Header
from tests.conftest import ROOT
from tests.test_vectors import GOOD

TEXT = (ROOT / "docs" / "protocol.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```hex (\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
DUMPS = [name for name in BLOCKS if name != "have"]
BYTES_OF = {f"the id of {vector.name}": vector.id for vector in GOOD.operations} | {
    f"the key of {name}": key.public for name, key in GOOD.keys.items()
}


class Line(NamedTuple):
    raw: bytes
    name: str
    value: str
    hint: str


def lines_of(block: str) -> Iterator[tuple[str, Line]]:
    """(part, line) of every line with hex."""
    part = ""
    for text in block.splitlines():
        digits, _, comment = text.strip().partition("# ")
        if not digits:
            part = comment
            continue
        field, _, hint = comment.partition("  (")
        name, _, value = field.rpartition(" = ")
        yield part, Line(bytes.fromhex(digits.strip()), name, value, hint.removesuffix(")"))


def part_of(name: str, part: str) -> bytes:
    return b"".join(line.raw for found, line in lines_of(BLOCKS[name]) if found == part)


def described(value: object) -> str:
    """A value as comments tell it."""
    match value:
        case None:
            return "nil"
        case bytes():
            return f"{len(value)} bytes"
        case list():
            return f"array of {len(value)}"
        case dict():
            return f"map of {len(value)}"
    return json.dumps(value, ensure_ascii=False)


def value_on(line: Line) -> object:
    """The value that stands on a line; of an array or a map that goes on below, as many nils."""
    raw = line.raw
    key = msgspec.msgpack.encode(line.name)
    raw = raw.removeprefix(key)
    if len(raw) == 1 and 0x80 <= raw[0] <= 0x8F:
        return dict.fromkeys(range(raw[0] & 0x0F))
    if len(raw) == 1 and 0x90 <= raw[0] <= 0x9F:
        return [None] * (raw[0] & 0x0F)
    return msgspec.msgpack.decode(raw)


@pytest.mark.parametrize("name", BLOCKS)
def test_each_commented_field_is_what_stands_on_its_line(name: str) -> None:
    commented = [line for _, line in lines_of(BLOCKS[name]) if line.name]
    assert commented
    for line in commented:
        value = value_on(line)
        assert described(value) == line.value, line
        if line.hint:
            assert BYTES_OF[line.hint] == value, line


@pytest.mark.parametrize("name", DUMPS)
def test_a_dump_is_the_good_operation_of_its_name(name: str) -> None:
    vector = next(vector for vector in GOOD.operations if vector.name == name)
    header, signature, head, content = (part_of(name, part) for part in ("header", "signature", "head", "content"))
    operation = operations.decode(header, signature, head, content)
    operations.verify(operation)
    assert operation.id == vector.id
    assert (signature, head, content) == (vector.signature, vector.head, vector.content)


@pytest.mark.parametrize("name", DUMPS)
def test_the_fields_of_a_header_are_named_in_their_order(name: str) -> None:
    named = [line.name for part, line in lines_of(BLOCKS[name]) if part == "header" and line.name]
    assert [field for field in named if "[" not in field] == list(Header.__struct_fields__)


@pytest.mark.parametrize("name", DUMPS)
def test_every_field_of_a_head_or_content_is_named_by_its_key(name: str) -> None:
    for part in ("head", "content"):
        raw = part_of(name, part)
        keys = list(msgspec.msgpack.decode(raw)) if raw else []
        named = [line.name for found, line in lines_of(BLOCKS[name]) if found == part and line.name]
        assert [name for name in named if name in keys] == keys


def test_every_kind_has_a_dump_and_so_has_a_later_one() -> None:
    kinds = {str(vector.fields["kind"]) for vector in GOOD.operations if vector.name in DUMPS}
    assert kinds >= KNOWN_KINDS
    assert kinds - KNOWN_KINDS == {"reaction"}


def test_the_dump_of_a_frame_is_a_have() -> None:
    message = wire.decode_frame(part_of("have", ""))
    assert isinstance(message, wire.Have)
    assert [log.author for log in message.logs] == [PeerKey(GOOD.keys["bob"].public)]


def test_the_table_of_messages_names_every_message_by_its_number() -> None:
    rows = re.findall(
        r"^\| (\d+) \| (\w+) \| ", TEXT.partition("| # | message |")[2].partition("\n\n")[0], re.MULTILINE
    )
    kinds = get_args(wire.Message)
    assert {name: int(number) for number, name in rows} == {kind.__name__: kind.__struct_config__.tag for kind in kinds}


def test_every_code_of_a_refusal_is_explained() -> None:
    kinds: list[type[errors.RoostError]] = [errors.Refused]
    for kind in kinds:
        kinds += kind.__subclasses__()
    codes = {kind.code for kind in kinds} - {"refused"}
    assert {code for code in codes if f"`{code}`" not in TEXT} == set()


def test_the_limits_in_the_text_are_those_of_the_code() -> None:
    told = {
        f"at most {operations.HEADER_BYTES_MAX >> 10} KiB",
        f"at most {operations.HEAD_BYTES_MAX >> 10} KiB",
        f"<= {operations.BODY_BYTES_MAX >> 10} KiB",
        f"0 to {operations.DEPS_MAX} ids",
        f"at most {wire.FRAME_BYTES_MAX >> 20} MiB",
        f"at most {wire.UNPACKED_BYTES_MAX >> 20} MiB",
        f"at most {wire.OPERATIONS_MAX} operations",
        f"at most {wire.IDS_MAX} items",
        f"at most {wire.PARTS_MAX} parts",
        f"(at most {wire.CONTENTS_MAX})",
    }
    flat = " ".join(TEXT.split())
    assert {limit for limit in told if limit not in flat} == set()
