"""Imports of real files, through the program: every line accounted for, and nothing twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.journeys.peers import RealPeer, share

SAMPLES = Path(__file__).parent.parent / "data" / "pi"
ALL = sorted(SAMPLES.rglob("*.jsonl"))
UNUSABLE = {"empty", "garbage", "whitespace"}


def lines_of(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]


def is_header(line: bytes) -> bool:
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and (value.get("type") == "session" or value.get("kind") == "header")


def test_every_line_of_every_sample_is_an_entry_or_skipped(alice: RealPeer) -> None:
    alice.start()
    before = {path: path.read_bytes() for path in ALL}
    unusable = set()
    for path in ALL:
        ended = alice.try_("import", str(path))
        if ended.code == 3:
            unusable.add(path.stem)
            assert ended.rows == []
            continue
        assert ended.code == 0, ended.errors
        (row,) = ended.rows
        lines = lines_of(path)
        assert row["path"] == str(path)
        assert row["entries"] + row["existing"] + row["skipped"] == len(lines) - sum(map(is_header, lines)), path.name
        assert all(warning["offset"] <= len(before[path]) for warning in row["warnings"])
        assert alice.one("verify", row["session"])["ok"] is True
    assert unusable == UNUSABLE
    assert {path: path.read_bytes() for path in ALL} == before


@pytest.mark.parametrize("path", [path for path in ALL if path.stem not in UNUSABLE], ids=lambda path: path.stem)
def test_the_same_file_again_adds_nothing(path: Path, alice: RealPeer) -> None:
    first = alice.one("import", str(path))
    heads = alice.one("heads", first["session"])

    again = alice.one("import", str(path))

    assert again["session"] == first["session"]
    assert (again["entries"], again["existing"]) == (0, first["entries"])
    assert again["skipped"] == first["skipped"]
    assert alice.one("heads", first["session"]) == heads


def test_the_same_file_on_a_peer_that_holds_the_session_by_sync_adds_nothing(alice: RealPeer, bob: RealPeer) -> None:
    path = SAMPLES / "full_tree_v3.jsonl"
    first = alice.start().one("import", str(path))
    share(alice, first["session"], bob.start())

    again = bob.one("import", str(path))

    assert again["session"] == first["session"]
    assert (again["entries"], again["existing"]) == (0, first["entries"])
    assert bob.one("heads", first["session"])["heads"] == alice.one("heads", first["session"])["heads"]


def test_a_file_that_grew_adds_its_new_lines(tmp_path: Path, alice: RealPeer) -> None:
    whole = (SAMPLES / "full_tree_v3.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.jsonl"
    path.write_bytes(b"".join(whole[:10]))
    first = alice.one("import", str(path))
    path.write_bytes(b"".join(whole))

    again = alice.one("import", str(path))

    assert again["session"] == first["session"]
    assert (again["entries"], again["existing"]) == (len(whole) - 10, 9)


def test_of_several_paths_the_good_are_imported_and_the_bad_told(tmp_path: Path, alice: RealPeer) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("full_tree_v3", "v1_migrated_to_v3"):
        shutil.copy(SAMPLES / f"{name}.jsonl", folder)
    (folder / "garbage.jsonl").write_bytes(b"not json\n")
    (folder / "notes.txt").write_bytes(b"is no transcript")

    ended = alice.try_("import", str(folder), str(tmp_path / "missing.jsonl"))

    assert ended.code == 3
    assert [Path(row["path"]).name for row in ended.rows] == ["full_tree_v3.jsonl", "v1_migrated_to_v3.jsonl"]
    assert "garbage.jsonl" in ended.errors
    assert "missing.jsonl" in ended.errors
    assert "notes.txt" not in ended.errors
