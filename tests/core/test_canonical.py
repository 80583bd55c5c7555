"""Canonical msgpack: one byte string for one value."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.canonical import DEPTH_MAX, INTEGER_MAX, SIGNED_MAX, SIGNED_MIN, Value, decode, pack, unpack_map
from roost.core.errors import Malformed, NotCanonical, Refused

scalars: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, INTEGER_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.binary(max_size=40),
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values: st.SearchStrategy[Value] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)


@given(st.dictionaries(keys, values, max_size=6))
def test_a_map_survives_its_bytes(value: dict[str, Value]) -> None:
    assert unpack_map(pack(value)) == value


@given(st.dictionaries(keys, values, min_size=2, max_size=6))
def test_the_order_in_which_a_map_was_filled_does_not_show(value: dict[str, Value]) -> None:
    assert pack(dict(reversed(value.items()))) == pack(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_canonical_map_or_refused(raw: bytes) -> None:
    try:
        value = unpack_map(raw)
    except Refused:
        return
    assert pack(value) == raw


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", Malformed),
        (b"\xc1", Malformed),
        (b"\x90", Malformed),  # a list
        (b"\x81\x01\x02", Malformed),  # a key that is no string
        (b"\x81\xc4\x01a\x02", Malformed),  # bytes as a key
        (b"\x81\x91\x01\x02", Malformed),  # a list as a key
        (b"\x81\xa1\xff\x01", Malformed),  # no UTF-8
        (b"\x81\xa3\xed\xa0\x80\x01", Malformed),  # half a surrogate pair
        (b"\x81\xa1a\xd6\xff\x00\x00\x00\x00", Malformed),  # an extension: a timestamp
        (b"\x81\xa1a\xc7\x01\x05x", Malformed),  # an extension of nobody
        (b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", Malformed),  # not a number
        (b"\x81\xa1a\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", Malformed),  # infinity
        (b"\x81\xa1a\xff", Malformed),  # -1
        (b"\x81\xa1a\xcf\x00\x20\x00\x00\x00\x00\x00\x00", Malformed),  # 2^53
        (b"\x80\x80", Malformed),  # something after the end
        (b"\x81\xa1a", Malformed),  # the end is missing
        (b"\xdf\xff\xff\xff\xff", Malformed),  # four thousand million entries
        (b"\x82\xa1b\x01\xa1a\x02", NotCanonical),  # descending
        (b"\x82\xa1a\x01\xa1a\x02", NotCanonical),  # twice
        (b"\x81\xa1a\xcc\x01", NotCanonical),  # a longer form of 1
        (b"\x81\xd9\x01a\x01", NotCanonical),  # a longer form of "a"
        (b"\xde\x00\x01\xa1a\x01", NotCanonical),  # a longer form of the map
        (b"\x81\xa1a\xca\x00\x00\x00\x00", NotCanonical),  # a float of 32 bits
    ],
)
def test_what_two_readers_could_take_differently_is_refused(raw: bytes, why: type[Refused]) -> None:
    with pytest.raises(Refused) as refusal:
        unpack_map(raw)
    assert type(refusal.value) is why


@pytest.mark.parametrize("value", [-5, SIGNED_MIN, SIGNED_MAX, INTEGER_MAX + 1])
def test_only_the_values_of_edits_may_be_negative_or_large(value: int) -> None:
    """Failing case 13."""
    assert unpack_map(pack({"values": [value]}), signed=True) == {"values": [value]}
    with pytest.raises(Malformed):
        unpack_map(pack({"values": [value]}))


def test_an_edit_value_above_64_bits_is_refused() -> None:
    with pytest.raises(Malformed):
        unpack_map(msgspec.msgpack.encode({"values": [SIGNED_MAX + 1]}), signed=True)


def test_values_nest_to_a_depth_and_no_further() -> None:
    def nested(depth: int) -> bytes:
        value: Value = {}
        for _ in range(depth - 1):
            value = {"a": value}
        return pack(value)

    unpack_map(nested(DEPTH_MAX))
    with pytest.raises(Malformed):
        unpack_map(nested(DEPTH_MAX + 1))
    with pytest.raises(Malformed):
        decode(b"\x91" * 100_000)


def test_keys_ascend_by_their_bytes_and_not_by_their_utf_16() -> None:
    high, private = "\U00010000", "\uffff"
    assert private < high  # as bytes of UTF-8; JavaScript's own order is the other
    assert list(unpack_map(pack({high: 1, private: 2}))) == [private, high]
