"""A member who sends what it may not: refused with its code over a real socket, nothing stored changed, next to a
valid operation that is taken."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from roost.adapters.carriers.carrier import LinkClosed
from roost.core import operation as operations
from roost.core import wire
from roost.core.canonical import pack
from roost.core.entry import encode_content
from roost.core.heads import EntryHead, encode_head
from roost.core.ids import DocumentId, LogId, OperationId
from roost.core.operation import SIGNATURE_PREFIX, Header, Operation
from roost.node.link import STRANGE_MAX
from roost.node.peer import Peer
from tests.node.running import Hand, key_of, run, running

MALLORY = key_of("mallory")
LOG = LogId(b"mallorys")
SPACES = " " * (900 << 10)


class Setting(NamedTuple):
    """A session in which mallory may write, and has written one entry by hand."""

    peer: Peer
    document: DocumentId
    first: Operation
    second: Operation  # valid, not sent yet


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with running(tmp_path / "peer") as peer:
        session = str((await run(peer, "new", name="demo"))[0]["session"])
        granted = await run(peer, "access_grant", session="demo", key=MALLORY.public.hex(), role="write")
        document = DocumentId(bytes.fromhex(session))
        proof = OperationId(bytes.fromhex(str(granted[0]["operation"])))
        first = _entry(peer, document, proof, None)
        async with Hand.dial(peer, MALLORY) as hand:
            await hand.say(wire.Operations.of(document, 1, [first]))
            await hand.hear(wire.Acknowledge)
            assert peer.store.reader.operation(first.id) is not None
            yield Setting(peer, document, first, _entry(peer, document, proof, first))


def _entry(
    peer: Peer, document: DocumentId, proof: OperationId, before: Operation | None, text: str = "hello"
) -> Operation:
    head = encode_head(EntryHead("message", None, None, peer.environment.now()))
    return operations.create(
        MALLORY,
        document=document,
        log=LOG,
        seq=0 if before is None else before.seq + 1,
        backlink=None if before is None else before.id,
        deps=(proof,) if before is None else (),
        proof=proof,
        kind="entry",
        time=peer.environment.now() if before is None else before.time + 1_000_000,
        head_bytes=head,
        content=encode_content(bytes(16), "mallory", text),
    )


class Raw(msgspec.Struct):
    """An operation as bytes, which may be anything."""

    header_bytes: bytes
    signature: bytes
    head_bytes: bytes
    content: bytes | None
    content_hash: bytes | None = None
    absence: bytes = b""

    @property
    def id(self) -> OperationId:
        return OperationId(sha256(self.header_bytes).digest())


def _with(operation: Operation, **fields: object) -> Raw:
    """The operation with other header fields, truly signed by mallory."""
    header = msgspec.msgpack.decode(operation.header_bytes, type=Header)
    changed = msgspec.msgpack.encode(msgspec.structs.replace(header, **fields))
    return Raw(changed, MALLORY.sign(SIGNATURE_PREFIX, changed), operation.head_bytes, operation.content)


def _with_head(operation: Operation, head: bytes) -> Raw:
    body_hash = operations.body_hash(head, operation.content_hash)
    content = operation.content or b""
    raw = _with(operation, body_size=len(head) + len(content), body_hash=body_hash)
    raw.head_bytes = head
    return raw


def _with_content(operation: Operation, content: bytes) -> Raw:
    raw = _with(operation)
    raw.content = content
    return raw


def _not_canonical(operation: Operation) -> Raw:
    longer = operation.header_bytes[:1] + b"\xcc\x01" + operation.header_bytes[2:]  # the version in two bytes
    return Raw(longer, MALLORY.sign(SIGNATURE_PREFIX, longer), operation.head_bytes, operation.content)


MUTATIONS: dict[str, tuple[Callable[[Setting], Raw], str]] = {
    "version": (lambda it: _with(it.second, version=2), "bad_version"),
    "document": (lambda it: _with(it.second, document=b"d" * 32), "wrong_document"),
    "author of small order": (lambda it: _with(it.second, author=bytes(32)), "bad_key"),
    "log": (lambda it: _with(it.second, log=b"another1"), "bad_chain"),
    "seq": (lambda it: _with(it.second, seq=2), "bad_chain"),
    "no backlink": (lambda it: _with(it.second, backlink=None), "bad_chain"),
    "backlink of another author": (lambda it: _with(it.second, backlink=bytes(it.document)), "bad_chain"),
    "deps not ascending": (lambda it: _with(it.second, deps=(b"z" * 32, b"a" * 32)), "bad_deps"),
    "too many deps": (lambda it: _with(it.second, deps=tuple(bytes([n]) * 32 for n in range(33))), "bad_deps"),
    "backlink among deps": (lambda it: _with(it.second, deps=(it.first.id,)), "bad_deps"),
    "proof nil": (lambda it: _with(it.second, proof=None), "bad_proof"),
    "proof is the backlink": (lambda it: _with(it.second, proof=it.first.id), "bad_proof"),
    "proof from nowhere": (lambda it: _with(it.second, proof=b"p" * 32), "bad_proof"),
    "kind with a digit": (lambda it: _with(it.second, kind="entry2"), "malformed"),
    "a second genesis": (lambda it: _with(it.second, kind="genesis"), "bad_chain"),
    "time not after its parent": (lambda it: _with(it.second, time=it.first.time), "bad_time"),
    "body size": (lambda it: _with(it.second, body_size=it.second.body_size + 1), "bad_body"),
    "body hash": (lambda it: _with(it.second, body_hash=b"h" * 32), "bad_body"),
    "body too large": (lambda it: _with(it.second, body_size=(960 << 10) + 1), "too_large"),
    "content": (lambda it: _with_content(it.second, b"x" * len(it.second.content or b"")), "bad_body"),
    "head without a field": (lambda it: _with_head(it.second, pack({"type": "message"})), "bad_head"),
    "head not a map": (lambda it: _with_head(it.second, b"\x90"), "malformed"),
    "head not canonical": (lambda it: _with_head(it.second, b"\x82\xa1b\x01\xa1a\x01"), "not_canonical"),
    "header not canonical": (lambda it: _not_canonical(it.second), "not_canonical"),
}


@pytest.mark.parametrize("name", MUTATIONS)
async def test_each_mutation_is_refused_with_its_code_and_a_valid_neighbour_is_taken(
    setting: Setting, name: str
) -> None:
    mutate, code = MUTATIONS[name]
    raw = mutate(setting)
    before = setting.peer.store.reader.document(setting.document)
    async with Hand.dial(setting.peer, MALLORY) as hand:
        await hand.say(wire.Operations.of(setting.document, 1, [raw]))
        refused = await hand.hear(wire.Refuse)

        assert isinstance(refused, wire.Refuse)
        assert [(one.id, one.code) for one in refused.refusals] == [(raw.id, code)]
        assert setting.peer.store.reader.document(setting.document) == before
        await hand.say(wire.Operations.of(setting.document, 2, [setting.second]))
        await hand.hear(wire.Acknowledge)
        if name != "content":  # that one has the id of the refused operation, and is refused for the link's life
            await _until_stored(hand, setting)


async def _until_stored(hand: Hand, setting: Setting) -> None:
    if setting.peer.store.reader.operation(setting.second.id) is None:
        await hand.hear(wire.Acknowledge)
    assert setting.peer.store.reader.operation(setting.second.id) is not None


async def test_a_false_signature_is_parked_until_a_true_one_vouches_for_it(setting: Setting) -> None:
    async with Hand.dial(setting.peer, MALLORY) as hand:
        false = Raw(setting.second.header_bytes, bytes(64), setting.second.head_bytes, setting.second.content)

        await hand.say(wire.Operations.of(setting.document, 1, [false]))
        await hand.hear(wire.Acknowledge)
        assert setting.peer.store.reader.operation(setting.second.id) is None

        await hand.say(wire.Operations.of(setting.document, 2, [setting.second]))
        await hand.hear(wire.Acknowledge)
        await _until_stored(hand, setting)


async def test_a_stranger_is_told_nothing_and_may_push_nothing(setting: Setting) -> None:
    async with Hand.dial(setting.peer, key_of("stranger")) as hand:
        before = setting.peer.store.reader.document(setting.document)

        await hand.say(wire.Operations.of(setting.document, 1, [setting.second]))
        here = await hand.hear(wire.Error)
        await hand.say(wire.Digest(DocumentId(b"n" * 32), 1, 0, b"d" * 32))
        nowhere = await hand.hear(wire.Error)

        assert isinstance(here, wire.Error)
        assert isinstance(nowhere, wire.Error)
        assert (here.code, here.detail) == (nowhere.code, nowhere.detail) == ("not_a_reader", "")
        assert setting.peer.store.reader.document(setting.document) == before


async def test_of_documents_that_a_stranger_makes_up_nothing_is_kept(setting: Setting) -> None:
    async with Hand.dial(setting.peer, key_of("stranger")) as hand:
        for number in range(50):
            document = DocumentId(number.to_bytes(32, "big"))
            await hand.say(wire.Digest(document, 1, 0, b"d" * 32))
            await hand.hear(wire.Error)
        assert len(setting.peer.links.copies) == 1


async def test_a_link_that_goes_on_sending_what_is_refused_is_closed(setting: Setting) -> None:
    async with Hand.dial(setting.peer, MALLORY) as hand:
        for number in range(1, 40):
            raw = _with(setting.second, body_hash=bytes([number]) * 32)
            try:
                await hand.say(wire.Operations.of(setting.document, number, [raw]))
            except LinkClosed:
                break
        with pytest.raises(LinkClosed):
            await hand.hear(wire.Ephemeral)  # none comes: the link ends
        assert setting.peer.links.refusals["malformed"] + setting.peer.links.refusals["bad_body"] > 0


@pytest.mark.parametrize("frame", [b"", b"\x07abc", b"\x00\xc1", b"\x00\x92\x10\x01", b"\x01not zstd", bytes(100)])
async def test_a_malformed_frame_closes_the_link_and_changes_nothing(setting: Setting, frame: bytes) -> None:
    before = setting.peer.store.reader.document(setting.document)
    async with Hand.dial(setting.peer, MALLORY) as hand:
        await hand.wire.send(frame)

        with pytest.raises(LinkClosed):
            await hand.hear(wire.Ephemeral)
        assert setting.peer.store.reader.document(setting.document) == before


async def test_a_stranger_who_goes_on_asking_loses_the_link(setting: Setting) -> None:
    async with Hand.dial(setting.peer, key_of("stranger")) as hand:
        for _ in range(STRANGE_MAX):
            await hand.say(wire.Digest(setting.document, 1, 0, b"d" * 32))
            await hand.hear(wire.Error)
        await hand.say(wire.Digest(setting.document, 1, 0, b"d" * 32))

        with pytest.raises(LinkClosed):
            await hand.hear(wire.Error)
        assert setting.peer.links.refusals["not_a_reader"] > STRANGE_MAX


async def test_who_sends_small_frames_that_unpack_to_much_waits_until_it_is_committed(setting: Setting) -> None:
    """150 kB of frames took 600 MB of memory, and held up everybody for half a minute."""
    log = [setting.first]
    for _ in range(16):
        log.append(_entry(setting.peer, setting.document, setting.first.proof or setting.first.id, log[-1], SPACES))
    thread = setting.peer.store._thread
    assert thread is not None
    async with Hand.dial(setting.peer, MALLORY) as hand:
        with thread._lock:  # a disk that takes nothing for a while
            for at in range(1, len(log), 4):
                await hand.say(wire.Operations.of(setting.document, at, log[at : at + 4]))
            await hand.say(wire.Digest(DocumentId(b"n" * 32), 1, 0, b"d" * 32))
            with pytest.raises(TimeoutError):  # it is not read
                async with asyncio.timeout(1):
                    await hand.hear(wire.Error)
        await hand.hear(wire.Error)
        await _until_held(hand, setting, log[-1])


async def _until_held(hand: Hand, setting: Setting, operation: Operation) -> None:
    while setting.peer.store.reader.operation(operation.id) is None:
        await hand.hear(wire.Acknowledge)


async def test_contents_are_read_as_the_other_side_takes_them(setting: Setting) -> None:
    """Asking for 1,024 of the largest took a gigabyte of memory, and the link."""
    text = random.Random(1).randbytes(450_000).hex()
    log = [setting.first]
    for _ in range(50):  # 22 MB as frames
        log.append(_entry(setting.peer, setting.document, setting.first.proof or setting.first.id, log[-1], text))
    async with Hand.dial(setting.peer, MALLORY) as hand:
        for number, operation in enumerate(log[1:], start=1):
            await hand.say(wire.Operations.of(setting.document, number, [operation]))
            await hand.hear(wire.Acknowledge)
        wanted = {operation.id for operation in log[1:]}

        await hand.say(wire.WantContents(setting.document, tuple(wanted)))
        while wanted:
            given = await hand.hear(wire.Contents)
            assert isinstance(given, wire.Contents)
            wanted -= {identity for identity, _ in given.contents}
