"""What an edit's content may hold, and what becomes of one that breaks its schema."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core import canonical
from roost.core.edits import Scalar, encode_edits, has_places, lengths_after, read_values
from roost.core.errors import BadHead, Malformed, RoostError, TooLarge
from roost.core.heads import Delete, Edit, EditHead, Put, Splice, decode_head, encode_head

SALT = bytes(range(16))
PUT, DELETE = Put("meta", "name"), Delete("meta", "name")
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just("\ud800")


def content(values: canonical.Value, salt: bytes = SALT) -> bytes:
    return canonical.pack({"salt": salt, "values": values})


@pytest.mark.parametrize(
    ("edit", "value"),
    [
        (PUT, "text"),
        (PUT, "nul \0 in it"),
        (PUT, -(1 << 63)),
        (PUT, (1 << 63) - 1),
        (PUT, 2.0),
        (PUT, True),
        (PUT, None),
        (DELETE, None),
        (Splice("notes", 0, 0, 2), "a😀"),
        (Splice("notes", 0, 3, 0), ""),
        (Splice("notes", 0, 0, 1 << 16), "a" * (1 << 16)),
    ],
)
def test_what_an_author_writes_is_what_a_peer_reads(edit: Edit, value: Scalar) -> None:
    head, written = encode_edits([edit], [value], SALT)
    assert decode_head("edit", encode_head(head)) == head
    assert read_values(head, written) == (value,)
    found = read_values(head, written)
    assert found is not None
    assert type(found[0]) is type(value)


BREAKING: list[tuple[Edit, canonical.Value]] = [
    (PUT, 1 << 63),
    (PUT, -(1 << 63) - 1),
    (PUT, math.nan),
    (PUT, math.inf),
    (PUT, b"bytes"),
    (PUT, ["list"]),
    (PUT, {"a": "map"}),
    (DELETE, 1),
    (Splice("notes", 0, 0, 2), "a"),
    (Splice("notes", 0, 0, 1), None),
    (Splice("notes", 0, 0, 1), 1),
    (Splice("notes", 0, 0, (1 << 14) + 1), "😀" * ((1 << 14) + 1)),
]


@pytest.mark.parametrize(("edit", "value"), BREAKING)
def test_a_value_that_does_not_fit_is_refused_to_the_author(edit: Edit, value: Scalar) -> None:
    with pytest.raises(Malformed):
        encode_edits([PUT, edit], ["fine", value], SALT)


@pytest.mark.parametrize(("edit", "value"), [pair for pair in BREAKING if pair[1] != -(1 << 63) - 1])
def test_one_value_that_does_not_fit_makes_the_whole_content_unreadable(edit: Edit, value: canonical.Value) -> None:
    assert read_values(EditHead((PUT, edit)), content(["fine", value])) is None


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"\xc1",
        b"\x80",
        canonical.pack({"values": ["a"]}),
        canonical.pack({"salt": SALT, "values": "a"}),
        canonical.pack({"salt": SALT, "values": {"a": "b"}}),
        content(["a"], SALT[1:]),
        content([]),
        content(["a", "b"]),
        content(["a"]) + b"\xc0",
        b"\x82\xa6values\x91\xa1a\xa4salt\xc4\x10" + SALT,
        b"\x82\xa4salt\xc4\x10" + SALT + b"\xa6values\x91\xa3\xed\xa0\x80",
        b"\x91" * 100_000,
    ],
)
def test_bytes_that_break_the_schema_are_unreadable(raw: bytes | None) -> None:
    assert read_values(EditHead((PUT,)), raw) is None


def test_a_field_of_a_later_version_is_ignored() -> None:
    raw = canonical.pack({"salt": SALT, "values": ["a"], "why": {"later": 1}})
    assert read_values(EditHead((PUT,)), raw) == ("a",)


@given(st.binary(max_size=64), st.lists(VALUES, max_size=3))
@settings(max_examples=200, deadline=None, database=None, derandomize=True)
def test_reading_never_raises_and_writing_only_typed_errors(raw: bytes, values: list[Scalar]) -> None:
    read_values(EditHead((PUT,)), raw)
    read_values(EditHead((PUT,)), b"\x82\xa4salt\xc4\x10" + SALT + b"\xa6values" + raw)
    try:
        encode_edits([PUT] * len(values), values, SALT)
    except RoostError:
        return
    assert len(values) > 0


@pytest.mark.parametrize(
    ("edits", "values", "error"),
    [
        ([], [], BadHead),
        ([PUT] * 65, ["a"] * 65, BadHead),
        ([Put("meta", "")], ["a"], BadHead),
        ([Put("m" * 65, "key")], ["a"], BadHead),
        ([Put("meta", "\ud800")], ["a"], BadHead),
        ([Splice("notes", -1, 0, 0)], [""], Malformed),
        ([Splice("notes", 1 << 80, 0, 0)], [""], BadHead),
        ([PUT], ["a", "b"], Malformed),
        ([PUT] * 2, ["a" * 500_000] * 2, TooLarge),
        ([Put("meta", "k" * 512)] * 64, [1] * 64, TooLarge),
    ],
)
def test_an_edit_that_the_format_cannot_carry_is_refused_to_the_author(
    edits: list[Edit], values: list[Scalar], error: type[RoostError]
) -> None:
    with pytest.raises(error):
        encode_edits(edits, values, SALT)


def test_an_item_has_a_place_only_in_a_container_of_its_sort_in_a_known_kind() -> None:
    assert has_places("session", [PUT, Splice("notes", 0, 0, 1)])
    assert has_places("memory", [Put("facts", "key")])
    assert not has_places("memory", [PUT])
    assert not has_places("session", [PUT, Put("notes", "key")])
    assert not has_places("later", [PUT])


def test_lengths_follow_the_items_and_are_asked_for_once() -> None:
    asked: list[str] = []

    def length_of(text: str) -> int:
        asked.append(text)
        return 5

    edits = [Splice("notes", 5, 0, 2), Splice("notes", 0, 7, 1), Splice("notes", 1, 0, 3)]
    assert lengths_after(edits, {}, length_of) == {"notes": 4}
    assert asked == ["notes"]
    assert lengths_after([Splice("notes", 3, 3, 0)], {"notes": 5}, length_of) is None
