"""What a peer alone knows about sessions: names, channels, records."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roost.core.errors import Conflict, NameTaken, NotFound, Usage
from roost.core.ids import DocumentId
from roost.node.local import open_peer
from roost.node.peer import Peer
from roost.node.registry import check_name
from tests.node.running import run


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    peer = open_peer(tmp_path)
    yield peer
    await peer.close()


async def new(peer: Peer, name: str) -> DocumentId:
    return DocumentId(bytes.fromhex(str((await run(peer, "new", name=name))[0]["session"])))


async def test_a_name_belongs_to_one_session(peer: Peer) -> None:
    await new(peer, "demo")
    with pytest.raises(NameTaken):
        await new(peer, "demo")
    assert len(await run(peer, "sessions")) == 1


async def test_renaming_frees_the_old_name(peer: Peer) -> None:
    document = await new(peer, "demo")
    await run(peer, "name", session="demo", name="better")
    other = await new(peer, "demo")
    assert (peer.registry.by_name("better"), peer.registry.by_name("demo")) == (document, other)


async def test_a_writer_mirrors_the_name_into_the_shared_state(peer: Peer) -> None:
    await new(peer, "demo")
    await run(peer, "name", session="demo", name="better")
    assert (await run(peer, "state", session="better"))[0]["meta"] == {"name": "better"}


@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "tab\there", "deadbeef", "0123456789abcdef"])
def test_a_name_prints_on_one_line_and_looks_like_no_id(name: str) -> None:
    with pytest.raises(Usage):
        check_name(name)


async def test_a_room_belongs_to_one_session_and_a_session_may_have_many_rooms(peer: Peer) -> None:
    first, second = await new(peer, "first"), await new(peer, "second")
    await peer.registry.attach("!a:example.org", first)
    await peer.registry.attach("!b:example.org", first)
    await peer.registry.attach("!a:example.org", first)

    with pytest.raises(Conflict):
        await peer.registry.attach("!a:example.org", second)
    assert peer.registry.rooms_of(first) == ["!a:example.org", "!b:example.org"]
    assert peer.registry.channel("!b:example.org") == first


async def test_a_detached_room_can_be_attached_elsewhere(peer: Peer) -> None:
    first, second = await new(peer, "first"), await new(peer, "second")
    await peer.registry.attach("!a:example.org", first)
    await peer.registry.detach("!a:example.org")
    await peer.registry.attach("!a:example.org", second)
    assert peer.registry.channel("!a:example.org") == second
    with pytest.raises(NotFound):
        await peer.registry.detach("!nowhere:example.org")


async def test_names_and_channels_survive_a_restart(tmp_path: Path) -> None:
    before = open_peer(tmp_path)
    document = await new(before, "demo")
    await before.registry.attach("!a:example.org", document)
    await before.close()

    after = open_peer(tmp_path)
    assert after.registry.by_name("demo") == after.registry.channel("!a:example.org") == document
    await after.close()
