"""What is left when a process is killed, and when two want one data directory."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.journeys.peers import RealPeer

LINES = 20_000  # far more than are sent before the peer is killed


@pytest.fixture
def many_lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps({"content": f"line {number}"}) + "\n" for number in range(LINES)))
    return path


def test_all_that_was_acknowledged_before_the_peer_was_killed_is_there_after_its_restart(
    alice: RealPeer, many_lines: Path
) -> None:
    session = alice.start().one("new")["session"]
    with many_lines.open("rb") as lines:
        sending = alice.open("send", session, "--jsonl", stdin=lines)
        acknowledged = [sending.row()["entry"] for _ in range(200)]

        alice.kill()
        acknowledged += [row["entry"] for row in sending.rest()]

    assert sending.wait() == 6
    assert 200 <= len(acknowledged) < LINES
    entries = alice.start().run("log", session, "--all")
    assert [entry["id"] for entry in entries][: len(acknowledged)] == acknowledged
    assert [entry["content"] for entry in entries] == [f"line {number}" for number in range(len(entries))]
    assert alice.one("verify", session)["ok"] is True


def test_who_feeds_lines_learns_at_once_that_the_peer_is_gone(alice: RealPeer) -> None:
    session = alice.start().one("new")["session"]
    sending = alice.open("send", session, "--jsonl", stdin=subprocess.PIPE)
    assert sending.process.stdin is not None
    sending.process.stdin.write(b'{"content": "one"}\n')
    sending.process.stdin.flush()
    first = sending.row()["entry"]

    alice.kill()

    assert sending.wait() == 6, "though its input is still open"
    assert [entry["id"] for entry in alice.run("log", session)] == [first]


def test_who_follows_learns_at_once_that_the_peer_is_gone(alice: RealPeer) -> None:
    session = alice.start().one("new")["session"]
    alice.run("send", session, "here")
    following = alice.open("follow", session)
    following.row()

    alice.kill()

    assert list(following.rest()) == []
    assert following.wait() == 6


def test_a_second_peer_on_one_home_waits_and_then_names_the_first(alice: RealPeer) -> None:
    alice.start()
    began = time.monotonic()

    second = alice.try_("up", "--listen", "127.0.0.1:0", seconds=30)

    assert second.code == 5
    assert 4 < time.monotonic() - began < 20
    assert f"process {alice.pid}" in second.errors
    assert second.rows == []
    assert alice.one("status")["running"] is True


def test_after_a_kill_the_next_peer_starts_at_once(alice: RealPeer) -> None:
    alice.start().kill()
    assert alice.one("status")["running"] is False
    assert alice.start().one("status")["running"] is True
