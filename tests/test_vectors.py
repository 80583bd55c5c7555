"""Every test vector beside docs/protocol.md, good and hostile: operations, signatures, canonical form, state.

Vectors of what travels besides operations are in test_vectors_between_peers.py.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import msgspec
import pytest
from msgspec import Struct

from roost.core import authentic, canonical, errors, keys
from roost.core import operation as operations
from roost.core.edits import EditRecord, read_values
from roost.core.heads import EditHead
from roost.core.ids import DocumentId, LogId, OperationId, PeerKey
from roost.core.keys import SigningKey
from roost.core.state import State
from tests.core.model import Peer
from tests.vector_files import Bad, Good, Hex, Operations, Refused, as_plain, load

HEADER = (
    "version", "document", "author", "log", "seq", "backlink", "deps", "proof", "kind", "time", "body_size",
    "body_hash",
)  # fmt: skip
NEVER_ON_AN_OPERATION = {"refused", "bad_ticket", "bad_request", "replayed", "clock_off", "busy"}

GOOD = load("operations.json", Operations)
BAD = load("refused.json", Refused)


def named(vector: Good | Bad) -> str:
    return vector.name


def peer_with_everything() -> Peer:
    first, *others = [vector.decode() for vector in GOOD.operations]
    peer = Peer(first, now=BAD.clock)
    received = peer.deliver(others)
    assert (received.refused, peer.waiting, received.withheld) == ([], [], [])
    return peer


# --- operations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", GOOD.operations, ids=named)
def test_a_good_operation_is_decoded_to_what_its_fields_say(vector: Good) -> None:
    operation = vector.decode()
    operations.verify(operation)
    fields = dict(zip(HEADER, msgspec.msgpack.decode(vector.header), strict=True))
    assert operation.id == vector.id == sha256(vector.header).digest()
    assert operation.content_hash == vector.content_hash
    assert as_plain(fields) == vector.fields
    assert as_plain(msgspec.msgpack.decode(vector.head)) == vector.head_fields


@pytest.mark.parametrize("vector", GOOD.operations, ids=named)
def test_the_same_fields_and_key_make_the_same_bytes(vector: Good) -> None:
    held = vector.decode()
    genesis = held.kind == "genesis"
    made = operations.create(
        SigningKey.from_seed(GOOD.keys[vector.by].seed),
        document=None if genesis else DocumentId(held.document),
        log=LogId(held.log),
        seq=held.seq,
        backlink=held.backlink,
        deps=held.deps,
        proof=None if genesis else held.proof,
        kind=held.kind,
        time=held.time,
        head_bytes=vector.head,
        content=vector.content or b"",
    )
    assert (made.header_bytes, made.signature) == (vector.header, vector.signature)


def test_every_kind_has_a_good_operation() -> None:
    kinds = {vector.fields["kind"] for vector in GOOD.operations}
    assert kinds == {"genesis", "access", "entry", "edit", "claim", "redact", "join", "reaction"}


@pytest.mark.parametrize("step", [1, -1])
def test_all_together_they_are_judged_ordered_and_headed_as_told_whatever_comes_first(step: int) -> None:
    first, *others = [vector.decode() for vector in GOOD.operations]
    peer = Peer(first, now=BAD.clock)
    for operation in others[::step]:
        peer.deliver([operation])
    by_order = sorted(GOOD.operations, key=lambda vector: (vector.decode().time, vector.id))
    assert {vector.name: peer.accepts(vector.decode()) for vector in GOOD.operations} == {
        vector.name: vector.accepted for vector in GOOD.operations
    }
    assert [vector.name for vector in by_order] == GOOD.order
    assert peer.document.heads == GOOD.heads
    assert {name: peer.document.access.role(PeerKey(key.public)) for name, key in GOOD.keys.items()} == GOOD.roles


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [one for one in BAD.refused if one.stage == "form"], ids=named)
def test_what_breaks_the_form_is_refused_with_its_code(vector: Bad) -> None:
    with pytest.raises(errors.Refused) as refusal:
        vector.decode(vector.content_hash, vector.absence)
    assert refusal.value.code == vector.code


@pytest.mark.parametrize("vector", [one for one in BAD.refused if one.stage == "signature"], ids=named)
def test_a_false_signature_is_refused_and_nothing_else_is_wrong_with_it(vector: Bad) -> None:
    operation = vector.decode()
    with pytest.raises(errors.BadSignature) as refusal:
        operations.verify(operation)
    assert refusal.value.code == vector.code


@pytest.mark.parametrize("vector", [one for one in BAD.refused if one.stage == "admission"], ids=named)
def test_what_its_ancestors_show_to_be_wrong_is_refused_with_its_code(vector: Bad) -> None:
    operation = vector.decode()
    operations.verify(operation)
    received = peer_with_everything().deliver([operation])
    outcome = {
        "refused": len(received.refused),
        "missing": len(received.missing),
        "known": len(received.known),
        "withheld": len(received.withheld),
        "admitted": len(received.operations),
    }
    assert {name: count for name, count in outcome.items() if count} == {vector.outcome: 1}
    assert [refusal.code for _, refusal in received.refused] == ([vector.code] if vector.code else [])


def test_every_code_that_an_operation_can_be_refused_with_has_a_vector() -> None:
    kinds: list[type[errors.Refused]] = [errors.Refused, *errors.Refused.__subclasses__()]
    codes = {kind.code for kind in kinds}
    assert {vector.code for vector in BAD.refused if vector.code} == codes - NEVER_ON_AN_OPERATION


def test_all_the_hostile_ones_together_change_nothing() -> None:
    peer = peer_with_everything()
    before = (peer.document.heads, len(peer.arrived))
    for vector in BAD.refused:
        if vector.code is None:
            continue
        try:
            operation = vector.decode(vector.content_hash, vector.absence)
        except errors.Refused:
            continue
        authentic_ones = authentic.authenticate([operation], lambda one: authentic.is_signed(one, one.author))
        peer.deliver(authentic_ones.operations)
    assert (peer.document.heads, len(peer.arrived)) == before


# --- canonical form -------------------------------------------------------------------------------------------------


class Map(Struct):
    encoded: Hex
    edit_values: bool
    code: str | None
    why: str


class Maps(Struct):
    maps: list[Map]


@pytest.mark.parametrize("vector", load("canonical.json", Maps).maps, ids=lambda vector: vector.why)
def test_a_map_is_canonical_or_refused_with_its_code(vector: Map) -> None:
    if vector.code is None:
        value = canonical.unpack_map(vector.encoded, signed=vector.edit_values)
        assert canonical.pack(value) == vector.encoded
        return
    with pytest.raises(errors.Refused) as refusal:
        canonical.unpack_map(vector.encoded, signed=vector.edit_values)
    assert refusal.value.code == vector.code


# --- signatures -----------------------------------------------------------------------------------------------------


class Signature(Struct):
    name: str
    key: Hex
    message: Hex
    signature: Hex
    valid: bool
    why: str


class PublicKey(Struct):
    key: Hex
    valid: bool
    why: str


class Signatures(Struct):
    prefix: Hex
    signatures: list[Signature]
    keys: list[PublicKey]


SIGNATURES = load("signatures.json", Signatures)


@pytest.mark.parametrize("vector", SIGNATURES.signatures, ids=lambda vector: vector.name)
def test_a_signature_is_true_or_false_as_told(vector: Signature) -> None:
    try:
        keys.verify(vector.signature, PeerKey(vector.key), SIGNATURES.prefix, vector.message)
    except errors.BadSignature:
        assert not vector.valid
    else:
        assert vector.valid


@pytest.mark.parametrize("vector", SIGNATURES.keys, ids=lambda vector: f"{vector.key.hex()[:8]} {vector.why}")
def test_bytes_are_a_key_or_not_as_told(vector: PublicKey) -> None:
    try:
        keys.check_peer_key(vector.key)
    except errors.BadKey:
        assert not vector.valid
    else:
        assert vector.valid


# --- state ----------------------------------------------------------------------------------------------------------


class Containers(Struct):
    actor: Hex
    change: Hex
    heads: list[str]


class Made(Struct):
    unreadable: list[str]
    maps: dict[str, dict[str, str | int | float | bool | None]]
    texts: dict[str, str]
    heads: list[str]
    changes: dict[str, Hex]
    actors: dict[str, Hex]


class States(Struct):
    containers: dict[str, Containers]
    states: list[Made]


STATES = load("state.json", States)


@lru_cache(maxsize=1)
def everything() -> Peer:
    return peer_with_everything()


def records(unreadable: list[str]) -> list[EditRecord]:
    peer = everything()
    found = []
    for vector in GOOD.operations:
        operation = vector.decode()
        if isinstance(operation.head, EditHead):
            position = peer.position(operation)
            log = peer.document.graph.stretches[position.stretch].log
            content = None if vector.name in unreadable else operation.content
            values = read_values(operation.head, content)
            found.append(EditRecord(operation.id, log, position, operation.time, operation.head.edits, values))
    return found


@pytest.mark.parametrize("kind", STATES.containers)
def test_the_first_change_of_a_kind_is_as_told(kind: str) -> None:
    vector = STATES.containers[kind]
    document = everything().document
    assert vector.actor == sha256(b"roost/containers/1\0" + kind.encode()).digest()[:16]
    assert vector.actor in vector.change
    assert list(State(kind, document.graph, document.id_at, {}).view().heads) == vector.heads


@pytest.mark.parametrize("vector", STATES.states, ids=lambda vector: "unreadable: " + ", ".join(vector.unreadable))
def test_equal_edits_with_equal_contents_give_equal_changes_and_heads(vector: Made) -> None:
    document = everything().document
    state = State("session", document.graph, document.id_at, {})
    made = state.update(document.liveness.frontier, records(vector.unreadable)).made
    names = {one.decode().id: one.name for one in GOOD.operations}
    view = state.view()
    assert (view.maps, view.texts, list(view.heads)) == (vector.maps, vector.texts, vector.heads)
    # 4 bytes of sum, 1 of readability, 16 of actor, then the change: core.history.
    assert {names[edit]: change[21:] for edit, change in made.items()} == vector.changes
    assert {names[edit]: change[5:21] for edit, change in made.items()} == vector.actors


@pytest.mark.parametrize("vector", STATES.states, ids=lambda vector: "unreadable: " + ", ".join(vector.unreadable))
def test_the_actor_of_a_change_is_that_of_its_log_or_of_the_branch_of_it(vector: Made) -> None:
    by_name = {one.name: one.decode() for one in GOOD.operations}
    log = by_name["edit"].author + by_name["edit"].log
    siblings: dict[str, OperationId] = {"fork": by_name["fork"].id, "edit": by_name["edit"].id}
    expected = {name: sha256(log + sibling).digest()[:16] for name, sibling in siblings.items()}
    assert {name: vector.actors[name] for name in expected} == expected
    assert vector.actors["edit_after"] == expected["edit"]
    apart = by_name["edit_apart"]
    assert vector.actors["edit_apart"] == sha256(apart.author + apart.log).digest()[:16]
