"""Two and three peers behind real sockets: what is written on one is the same on all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from roost.core.heads import RedactHead, encode_head
from roost.core.ids import DocumentId, OperationId
from roost.node.peer import Peer
from roost.node.transcript import Json
from tests.node.running import run, running, sync


@pytest.fixture
async def trio(tmp_path: Path) -> AsyncIterator[tuple[Peer, Peer, Peer]]:
    """Three peers that share the session demo."""
    async with AsyncExitStack() as stack:
        a, b, c = [await stack.enter_async_context(running(tmp_path / name)) for name in "abc"]
        await run(a, "new", name="demo")
        ticket = str((await run(a, "share", session="demo"))[-1]["ticket"])
        await sync(b, ticket)
        await sync(c, ticket)
        yield a, b, c


async def entry_at(peer: Peer, content: str) -> Mapping[str, Json]:
    """The entry with this content, as soon as it is here."""
    async with asyncio.timeout(20):
        async for row in follow(peer):
            if row["content"] == content:
                return row
    raise AssertionError(content)


def follow(peer: Peer) -> AsyncIterator[Mapping[str, Json]]:
    from roost.node.commands import registry

    return registry()["follow"](peer, {"session": "demo", "n": 100})


async def test_what_one_writes_all_follow(trio: tuple[Peer, Peer, Peer]) -> None:
    a, b, c = trio
    await run(b, "send", session="demo", content="from b")
    assert (await entry_at(a, "from b"))["author"] == (await entry_at(c, "from b"))["author"] == b.key.public.hex()


async def test_members_meet_without_the_sharer(trio: tuple[Peer, Peer, Peer]) -> None:
    a, b, c = trio
    await run(a, "send", session="demo", content="before")
    await entry_at(b, "before")
    await a.stop()
    await run(b, "send", session="demo", content="without a")
    assert (await entry_at(c, "without a"))["author"] == b.key.public.hex()


async def test_a_session_can_be_joined_through_a_member_who_was_granted_late(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        a, b, c = [await stack.enter_async_context(running(tmp_path / name)) for name in "abc"]
        await run(a, "new", name="demo")
        for number in range(120):
            await run(a, "send", session="demo", content=f"{number} " + "words " * 5_000)
        ticket = str((await run(a, "share", session="demo", role="admin"))[-1]["ticket"])
        await sync(b, ticket)
        await a.stop()

        ticket = str((await run(b, "share", session="demo"))[-1]["ticket"])
        assert (await sync(c, ticket))["entries"] == 120


async def test_presence_reaches_linked_readers_and_is_not_stored(trio: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = trio
    document = a.sessions.resolve("demo")
    before = b.store.reader.document(document)
    heard = b.links.ephemeral(document)
    waiting = asyncio.ensure_future(anext(heard))
    await asyncio.sleep(0)

    a.links.publish(document, "typing", b"ada")

    async with asyncio.timeout(10):
        assert (await waiting).payload == b"ada"
    assert b.store.reader.document(document) == before
    await heard.aclose()


async def test_a_redacted_content_is_gone_on_every_peer_and_its_place_stays(trio: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = trio
    row = (await run(a, "send", session="demo", content="the door code is 4711"))[0]
    await entry_at(b, "the door code is 4711")
    target = OperationId(bytes.fromhex(str(row["entry"])))
    document = a.sessions.resolve("demo")

    await a.documents.get(document).append("redact", encode_head(RedactHead(target)))
    await run(a, "send", session="demo", content="after")
    await entry_at(b, "after")

    stored = b.store.reader.operation(target)
    assert stored is not None
    assert stored.operation.content is None
    (shown,) = [one for one in await run(b, "log", session="demo") if one["id"] == row["entry"]]
    assert (shown["content"], shown["redacted"]) == ("", True)
    assert (await run(b, "verify", session="demo"))[0]["ok"] is True


async def test_what_an_admin_redacts_of_another_is_hidden_at_once_and_kept_for_now(
    trio: tuple[Peer, Peer, Peer],
) -> None:
    a, b, _ = trio
    row = (await run(b, "send", session="demo", content="rude words"))[0]
    await entry_at(a, "rude words")
    target = OperationId(bytes.fromhex(str(row["entry"])))

    await a.documents.get(a.sessions.resolve("demo")).append("redact", encode_head(RedactHead(target)))
    await run(a, "send", session="demo", content="after")
    await entry_at(b, "after")

    stored = b.store.reader.operation(target)
    assert stored is not None
    assert stored.operation.content is not None
    assert [one["content"] for one in await run(b, "log", session="demo")] == ["", "after"]


async def test_a_writer_may_not_hide_what_others_wrote(trio: tuple[Peer, Peer, Peer]) -> None:
    a, b, _ = trio
    row = (await run(a, "send", session="demo", content="stays"))[0]
    await entry_at(b, "stays")
    document = DocumentId(bytes.fromhex(str(row["session"])))

    head = encode_head(RedactHead(OperationId(bytes.fromhex(str(row["entry"])))))
    await b.documents.get(document).append("redact", head)
    await run(b, "send", session="demo", content="after")
    await entry_at(a, "after")

    assert [one["content"] for one in await run(a, "log", session="demo")] == ["stays", "after"]
