"""Lines and JSON values out of bytes of any quality."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.errors import Malformed
from roost.formats.lines import JSON_DEPTH_MAX, Line, Skipped, parse_json, read_lines

MIB = 1 << 20


class Repeated(io.RawIOBase):
    """A stream of one repeated byte and a last line, which exists only piece by piece."""

    def __init__(self, byte: bytes, count: int, tail: bytes) -> None:
        self._byte, self._left, self._tail = byte, count, tail

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        size = min(len(buffer), self._left)
        part = self._byte * size if size else self._tail[: len(buffer)]
        self._left -= size
        self._tail = self._tail if size else self._tail[len(part) :]
        buffer[: len(part)] = part
        return len(part)


class Dripping(io.BytesIO):
    """Gives three bytes at a time, however many are asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3)


def lines(content: bytes, line_bytes_max: int = MIB) -> list[Line | Skipped]:
    return list(read_lines(io.BytesIO(content), line_bytes_max))


def test_a_line_knows_the_offset_of_its_first_byte_and_whether_it_ended() -> None:
    assert lines(b"a\n\n  \nbc\r\nd") == [Line(0, b"a", True), Line(6, b"bc", True), Line(10, b"d", False)]


def test_a_byte_order_mark_at_the_start_is_left_out_and_counted() -> None:
    assert lines(b"\xef\xbb\xbfa\n") == [Line(3, b"a", True)]
    assert lines(b"\xef\xbb\xbf\r\n \n") == []


def test_a_line_is_the_same_however_the_stream_is_cut() -> None:
    content = b"\xef\xbb\xbffirst line\r\n\r\nsecond\n" + b"x" * 50 + b"\nlast\r"
    assert list(read_lines(Dripping(content), 20)) == lines(content, 20)


def test_a_line_longer_than_the_limit_is_skipped_and_the_next_one_is_read() -> None:
    assert lines(b"123456\n12345\n", 5) == [Skipped(0, "longer than 5 bytes (6)"), Line(7, b"12345", True)]


def test_a_long_line_of_spaces_is_blank() -> None:
    assert lines(b" " * 100 + b"\na\n", 5) == [Line(101, b"a", True)]


def test_a_line_of_100_mb_is_passed_over_without_being_held() -> None:
    stream = io.BufferedReader(Repeated(b"x", 100_000_000, b'\n{"a":1}'))
    tracemalloc.start()
    found = list(read_lines(stream, MIB))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found == [Skipped(0, f"longer than {MIB} bytes (100000000)"), Line(100_000_001, b'{"a":1}', False)]
    assert peak < 4 * MIB


@given(st.binary(), st.integers(1, 40))
def test_every_line_that_is_not_blank_is_told_of_once_in_order(content: bytes, line_bytes_max: int) -> None:
    found = lines(content, line_bytes_max)

    assert len(found) == sum(1 for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())
    for line in found:
        if isinstance(line, Line):
            assert content[line.offset :].startswith(line.raw)


def test_lone_surrogates_become_the_replacement_character_and_pairs_stay() -> None:
    parsed = parse_json(rb'{"\ud83d":"a\udc00b \ud83d\ude00 \u0000"}')
    assert parsed.value == {"\ufffd": "a\ufffdb 😀 \x00"}
    assert not parsed.repaired


def test_bytes_that_are_no_utf8_are_replaced_and_reported() -> None:
    parsed = parse_json(b'"a\xffb"')
    assert (parsed.value, parsed.repaired) == ("a\ufffdb", True)
    assert not parse_json('"a\ufffdb"'.encode()).repaired


def test_numbers_beyond_64_bits_stay_as_their_digits() -> None:
    huge = "9" * 5000
    raw = f"[9223372036854775807,-9223372036854775808,9223372036854775808,1e999,{huge},1.5]".encode()
    assert parse_json(raw).value == [2**63 - 1, -(2**63), "9223372036854775808", "1e999", huge, 1.5]


@pytest.mark.parametrize("raw", [b"NaN", b"[Infinity]", b'{"a":-Infinity}', b"{", b"", b"{} {}", b'"a\x00b"'])
def test_what_is_no_json_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed, match="not JSON"):
        parse_json(raw)


@pytest.mark.parametrize("depth", [JSON_DEPTH_MAX + 2, 5_000, 1_000_000])
def test_a_value_nested_too_deeply_is_malformed(depth: int) -> None:
    with pytest.raises(Malformed, match="nested deeper"):
        parse_json(b"[" * depth + b"]" * depth)
