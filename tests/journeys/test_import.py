"""Imports of real files, through the program: every line accounted for, and nothing twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

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


def test_every_line_of_every_sample_is_an_entry_or_skipped_and_again_adds_nothing(alice: RealPeer) -> None:
    alice.start()
    before = {path: path.read_bytes() for path in ALL}
    folders = [str(SAMPLES), str(SAMPLES / "edge")]

    first, again = (alice.try_("import", *folders) for _ in range(2))

    assert first.code == again.code == 3, "some are unusable, the others are imported all the same"
    assert {Path(row["path"]) for row in first.rows} == {path for path in ALL if path.stem not in UNUSABLE}
    for row, same in zip(first.rows, again.rows, strict=True):
        path = Path(row["path"])
        lines = lines_of(path)
        kept = row["entries"] + row["existing"]
        assert kept + row["skipped"] == len(lines) - sum(map(is_header, lines)), path.name
        assert all(0 <= warning["offset"] <= len(before[path]) for warning in row["warnings"])
        assert (same["session"], same["skipped"]) == (row["session"], row["skipped"])
        assert (same["entries"], same["existing"]) == (0, kept), path.name
    for session in {row["session"] for row in first.rows}:
        assert alice.one("verify", session)["ok"] is True
    assert {path: path.read_bytes() for path in ALL} == before


def test_only_files_without_anything_usable_exit_3(alice: RealPeer) -> None:
    alice.start()
    codes = {path.stem: alice.try_("import", str(path)).code for path in ALL}
    assert {stem for stem, code in codes.items() if code} == UNUSABLE
    assert {codes[stem] for stem in UNUSABLE} == {3}


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
