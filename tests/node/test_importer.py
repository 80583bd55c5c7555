"""Import through the node: long lines, and what a second import adds."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zstandard

from roost.core.entry import decode_content
from roost.core.ids import DocumentId
from roost.node.local import open_peer
from roost.node.peer import Peer
from tests.node.running import run

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    peer = open_peer(tmp_path / "home")
    yield peer
    await peer.close()


def line(identity: str, parent: str | None, text: str) -> dict[str, object]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    at = "2026-01-01T00:00:01.000Z"
    return {"type": "message", "id": identity, "parentId": parent, "timestamp": at, "message": message}


def write(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in (HEADER, *lines)))
    return path


def raws(peer: Peer, session: object) -> list[bytes]:
    """The lines as they are kept, byte for byte."""
    document = DocumentId(bytes.fromhex(str(session)))
    kept = []
    for row in peer.store.reader.entries(document, limit=100):
        content = decode_content(row.operation.content)
        assert content is not None
        packed = content.packed
        kept.append(zstandard.decompress(packed) if isinstance(packed, bytes) else bytes(content.raw or b""))
    return kept


async def test_a_line_of_megabytes_of_text_is_kept_byte_for_byte(peer: Peer, tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", line("a", None, "short"), line("b", "a", "many words " * 500_000))
    (row,) = await run(peer, "import", path=str(path))
    assert (row["entries"], row["skipped"], row["warnings"]) == (2, 0, [])
    assert raws(peer, row["session"]) == path.read_bytes().splitlines()[1:]


async def test_a_line_that_no_entry_can_hold_is_kept_in_part_and_reported(peer: Peer, tmp_path: Path) -> None:
    noise = b64encode(os.urandom(2 << 20)).decode()
    path = write(tmp_path / "f.jsonl", line("a", None, noise))
    (row,) = await run(peer, "import", path=str(path))
    assert (row["entries"], row["skipped"]) == (1, 0)
    (warning,) = json.loads(json.dumps(row["warnings"]))
    assert warning["offset"] == len(json.dumps(HEADER)) + 1
    (kept,) = raws(peer, row["session"])
    assert path.read_bytes().splitlines()[1].startswith(kept)


async def test_a_grown_file_adds_what_is_new_and_a_truncated_one_nothing(peer: Peer, tmp_path: Path) -> None:
    first, second = line("a", None, "one"), line("b", "a", "two")
    path = write(tmp_path / "f.jsonl", first)
    (begun,) = await run(peer, "import", path=str(path))
    (grown,) = await run(peer, "import", path=str(write(path, first, second)))
    (cut,) = await run(peer, "import", path=str(write(path, first)))
    assert begun["session"] == grown["session"] == cut["session"]
    assert [(row["entries"], row["existing"]) for row in (begun, grown, cut)] == [(1, 0), (1, 1), (0, 1)]


async def test_the_way_to_where_the_file_left_off_is_the_current_branch(peer: Peer, tmp_path: Path) -> None:
    lines = [line("a", None, "root"), line("b", "a", "left"), line("c", "a", "right"), line("d", "c", "end")]
    (row,) = await run(peer, "import", path=str(write(tmp_path / "f.jsonl", *lines)))
    shown = await run(peer, "log", session=row["session"])
    assert [one["content"] for one in shown] == ["root", "right", "end"]
    everything = await run(peer, "log", session=row["session"], all=True)
    assert [one["content"] for one in everything] == ["root", "left", "right", "end"]
    (left,) = [one for one in everything if one["content"] == "left"]
    assert left["branch"] == left["id"]
