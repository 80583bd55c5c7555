"""Canonical msgpack: one byte string for one value, so that two implementations hash and sign the same bytes.

Source: docs/protocol.md "Canonical form".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from roost.core.errors import Malformed, NotCanonical

Value: TypeAlias = "bool | int | float | str | bytes | Sequence[Value] | Mapping[str, Value] | None"

DEPTH_MAX = 16
INTEGER_MAX = (1 << 53) - 1  # the largest that every JavaScript engine holds exactly
SIGNED_MIN, SIGNED_MAX = -(1 << 63), (1 << 63) - 1  # an edit's values are Automerge's 64-bit integers

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder()


def pack(value: Value) -> bytes:
    """Encode ``value`` canonically. The caller passes values of the format only; see ``unpack_map`` for the limits."""
    return _encoder.encode(value)


def unpack_map(raw: bytes, *, signed: bool = False) -> Mapping[str, Value]:
    """Decode one canonical map, or raise Malformed or NotCanonical.

    ``signed`` allows integers from -2^63 to 2^63 - 1 (an edit's values) instead of 0 to 2^53 - 1.
    """
    value = decode(raw)
    if type(value) is not dict:
        raise Malformed("not a map")
    _check(value, 1, SIGNED_MIN if signed else 0, SIGNED_MAX if signed else INTEGER_MAX)
    if _encoder.encode(value) != raw:
        raise NotCanonical
    return value


def decode(raw: bytes) -> Value:
    """Decode msgpack of any form, or raise Malformed."""
    try:
        value: Value = _decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError, TypeError) as error:
        raise Malformed("not msgpack") from error
    return value


def _check(value: object, depth: int, low: int, high: int) -> None:
    """Refuse what the format does not know; map keys must ascend by their bytes, as code points of UTF-8 do."""
    kind = type(value)
    if kind is str or kind is bytes or value is None or kind is bool:
        return
    if kind is int:
        if not low <= value <= high:  # type: ignore[operator]
            raise Malformed("integer out of range")
    elif kind is dict:
        if depth > DEPTH_MAX:
            raise Malformed("nested too deeply")
        previous = None
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                raise Malformed("a map key is no string")
            if previous is not None and key <= previous:
                raise NotCanonical("map keys do not ascend")
            previous = key
            _check(item, depth + 1, low, high)
    elif kind is list:
        if depth > DEPTH_MAX:
            raise Malformed("nested too deeply")
        for item in value:  # type: ignore[attr-defined]
            _check(item, depth + 1, low, high)
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise Malformed("not a finite number")
    else:
        raise Malformed("a type that the format does not know")
