"""Signed answers: bound to one request and to one peer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.adapters.signatures import VerifiedAnswer, sign_answer, signature_of, verify_answer
from roost.core.errors import BadRequest, BadSignature, Refused
from roost.core.ids import PeerKey
from tests.adapters.signed_requests import ALICE, BOB, BODY, EVE, NOW, received, request

SIGNATURE = received(request()).signature


def answered(
    status: int = 200, body: bytes = b"answer", signature: str = SIGNATURE, server: PeerKey = BOB.public
) -> VerifiedAnswer:
    headers = sign_answer(BOB, 200, b"answer", SIGNATURE, NOW)
    return verify_answer(status, headers.items(), body, request_signature=signature, server=server)


def test_an_answer_tells_who_gave_it_and_when() -> None:
    assert answered() == VerifiedAnswer(peer=BOB.public, created=NOW)


def test_the_asker_and_the_asked_see_the_same_signature() -> None:
    assert signature_of(request().headers) == SIGNATURE


def test_an_upgrade_is_answered_without_a_body() -> None:
    headers = sign_answer(BOB, 101, b"", SIGNATURE, NOW)
    answer = verify_answer(101, headers.items(), b"", request_signature=SIGNATURE, server=BOB.public)
    assert answer.created == NOW


def test_an_answer_with_another_status_is_refused() -> None:
    with pytest.raises(BadSignature):
        answered(status=201)


def test_an_answer_with_another_body_is_refused() -> None:
    with pytest.raises(BadRequest, match="Content-Digest"):
        answered(body=b"other")


def test_an_answer_to_another_request_is_refused() -> None:
    with pytest.raises(BadSignature):
        answered(signature=signature_of(request(nonce=b"n" * 16).headers))


def test_an_answer_by_another_peer_is_refused() -> None:
    with pytest.raises(BadSignature, match="another peer"):
        answered(server=EVE.public)


def test_a_request_is_no_answer() -> None:
    sent = request()
    with pytest.raises(BadRequest):
        verify_answer(200, sent.headers, BODY, request_signature=SIGNATURE, server=ALICE.public)


def test_an_answer_is_no_request() -> None:
    headers = sign_answer(ALICE, 200, BODY, SIGNATURE, NOW) | {"Roost-Recipient": BOB.public.hex()}
    with pytest.raises(BadRequest):
        received(replace(request(), headers=tuple(headers.items())))


@given(value=st.text(max_size=60), name=st.sampled_from(["Signature", "Signature-Input", "Content-Digest"]))
def test_no_field_of_an_answer_makes_the_verifier_fail_in_another_way(name: str, value: str) -> None:
    headers = sign_answer(BOB, 200, b"answer", SIGNATURE, NOW) | {name: value}
    with pytest.raises(Refused):
        verify_answer(200, headers.items(), b"answer", request_signature=SIGNATURE, server=BOB.public)
