"""Temporary sessions live in the memory of a running peer, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.core.errors import Denied, NotFound, NotRunning
from roost.node.local import open_peer
from tests.node.running import run, running

SECRET = "the canary sings at midnight"


async def test_a_temporary_session_never_reaches_the_disk(tmp_path: Path) -> None:
    async with running(tmp_path) as peer:
        await run(peer, "new", name="hush", mode="temporary")
        await run(peer, "send", session="hush", content=SECRET)
        rows = await run(peer, "log", session="hush")
    assert [row["content"] for row in rows] == [SECRET]
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_temporary_session_is_gone_when_the_peer_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as peer:
        await run(peer, "new", name="hush", mode="temporary")
    async with running(tmp_path) as peer:
        with pytest.raises(NotFound):
            await run(peer, "log", session="hush")


async def test_a_temporary_session_is_listed_only_when_all_are_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path) as peer:
        await run(peer, "new", name="hush", mode="temporary")
        await run(peer, "new", name="plain")
        assert [row["name"] for row in await run(peer, "sessions")] == ["plain"]
        assert [row["name"] for row in await run(peer, "sessions", all=True)] == ["plain", "hush"]


async def test_a_temporary_session_is_never_shared(tmp_path: Path) -> None:
    async with running(tmp_path) as peer:
        await run(peer, "new", name="hush", mode="temporary")
        with pytest.raises(Denied):
            await run(peer, "share", session="hush")


async def test_without_a_running_peer_there_is_no_memory_to_keep_it_in(tmp_path: Path) -> None:
    peer = open_peer(tmp_path)
    try:
        with pytest.raises(NotRunning):
            await run(peer, "new", name="hush", mode="temporary")
    finally:
        await peer.close()
