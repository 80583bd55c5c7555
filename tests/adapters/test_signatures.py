"""Signed requests: what is taken, and every way to be refused."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.adapters.replays import CLOCK_SECONDS_MAX, ReplayCache
from roost.adapters.signatures import (
    ReceivedRequest,
    answer_clock,
    authority_of,
    clock_field,
    sign_answer,
    sign_request,
    signature_of,
    verify_answer,
    verify_request,
)
from roost.core.errors import BadKey, BadRequest, BadSignature, ClockOff, Malformed, Refused, Replayed, RoostError
from tests.adapters.signed_requests import (
    ALICE,
    BOB,
    BODY,
    COVERED,
    EVE,
    NONCE,
    NOW,
    URL,
    handmade,
    received,
    request,
    with_field,
)

# --- requests -------------------------------------------------------------------------------------------------------


def test_a_signed_request_tells_who_sent_it() -> None:
    verified = received(request())
    assert (verified.peer, verified.nonce, verified.created) == (ALICE.public, NONCE, NOW)


def test_a_request_made_by_the_rfc_alone_is_taken() -> None:
    assert received(handmade()).peer == ALICE.public


def test_the_parameters_may_stand_in_any_order() -> None:
    shuffled = {"tag": '"roost/1"', "nonce": f'"{NONCE.hex()}"'}
    sent = handmade(parameters={"created": "", "keyid": ""} | shuffled)
    with pytest.raises(BadRequest):
        received(sent)  # two are missing
    assert received(handmade(parameters=shuffled)).nonce == NONCE


@pytest.mark.parametrize(
    "url", ["http://bob.example", "https://bob.example/", "ws://bob.example", "wss://bob.example:443/a"]
)
@pytest.mark.parametrize("body", [b"", b"\0" * 100_000])
def test_a_signed_request_to_any_kind_of_url_is_taken(url: str, body: bytes) -> None:
    headers = sign_request(ALICE, "GET", url, body, BOB.public, NOW, NONCE)
    assert received(ReceivedRequest("GET", url, tuple(headers.items()), body)).peer == ALICE.public


def test_the_scheme_is_not_covered_since_a_proxy_may_end_tls() -> None:
    sent = request(url="wss://bob.example/link")
    assert received(replace(sent, url="http://bob.example/link")).peer == ALICE.public


@pytest.mark.parametrize(
    "altered",
    [
        replace(request(), method="PUT"),
        replace(request(), url=URL.replace("127.0.0.1:7777", "bob.example")),
        replace(request(), url=URL.replace("/join", "/joim")),
        replace(request(), url=URL.replace("/join", "/%6Aoin")),
        replace(request(), url=URL.replace("document=00", "document=01")),
        replace(request(), url=URL.partition("?")[0]),
        replace(request(), url=URL.replace("%2F", "/")),
        with_field(request(), "Signature", dict(request(nonce=b"n" * 16).headers)["Signature"]),
        with_field(request(), "Signature-Input", dict(request(nonce=b"n" * 16).headers)["Signature-Input"]),
        with_field(request(), "Signature-Input", dict(request(now=NOW + 1).headers)["Signature-Input"]),
        with_field(request(), "Signature-Input", dict(request(key=EVE).headers)["Signature-Input"]),
    ],
    ids=[
        "method",
        "authority",
        "path",
        "escape",
        "query",
        "no query",
        "unescaped",
        "signature",
        "nonce",
        "time",
        "key",
    ],
)
def test_an_altered_request_does_not_fit_its_signature(altered: ReceivedRequest) -> None:
    with pytest.raises(BadSignature):
        received(altered)


def test_an_altered_body_does_not_fit_its_digest() -> None:
    with pytest.raises(BadRequest, match="Content-Digest"):
        received(replace(request(), body=b"bodY"))


def test_an_altered_body_with_its_digest_does_not_fit_the_signature() -> None:
    other = handmade(body=b"other")
    altered = with_field(replace(request(), body=b"other"), "Content-Digest", dict(other.headers)["content-digest"])
    with pytest.raises(BadSignature):
        received(altered)


def test_an_altered_recipient_is_another_recipient_or_does_not_fit_the_signature() -> None:
    with pytest.raises(BadRequest, match="another peer"):
        received(with_field(request(), "Roost-Recipient", EVE.public.hex()))
    with pytest.raises(BadSignature):
        received(with_field(request(), "Roost-Recipient", EVE.public.hex()), recipient=EVE.public)


def test_a_request_for_another_peer_cannot_be_relayed() -> None:
    with pytest.raises(BadRequest, match="another peer"):
        received(request(), recipient=EVE.public)


def test_a_request_made_for_another_address_cannot_be_relayed() -> None:
    with pytest.raises(BadRequest, match="not one of this peer"):
        received(request(url="http://mallory.example/v1/join"))


@pytest.mark.parametrize("left_out", COVERED)
def test_a_request_that_leaves_a_component_out_is_refused(left_out: str) -> None:
    with pytest.raises(BadRequest):
        received(handmade(tuple(c for c in COVERED if c != left_out)))


@pytest.mark.parametrize(
    "components", [(*COVERED, "@scheme"), COVERED[::-1], (*COVERED[:4], COVERED[5], COVERED[4]), ()]
)
def test_a_request_that_covers_more_or_in_another_order_is_refused(components: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        received(handmade(components))


@pytest.mark.parametrize(
    "parameters",
    [
        {"created": ""},
        {"keyid": ""},
        {"nonce": ""},
        {"tag": ""},
        {"tag": '"roost/2"'},
        {"alg": '"ed25519"'},
        {"alg": '"hmac-sha256"'},
        {"expires": f"{NOW + 60}"},
        {"other": "1"},
        {"nonce": '"short"'},
        {"nonce": f'"{NONCE.hex().upper()}"'},
        {"nonce": "7"},
        {"created": '"now"'},
        {"created": f"{NOW}.0"},
        {"keyid": f'"{ALICE.public.hex().upper()}"'},
        {"keyid": f'"{ALICE.public.hex()[:-2]}"'},
        {"keyid": "7"},
    ],
    ids=str,
)
def test_a_request_with_other_parameters_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        received(handmade(parameters=parameters))


def test_a_key_of_small_order_is_no_peer() -> None:
    identity = "01" + "00" * 31
    headers = dict(handmade(parameters={"keyid": f'"{identity}"'}).headers)
    headers["signature"] = f"any=:{base64.b64encode(bytes.fromhex(identity) + bytes(32)).decode()}:"
    with pytest.raises(BadKey, match="small order"):
        received(ReceivedRequest("POST", URL, tuple(headers.items()), BODY))


def test_a_signature_by_another_key_is_refused() -> None:
    with pytest.raises(BadSignature):
        received(handmade(key=EVE, parameters={"keyid": f'"{ALICE.public.hex()}"'}))


def test_a_second_signature_is_refused() -> None:
    sent = request()
    fields = dict(sent.headers)
    twice = with_field(sent, "Signature", fields["Signature"] + ", " + fields["Signature"].replace("roost=", "b="))
    twice = with_field(
        twice, "Signature-Input", fields["Signature-Input"] + ", " + fields["Signature-Input"].replace("roost=", "b=")
    )
    with pytest.raises(BadRequest):
        received(twice)


@pytest.mark.parametrize("name", ["Signature", "Signature-Input", "Content-Digest", "Roost-Recipient"])
def test_each_field_is_there_once_and_short(name: str) -> None:
    sent = request()
    headers = tuple(sent.headers)
    with pytest.raises(BadRequest, match="missing"):
        received(replace(sent, headers=tuple(h for h in headers if h[0] != name)))
    with pytest.raises(BadRequest, match="twice"):
        received(replace(sent, headers=(*headers, (name.upper(), dict(headers)[name]))))
    with pytest.raises(BadRequest, match="too long"):
        received(with_field(sent, name, dict(headers)[name] + " " * 1024))


def test_a_long_address_is_refused() -> None:
    with pytest.raises(BadRequest, match="too long"):
        received(replace(request(), url=URL + "x" * 9000))


@pytest.mark.parametrize("url", ["", "/v1/join", "http:///", "http://[::1", "http://a b/", "http://ä/"])
def test_a_request_without_a_proper_url_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        received(replace(request(), url=url))
    with pytest.raises(Malformed):
        sign_request(ALICE, "POST", url, BODY, BOB.public, NOW, NONCE)


@given(
    name=st.sampled_from(["Signature", "Signature-Input", "Content-Digest", "Roost-Recipient"]),
    value=st.text(max_size=80) | st.from_regex(r"\Aroost=[(:][\"a-z@;=:?0-9 ().*,-]{0,60}[):]?\Z"),
)
def test_no_field_makes_the_verifier_fail_in_another_way_than_refusing(name: str, value: str) -> None:
    with pytest.raises(Refused):
        received(with_field(request(), name, value))


@given(at=st.integers(min_value=0, max_value=228), character=st.characters(max_codepoint=255))
def test_any_character_altered_in_the_parameters_is_refused(at: int, character: str) -> None:
    text = dict(request().headers)["Signature-Input"]
    altered = text[:at] + character + text[at + 1 :]
    if altered == text:
        return
    with pytest.raises(Refused):
        received(with_field(request(), "Signature-Input", altered))


# --- clock ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("off", [-CLOCK_SECONDS_MAX, 0, CLOCK_SECONDS_MAX])
def test_a_clock_a_minute_off_is_taken(off: int) -> None:
    assert received(request(now=NOW + off)).created == NOW + off


@pytest.mark.parametrize("off", [-(10**6), -CLOCK_SECONDS_MAX - 1, CLOCK_SECONDS_MAX + 1, 10**6])
def test_a_clock_further_off_is_refused_with_the_recipients_clock(off: int) -> None:
    with pytest.raises(ClockOff, match=f"it is {NOW} here"):
        received(request(now=NOW + off))


def test_only_a_good_signature_is_told_the_clock() -> None:
    with pytest.raises(BadSignature):
        received(replace(request(now=NOW - 3600), method="PUT"))


def test_a_request_from_before_the_start_is_refused() -> None:
    with pytest.raises(ClockOff):
        received(request(), started=NOW + 1)
    with pytest.raises(ClockOff):
        received(request(), started=NOW + 0.2)  # it may be from the fifth of a second before
    assert received(request(), started=NOW).peer == ALICE.public


def test_the_clock_that_a_refusal_carries_is_taken_at_once() -> None:
    started = NOW + 0.2
    clock = answer_clock(NOW + 0.3, started)
    assert received(request(now=clock), now=NOW + 0.4, started=started).created == clock


def test_a_peer_learns_the_clock_from_the_signed_refusal() -> None:
    here, there = NOW, NOW + 86_400
    sent = request(now=here)
    with pytest.raises(ClockOff):
        received(sent, now=there, started=there - 10)
    refused = sign_answer(BOB, 401, b"clock", signature_of(sent.headers), answer_clock(there, there - 10))
    learned = verify_answer(
        401, refused.items(), b"clock", request_signature=signature_of(sent.headers), server=BOB.public
    )
    assert received(request(now=learned.created), now=there + 1, started=there - 10).peer == ALICE.public


def test_a_refusal_shows_the_clock_in_a_field() -> None:
    assert clock_field(NOW + 0.5, NOW - 1) == {"Roost-Time": str(NOW)}
    assert clock_field(NOW + 0.5, NOW + 0.1) == {"Roost-Time": str(NOW + 1)}


# --- replay ---------------------------------------------------------------------------------------------------------


def test_a_verified_request_is_taken_once() -> None:
    replays = ReplayCache()
    received(request(), replays=replays)
    with pytest.raises(Replayed):
        received(request(), replays=replays)
    assert received(request(key=EVE), replays=replays).peer == EVE.public


def test_only_verified_requests_are_remembered() -> None:
    replays = ReplayCache()
    refused = [replace(request(), method="PUT"), request(now=NOW - 99), replace(request(), body=b"")]
    for sent in refused:
        with pytest.raises(RoostError):
            received(sent, replays=replays)
    assert len(replays) == 0
    assert received(request(), replays=replays).peer == ALICE.public


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://Bob.Example", "bob.example"),
        ("http://bob.example:80/x", "bob.example"),
        ("https://bob.example:443", "bob.example"),
        ("https://bob.example:80", "bob.example:80"),
        ("wss://bob.example:443", "bob.example"),
        ("ws://127.0.0.1:7777", "127.0.0.1:7777"),
        ("http://[::1]:7777", "[::1]:7777"),
        ("https://[FD00::7]", "[fd00::7]"),
    ],
)
def test_the_authority_of_an_address_is_what_a_request_to_it_signs(url: str, authority: str) -> None:
    assert authority_of(url) == authority
    headers = sign_request(ALICE, "GET", url, b"", BOB.public, NOW, NONCE)
    verified = verify_request(
        ReceivedRequest("GET", url, tuple(headers.items()), b""),
        recipient=BOB.public,
        authorities={authority},
        now_seconds=NOW,
        started_seconds=NOW,
        replays=ReplayCache(),
    )
    assert verified.peer == ALICE.public
