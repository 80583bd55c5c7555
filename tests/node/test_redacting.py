"""What a redact does in odd orders: before its target, beside it, to an edit, to nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roost.adapters.store.records import CONTENT_ERASED
from roost.core import operation as operations
from roost.core.entry import encode_content
from roost.core.heads import EntryHead, RedactHead, encode_head
from roost.core.ids import DocumentId, LogId, OperationId
from roost.core.operation import Operation
from roost.node.peer import Peer
from tests.node.running import key_of, run, running, sync

MALLORY = key_of("mallory")
SECRET = encode_content(bytes(16), "mallory", "secret")


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    async with running(tmp_path / "peer") as one:
        yield one


async def pair(peer: Peer, content: bytes) -> tuple[DocumentId, Operation, Operation]:
    """A session, and mallory's entry and its redact, in two logs, so that either may come first."""
    document = DocumentId(bytes.fromhex(str((await run(peer, "new", name="demo"))[0]["session"])))
    granted = await run(peer, "access_grant", session="demo", key=MALLORY.public.hex(), role="write")
    proof = OperationId(bytes.fromhex(str(granted[0]["operation"])))
    said = made(peer, document, proof, "entry", encode_head(EntryHead("message", None, None, 1)), content, b"mallory1")
    return document, said, made(peer, document, proof, "redact", encode_head(RedactHead(said.id)), b"", b"mallory2")


def made(
    peer: Peer, document: DocumentId, proof: OperationId, kind: str, head: bytes, content: bytes, log: bytes
) -> Operation:
    return operations.create(
        MALLORY, document=document, log=LogId(log), seq=0, backlink=None, deps=(proof,), proof=proof, kind=kind,
        time=peer.environment.now(), head_bytes=head, content=content,
    )  # fmt: skip


async def take(peer: Peer, document: DocumentId, operation: Operation) -> None:
    await peer.documents.get(document).receive([operation], frozenset([operation.id]), None)


async def test_a_redact_before_its_target_erases_it_on_arrival_and_nobody_is_asked_for_it(peer: Peer) -> None:
    document, said, redact = await pair(peer, SECRET)
    await take(peer, document, redact)
    await take(peer, document, said)

    stored = peer.store.reader.operation(said.id)
    assert stored is not None
    assert (stored.operation.content, stored.content_state) == (None, CONTENT_ERASED)
    assert peer.store.reader.absent_contents(document, 10) == []


async def test_a_target_that_comes_while_its_redact_is_being_committed_is_erased_too(peer: Peer) -> None:
    document, said, redact = await pair(peer, SECRET)
    await asyncio.gather(take(peer, document, redact), take(peer, document, said))

    stored = peer.store.reader.operation(said.id)
    assert stored is not None
    assert stored.operation.content is None


async def test_a_redacted_entry_of_no_bytes_stays_readable_and_whole(peer: Peer) -> None:
    document, said, redact = await pair(peer, b"")
    await take(peer, document, redact)
    await take(peer, document, said)

    assert [row["redacted"] for row in await run(peer, "log", session="demo")] == [True]
    assert (await run(peer, "verify", session="demo"))[0]["ok"] is True


async def test_an_edit_that_an_admin_redacts_is_out_of_the_state_at_once(peer: Peer, tmp_path: Path) -> None:
    await run(peer, "new", name="demo")
    document = peer.sessions.resolve("demo")
    async with running(tmp_path / "other") as other:
        await sync(other, str((await run(peer, "share", session="demo"))[-1]["ticket"]))
        rude = await other.states.put(document, "meta", "topic", "rude words")
        await run(other, "sync")
    assert (await run(peer, "state", session="demo"))[0]["meta"] == {"name": "demo", "topic": "rude words"}

    await peer.documents.get(document).append("redact", encode_head(RedactHead(rude)))

    assert (await run(peer, "state", session="demo"))[0]["meta"] == {"name": "demo", "topic": None}
