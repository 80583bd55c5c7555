"""What the bytes of one operation alone can show: form, limits, hashes, signature."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from roost.core import canonical
from roost.core import operation as operations
from roost.core.errors import BadBody, BadSignature, Refused, TooLarge
from roost.core.operation import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADER_BYTES_MAX,
    NOT_HELD,
    Operation,
    body_hash,
    create,
    decode,
    verify,
)
from tests.core.model import BIRTH, Scene, genesis, grant, head_of, key_of, log_of, public, verbs

FIELDS = ("version", "document", "author", "log", "seq", "backlink", "deps", "proof", "kind", "time", "body_size",
          "body_hash")  # fmt: skip
A, B, C = b"a" * 32, b"b" * 32, b"c" * 32
SMALL_ORDER = bytes([1]) + bytes(31)
NOT_CANONICAL_KEY = b"\xff" * 31 + b"\x7f"


def entry() -> Operation:
    """An entry with a predecessor and two deps, one of them its proof."""
    scene = Scene("owner")
    first = scene.write("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    scene.write("kim", proof=given)
    return scene.write("kim", proof=given, after=[first, given])


ENTRY = entry()
GENESIS = genesis("owner")


def header_of(operation: Operation) -> list[Any]:
    fields: list[Any] = msgspec.msgpack.decode(operation.header_bytes)
    return fields


def changed(operation: Operation, field: str, value: object) -> bytes:
    fields = header_of(operation)
    fields[FIELDS.index(field)] = value
    return msgspec.msgpack.encode(fields)


def decode_with(operation: Operation, header: bytes) -> Operation:
    return decode(header, operation.signature, operation.head_bytes, operation.content)


# field, a value that is refused, the code, and a neighbour that has the right form
MUTATIONS: list[tuple[str, object, str, object]] = [
    ("version", 2, "bad_version", 1),
    ("version", 0, "bad_version", 1),
    ("version", True, "malformed", 1),
    ("version", 1.0, "malformed", 1),
    ("document", b"", "malformed", C),
    ("document", C[1:], "malformed", C),
    ("document", C + b"c", "malformed", C),
    ("document", "c" * 32, "malformed", C),
    ("document", None, "malformed", C),
    ("author", C[1:], "malformed", public("lee")),
    ("author", None, "malformed", public("lee")),
    ("author", SMALL_ORDER, "bad_key", public("lee")),
    ("author", bytes(32), "bad_key", public("lee")),
    ("author", NOT_CANONICAL_KEY, "bad_key", public("lee")),
    ("log", b"seven..", "malformed", b"eight..."),
    ("log", b"nine.....", "malformed", b"eight..."),
    ("log", "eight...", "malformed", b"eight..."),
    ("seq", -1, "malformed", 2),
    ("seq", 1 << 53, "malformed", (1 << 53) - 1),
    ("seq", 1.0, "malformed", 1),
    ("seq", True, "malformed", 1),
    ("seq", 0, "bad_chain", 1),
    ("backlink", None, "bad_chain", C),
    ("backlink", C[1:], "malformed", C),
    ("backlink", "c" * 32, "malformed", C),
    ("deps", [B, A], "bad_deps", [A, B]),
    ("deps", [A, A], "bad_deps", [A]),
    ("deps", [bytes([n]) * 32 for n in range(33)], "bad_deps", [bytes([n]) * 32 for n in range(32)]),
    ("deps", [ENTRY.backlink], "bad_deps", []),
    ("deps", [C[1:]], "malformed", [C]),
    ("deps", ["c" * 32], "malformed", [C]),
    ("deps", None, "malformed", []),
    ("proof", None, "bad_proof", C),
    ("proof", ENTRY.backlink, "bad_proof", ENTRY.document),
    ("proof", C[1:], "malformed", C),
    ("kind", "", "malformed", "e"),
    ("kind", "k" * 17, "malformed", "k" * 16),
    ("kind", "entr1", "malformed", "entri"),
    ("kind", "entrée", "malformed", "entree"),
    ("kind", "en try", "malformed", "enTry"),
    ("kind", b"entry", "malformed", "entry"),
    ("kind", "genesis", "bad_chain", "later"),
    ("kind", "claim", "bad_body", "later"),
    ("time", -1, "malformed", 0),
    ("time", 1 << 53, "malformed", (1 << 53) - 1),
    ("time", 1.0, "malformed", 1),
    ("time", float("nan"), "malformed", 1),
    ("time", "1", "malformed", 1),
    ("body_size", ENTRY.body_size + 1, "bad_body", ENTRY.body_size),
    ("body_size", ENTRY.body_size - 1, "bad_body", ENTRY.body_size),
    ("body_size", BODY_BYTES_MAX + 1, "too_large", ENTRY.body_size),
    ("body_size", -1, "malformed", ENTRY.body_size),
    ("body_hash", C, "bad_body", body_hash(ENTRY.head_bytes, ENTRY.content_hash)),
    ("body_hash", C[1:], "malformed", body_hash(ENTRY.head_bytes, ENTRY.content_hash)),
]


@pytest.mark.parametrize(("field", "bad", "code", "good"), MUTATIONS)
def test_a_header_with_one_wrong_field_is_refused_and_its_neighbour_is_not(
    field: str, bad: object, code: str, good: object
) -> None:
    with pytest.raises(Refused) as refusal:
        decode_with(ENTRY, changed(ENTRY, field, bad))
    assert refusal.value.code == code
    assert header_of(decode_with(ENTRY, changed(ENTRY, field, good)))[FIELDS.index(field)] == good


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_covered_by_the_signature(field: str) -> None:
    others: dict[str, object] = {
        "version": None, "document": C, "author": public("lee"), "log": b"eight...", "seq": 9, "backlink": C,
        "deps": [], "proof": ENTRY.document, "kind": "later", "time": ENTRY.time + 1, "body_size": None,
        "body_hash": None,
    }  # fmt: skip
    other = others[field]
    verify(ENTRY)
    if other is None:  # it cannot change by itself and keep its form
        return
    with pytest.raises(BadSignature):
        verify(decode_with(ENTRY, changed(ENTRY, field, other)))


@pytest.mark.parametrize(
    ("field", "bad"),
    [("document", C), ("seq", 1), ("backlink", C), ("deps", [C]), ("proof", C)],
)
def test_a_genesis_has_nothing_before_it(field: str, bad: object) -> None:
    with pytest.raises(Refused) as refusal:
        decode_with(GENESIS, changed(GENESIS, field, bad))
    assert refusal.value.code == "bad_chain"
    assert decode_with(GENESIS, changed(GENESIS, "time", BIRTH + 1)).document != GENESIS.document


def test_the_first_of_a_log_names_its_proof_among_its_deps() -> None:
    fields = header_of(ENTRY)
    fields[4], fields[5], fields[6], fields[7] = 0, None, [A], B
    with pytest.raises(Refused) as refusal:
        decode_with(ENTRY, msgspec.msgpack.encode(fields))
    assert refusal.value.code == "bad_proof"
    fields[6] = [A, B]
    assert decode_with(ENTRY, msgspec.msgpack.encode(fields)).proof == B
    fields[6] = []
    with pytest.raises(Refused) as refusal:
        decode_with(ENTRY, msgspec.msgpack.encode(fields))
    assert refusal.value.code == "bad_deps"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "malformed"),
        (ENTRY.header_bytes[:-1], "malformed"),
        (ENTRY.header_bytes + b"\0", "malformed"),
        (msgspec.msgpack.encode(header_of(ENTRY)[:-1]), "malformed"),
        (msgspec.msgpack.encode([*header_of(ENTRY), 1]), "malformed"),
        (msgspec.msgpack.encode({"version": 1}), "malformed"),
        (b"\xdc\x00\x0c" + ENTRY.header_bytes[1:], "not_canonical"),  # a longer form of the same array
        (ENTRY.header_bytes[:1] + b"\xcc\x01" + ENTRY.header_bytes[2:], "not_canonical"),  # ... of the same number
        (bytes(HEADER_BYTES_MAX + 1), "too_large"),
    ],
)
def test_a_header_that_is_no_canonical_array_of_twelve_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(Refused) as refusal:
        decode_with(ENTRY, raw)
    assert refusal.value.code == code


def test_an_operation_survives_its_bytes() -> None:
    again = decode(ENTRY.header_bytes, ENTRY.signature, ENTRY.head_bytes, ENTRY.content)
    assert again == ENTRY
    assert again.id == sha256(ENTRY.header_bytes).digest()
    assert {bytes(GENESIS.document), bytes(GENESIS.id), bytes(GENESIS.proof)} == {GENESIS.id}
    verify(again)


def test_a_content_may_be_absent_and_its_hash_stands_for_it() -> None:
    bare = decode(ENTRY.header_bytes, ENTRY.signature, ENTRY.head_bytes, None, ENTRY.content_hash, C)
    assert (bare.id, bare.content, bare.absence) == (ENTRY.id, None, C)
    assert bare == ENTRY.without_content(C)
    assert ENTRY.without_content().absence == NOT_HELD
    for content_hash in (None, C, C[1:]):
        with pytest.raises(BadBody):
            decode(ENTRY.header_bytes, ENTRY.signature, ENTRY.head_bytes, None, content_hash)


@pytest.mark.parametrize("content", [b"", b"four!", b"fou"])
def test_a_content_of_another_length_or_hash_is_a_failed_transfer(content: bytes) -> None:
    with pytest.raises(BadBody):
        decode(ENTRY.header_bytes, ENTRY.signature, ENTRY.head_bytes, content)


def test_a_head_that_does_not_fit_its_hash_is_refused() -> None:
    assert ENTRY.content is not None
    other = head_of("entry").replace(b"message", b"MESSAGE")
    with pytest.raises(BadBody):
        decode(ENTRY.header_bytes, ENTRY.signature, other, ENTRY.content)


def test_a_head_without_content_has_no_absent_one() -> None:
    """An operation with an empty content is whole; nothing is left to ask for."""
    whole = Scene("owner").write("owner", verbs(grant("kim", "read")))
    assert whole.content == b""
    with pytest.raises(BadBody):
        decode(whole.header_bytes, whole.signature, whole.head_bytes, None, whole.content_hash)


def _create(kind: str, head: bytes, content: bytes, *, seq: int = 0) -> Operation:
    return create(
        key_of("owner"), document=GENESIS.document, log=log_of("x"), seq=seq, backlink=None, deps=(GENESIS.id,),
        proof=GENESIS.id, kind=kind, time=BIRTH + 1, head_bytes=head, content=content,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["access", "claim", "redact", "join"])
def test_known_kinds_other_than_entry_and_edit_have_no_content(kind: str) -> None:
    heads = {"access": verbs(grant("kim", "read")), "redact": canonical.pack({"target": C})}
    head = heads.get(kind, head_of(kind))
    assert _create(kind, head, b"").content == b""
    with pytest.raises(BadBody):
        _create(kind, head, b"x")


def test_an_unknown_kind_may_have_a_content() -> None:
    assert _create("whisper", head_of("whisper"), b"psst").content == b"psst"


def test_head_and_body_have_limits() -> None:
    def head(size: int) -> bytes:
        return canonical.pack({"pad": "x" * (size - 8)})

    assert len(head(HEAD_BYTES_MAX)) == HEAD_BYTES_MAX
    full = _create("later", head(HEAD_BYTES_MAX), bytes(BODY_BYTES_MAX - HEAD_BYTES_MAX))
    assert full.body_size == BODY_BYTES_MAX
    with pytest.raises(TooLarge):
        _create("later", head(HEAD_BYTES_MAX + 1), b"")
    with pytest.raises(TooLarge):
        _create("later", head(HEAD_BYTES_MAX), bytes(BODY_BYTES_MAX - HEAD_BYTES_MAX + 1))


@pytest.mark.parametrize(("signature", "absence"), [(bytes(63), b""), (bytes(65), b""), (bytes(64), b"short")])
def test_signature_and_absence_have_one_length(signature: bytes, absence: bytes) -> None:
    with pytest.raises(Refused) as refusal:
        decode(ENTRY.header_bytes, signature, ENTRY.head_bytes, ENTRY.content, None, absence)
    assert refusal.value.code == "malformed"


def test_what_is_not_signed_by_its_author_has_a_false_signature() -> None:
    decoded = decode(ENTRY.header_bytes, bytes(64), ENTRY.head_bytes, ENTRY.content)
    with pytest.raises(BadSignature):
        verify(decoded)
    other = key_of("eve").sign(operations.SIGNATURE_PREFIX, ENTRY.header_bytes)
    with pytest.raises(BadSignature):
        verify(decode(ENTRY.header_bytes, other, ENTRY.head_bytes, ENTRY.content))
    without_prefix = key_of("kim").sign(b"roost/operation/2\0", ENTRY.header_bytes)
    with pytest.raises(BadSignature):
        verify(decode(ENTRY.header_bytes, without_prefix, ENTRY.head_bytes, ENTRY.content))


def test_nothing_is_created_that_a_peer_would_refuse() -> None:
    with pytest.raises(Refused):
        _create("entry", head_of("entry"), b"", seq=1)


def test_a_repr_shows_no_words() -> None:
    spoken = _create("entry", head_of("entry"), b"the door code")
    assert "door" not in repr(spoken)
