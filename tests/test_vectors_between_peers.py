"""The test vectors of what peers tell each other: haves, frames, tickets, join requests, address records, requests."""

from __future__ import annotations

import hmac
from base64 import b64decode
from hashlib import sha256
from typing import get_args

import msgspec
import pytest
from msgspec import Struct

from roost.adapters.replays import ReplayCache
from roost.adapters.signatures import ReceivedRequest, verify_answer, verify_request
from roost.core import errors, have, keys, ticket, wire
from roost.core.heads import EntryHead
from roost.core.ids import DocumentId, PeerKey
from roost.node.joining import JoinAnswer, JoinRequest, decode_answer
from tests.test_vectors import GOOD, peer_with_everything
from tests.vector_files import Hex, as_plain, load

# --- what a peer holds, and frames ----------------------------------------------------------------------------------


class Held(Struct):
    logs: list[tuple[Hex, Hex, list[tuple[int, Hex]]]]
    encoded: Hex
    digest: Hex
    author_digests: list[tuple[Hex, Hex]]


class Frame(Struct):
    message: str
    frame: Hex
    array: object


class Packed(Struct):
    frame: Hex
    same_as: Hex


class BadFrame(Struct):
    frame: Hex
    code: str
    why: str


class Sync(Struct):
    have: Held
    frames: list[Frame]
    packed: Packed
    refused: list[BadFrame]


SYNC = load("sync.json", Sync)


def test_the_have_of_a_peer_and_its_digests_are_as_told() -> None:
    document = peer_with_everything().document
    held = have.Holdings(document.graph, document.id_at, {}).have()
    told = [(log.author, log.log, [(tip.seq, tip.id) for tip in log.tips]) for log in held]
    assert told == SYNC.have.logs
    assert msgspec.msgpack.encode(held) == SYNC.have.encoded
    assert have.digest(held) == SYNC.have.digest == sha256(SYNC.have.encoded).digest()
    assert have.author_digests(held) == SYNC.have.author_digests


@pytest.mark.parametrize("vector", SYNC.frames, ids=lambda vector: vector.message)
def test_a_frame_is_decoded_to_its_message_and_back(vector: Frame) -> None:
    message = wire.decode_frame(vector.frame)
    assert type(message).__name__ == vector.message
    assert as_plain(msgspec.msgpack.decode(vector.frame[1:])) == vector.array
    assert wire.decode_frame(wire.encode(message)) == message


def test_every_message_has_a_vector() -> None:
    messages = {kind.__name__ for kind in get_args(wire.Message)}
    assert {vector.message for vector in SYNC.frames} == messages


def test_a_packed_frame_says_the_same_as_a_plain_one() -> None:
    assert wire.decode_frame(SYNC.packed.frame) == wire.decode_frame(SYNC.packed.same_as)


@pytest.mark.parametrize("vector", SYNC.refused, ids=lambda vector: vector.why)
def test_a_frame_of_another_form_is_refused_with_its_code(vector: BadFrame) -> None:
    with pytest.raises(errors.Refused) as refusal:
        wire.decode_frame(vector.frame)
    assert refusal.value.code == vector.code


# --- tickets, invites, joining, addresses ---------------------------------------------------------------------------


class Ticket(Struct):
    text: str
    document: Hex
    addresses: list[str]
    peer: Hex
    fingerprint: Hex | None
    role: str | None
    secret: Hex | None


class BadTicket(Struct):
    text: str
    code: str
    why: str


class Invite(Struct):
    secret: Hex
    secret_hash: Hex
    document: Hex
    recipient: Hex
    joiner: Hex
    nonce: Hex
    mac: Hex


class Encoded(Struct):
    encoded: Hex
    fields: object


class AddressRecord(Struct):
    key: Hex
    urls: tuple[str, ...]
    time: int
    signed: Hex
    signature: Hex


class Turn(Struct):
    document: Hex
    agent: Hex
    trigger: Hex
    turn: Hex


class Sharing(Struct):
    tickets: list[Ticket]
    refused_tickets: list[BadTicket]
    invite: Invite
    join_request: Encoded
    join_answers: list[Encoded]
    address: AddressRecord
    turn: Turn


SHARING = load("sharing.json", Sharing)


@pytest.mark.parametrize("vector", SHARING.tickets, ids=lambda vector: vector.text[:12])
def test_a_ticket_is_read_as_told(vector: Ticket) -> None:
    read = ticket.Ticket.parse(vector.text)
    assert (read.document, read.peer, list(read.addresses)) == (vector.document, vector.peer, vector.addresses)
    assert (read.fingerprint, read.role, read.secret) == (vector.fingerprint, vector.role, vector.secret)
    written = (read.format(), read.link("https://peer.example"))
    assert vector.text in written


