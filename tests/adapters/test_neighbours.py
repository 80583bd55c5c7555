"""Peers of one user on one machine find each other by notes that nobody else can write."""

from __future__ import annotations

from pathlib import Path

from roost.adapters.neighbours import Neighbours
from roost.core.ids import PeerKey

KEY = PeerKey(b"k" * 32)
URLS = ["http://127.0.0.1:7777"]


def test_an_announced_peer_is_found_until_it_withdraws(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path / "run" / "peers")
    assert neighbours.find(KEY) == []
    neighbours.announce(KEY, URLS)
    assert neighbours.find(KEY) == URLS
    neighbours.withdraw(KEY)
    assert neighbours.find(KEY) == []


def test_a_directory_that_others_can_write_to_is_not_believed(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path / "peers")
    neighbours.announce(KEY, URLS)
    (tmp_path / "peers").chmod(0o777)
    assert neighbours.find(KEY) == []


def test_a_note_of_another_process_is_left_alone(tmp_path: Path) -> None:
    note = tmp_path / f"{KEY.hex()}.json"
    tmp_path.chmod(0o700)
    note.write_text('{"pid": 1, "urls": ["http://127.0.0.1:1"]}')
    Neighbours(tmp_path).withdraw(KEY)
    assert note.exists()


def test_a_damaged_note_finds_nobody(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for text in ("", "[]", "{", '{"urls": 5}', '{"urls": [5, null]}'):
        (tmp_path / f"{KEY.hex()}.json").write_text(text)
        assert Neighbours(tmp_path).find(KEY) == []
