from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.cli.send import BATCH_LINES_MAX, LINE_BYTES_MAX, NumberedLine, batches, parse_line
from roost.cli.watch import Watch
from roost.core.errors import Usage


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Of a data directory on which no peer runs."""
    return Watch(tmp_path)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_the_lines_that_are_there_are_a_batch_though_more_may_come(pipe: tuple[int, int], watch: Watch) -> None:
    reading, writing = pipe
    read = batches(reading, watch)

    os.write(writing, b"one\ntwo\nthr")
    assert next(read) == [NumberedLine(1, b"one"), NumberedLine(2, b"two")]
    os.write(writing, b"ee\n")
    assert next(read) == [NumberedLine(3, b"three")]


def from_file(content: bytes, tmp_path: Path, watch: Watch) -> list[list[NumberedLine]]:
    path = tmp_path / "lines"
    path.write_bytes(content)
    with path.open("rb") as file:
        return list(batches(file.fileno(), watch))


def test_blank_lines_count_and_are_left_out_and_a_last_line_needs_no_end(tmp_path: Path, watch: Watch) -> None:
    read = from_file(b"\n  \none\r\n\ntwo", tmp_path, watch)
    assert [line.number for batch in read for line in batch] == [3, 5]


def test_a_batch_is_bounded_in_lines_and_in_bytes(tmp_path: Path, watch: Watch) -> None:
    sizes = [len(batch) for batch in from_file(b"x\n" * (2 * BATCH_LINES_MAX + 1), tmp_path, watch)]
    assert sizes == [BATCH_LINES_MAX, BATCH_LINES_MAX, 1]
    large = from_file((b"x" * (400 << 10) + b"\n") * 3, tmp_path, watch)
    assert [len(batch) for batch in large] == [1, 1, 1]


def test_a_line_without_end_is_not_held_and_those_before_it_are_not_lost(tmp_path: Path, watch: Watch) -> None:
    lines = [line for batch in from_file(b"one\n" + b"x" * (2 * LINE_BYTES_MAX), tmp_path, watch) for line in batch]
    assert [line.number for line in lines] == [1, 2]
    with pytest.raises(Usage, match="line 2: longer"):
        parse_line(lines[1])


def test_a_line_has_its_known_fields() -> None:
    line = {"content": "x", "type": "note", "sender": None, "key": "k", "unknown": [1]}
    assert parse_line(NumberedLine(1, json.dumps(line).encode())) == {"content": "x", "type": "note", "key": "k"}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "nested|not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "content must"),
        (b'{"content":null}', "content must"),
        (b'{"content":"x","parent":1}', "parent must be a string"),
        (b'{"content":"\\udc00"}', "lone surrogate"),
    ],
)
def test_a_bad_line_is_named(raw: bytes, reason: str) -> None:
    with pytest.raises(Usage, match=f"line 7: .*({reason})"):
        parse_line(NumberedLine(7, raw))