@pytest.mark.parametrize("vector", SHARING.refused_tickets, ids=lambda vector: vector.why)
def test_any_other_text_is_no_ticket(vector: BadTicket) -> None:
    with pytest.raises(errors.BadTicket) as refusal:
        ticket.Ticket.parse(vector.text)
    assert refusal.value.code == vector.code


def test_the_proof_of_an_invite_is_as_told() -> None:
    invite = SHARING.invite
    document, recipient, joiner = DocumentId(invite.document), PeerKey(invite.recipient), PeerKey(invite.joiner)
    assert invite.secret_hash == sha256(invite.secret).digest() == ticket.secret_hash(invite.secret)
    assert ticket.invite_mac(invite.secret, document, recipient, joiner, invite.nonce) == invite.mac
    signed = b"roost/invite/1\0" + document + recipient + joiner + invite.nonce
    assert hmac.digest(invite.secret_hash, signed, "sha256") == invite.mac


def test_a_join_request_and_its_answers_are_maps_as_told() -> None:
    request = SHARING.join_request
    assert as_plain(msgspec.msgpack.decode(request.encoded)) == request.fields
    assert msgspec.msgpack.decode(request.encoded, type=JoinRequest).mac == SHARING.invite.mac
    for answer in SHARING.join_answers:
        assert as_plain(msgspec.msgpack.decode(answer.encoded)) == answer.fields
        assert decode_answer(answer.encoded) == msgspec.convert(answer.fields, JoinAnswer)


def test_an_address_record_is_signed_over_its_canonical_array() -> None:
    record = SHARING.address
    assert record.signed == wire.ADDRESS_PREFIX + wire.address_bytes(bytes(record.key), record.urls, record.time)
    unprefixed = record.signed.removeprefix(wire.ADDRESS_PREFIX)
    keys.verify(record.signature, PeerKey(record.key), wire.ADDRESS_PREFIX, unprefixed)


def test_the_id_of_a_turn_is_the_hash_of_document_agent_and_trigger() -> None:
    turn = SHARING.turn
    assert sha256(turn.document + sha256(turn.agent).digest() + turn.trigger).digest() == turn.turn
    call = next(vector.decode().head for vector in GOOD.operations if vector.name == "tool_call")
    assert isinstance(call, EntryHead)
    assert call.turn == turn.turn


# --- signed requests ------------------------------------------------------------------------------------------------


class Request(Struct):
    name: str
    why: str
    code: str | None
    method: str
    url: str
    fields: dict[str, str]
    body: Hex
    recipient: Hex
    authorities: list[str]
    clock: int
    started: int
    seen: int
    signature_base: str | None = None


class Answer(Struct):
    status: int
    body: Hex
    fields: dict[str, str]
    request_signature: str
    server: Hex
    created: int


class Requests(Struct):
    requests: list[Request]
    answer: Answer


REQUESTS = load("requests.json", Requests)


def take(vector: Request, replays: ReplayCache) -> PeerKey:
    return verify_request(
        ReceivedRequest(vector.method, vector.url, vector.fields.items(), vector.body),
        recipient=PeerKey(vector.recipient),
        authorities=set(vector.authorities),
        now_seconds=vector.clock,
        started_seconds=vector.started,
        replays=replays,
    ).peer


@pytest.mark.parametrize("vector", REQUESTS.requests, ids=lambda vector: vector.name)
def test_a_request_is_taken_or_refused_with_its_code(vector: Request) -> None:
    replays = ReplayCache(entries_max=0) if vector.seen < 0 else ReplayCache()
    for _ in range(vector.seen):
        take(vector, replays)
    if vector.code is None:
        assert take(vector, replays) == GOOD.keys["dan"].public
        return
    with pytest.raises(errors.Refused) as refusal:
        take(vector, replays)
    assert refusal.value.code == vector.code


def test_what_a_request_signs_is_this_text() -> None:
    good = REQUESTS.requests[0]
    assert good.signature_base is not None
    signature = b64decode(good.fields["Signature"].split(":")[1])
    first = '"@method": '
    rest = good.signature_base.removeprefix(first)
    keys.verify(signature, PeerKey(GOOD.keys["dan"].public), first.encode(), rest.encode())


def test_the_answer_is_bound_to_the_request() -> None:
    answer = REQUESTS.answer
    server = PeerKey(answer.server)
    verified = verify_answer(
        answer.status, answer.fields.items(), answer.body, request_signature=answer.request_signature, server=server
    )
    assert verified.created == answer.created
    other = REQUESTS.requests[1].fields["Signature"]
    with pytest.raises(errors.BadSignature):
        verify_answer(answer.status, answer.fields.items(), answer.body, request_signature=other, server=server)
