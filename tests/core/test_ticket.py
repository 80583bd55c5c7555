"""Tickets, and the proof that a joiner knows an invite's secret."""

from __future__ import annotations

import base64
import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.errors import BadTicket, Malformed
from roost.core.ids import DocumentId, PeerKey
from roost.core.keys import SigningKey
from roost.core.ticket import (
    ADDRESS_CHARS_MAX,
    TICKET_CHARS_MAX,
    Address,
    Ticket,
    invite_mac,
    parse_address,
    secret_hash,
    verify_invite_mac,
)

PEER = SigningKey.from_seed(bytes(32)).public
DOCUMENT = DocumentId(bytes(range(32)))
SECRET = b"\xfb\xff" * 16
PLAIN = Ticket(DOCUMENT, ("http://127.0.0.1:7777",), PEER)
FULL = Ticket(DOCUMENT, ("https://a.example/x", "http://[::1]:7777"), PEER, bytes(32), "write", SECRET)

bytes32 = st.binary(min_size=32, max_size=32)
hosts = st.one_of(
    st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,40}", fullmatch=True), st.ip_addresses(v=4).map(str), st.just("[fd00::7]")
)
paths = st.from_regex(r"(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2}){0,20}){0,2}", fullmatch=True)
addresses = st.builds(
    "{}://{}:{}{}".format, st.sampled_from(["http", "https"]), hosts, st.integers(min_value=1, max_value=65535), paths
)
tickets = st.builds(
    Ticket,
    document=bytes32.map(DocumentId),
    addresses=st.lists(addresses, min_size=1, max_size=8).map(tuple),
    peer=bytes32.map(lambda seed: SigningKey.from_seed(seed).public),
    fingerprint=st.none() | bytes32,
    role=st.none() | st.sampled_from(["read", "write", "admin"]),
    secret=st.none() | bytes32,
)


def reason(text: str) -> str:
    with pytest.raises(BadTicket) as caught:
        Ticket.parse(text)
    assert caught.value.detail
    return str(caught.value)


def with_value(name: str, value: str) -> str:
    items = [item for item in FULL.format().removeprefix("roost:?").split("&") if not item.startswith(f"{name}=")]
    return "roost:?" + "&".join([*items, f"{name}={value}"])


@given(ticket=tickets)
def test_a_ticket_survives_both_written_forms(ticket: Ticket) -> None:
    assert Ticket.parse(ticket.format()) == ticket
    assert Ticket.parse(ticket.link("https://host.example")) == ticket
    assert Ticket.parse(ticket.format()).format() == ticket.format()


@given(text=st.text(max_size=300) | st.text(max_size=300).map("roost:?".__add__))
def test_any_other_text_is_a_bad_ticket_and_nothing_worse(text: str) -> None:
    with pytest.raises(BadTicket):
        Ticket.parse(text)


@given(ticket=tickets, position=st.integers(min_value=0), character=st.characters(max_codepoint=127))
def test_an_altered_ticket_is_another_ticket_or_none(ticket: Ticket, position: int, character: str) -> None:
    text = ticket.format()
    at = position % len(text)
    try:
        altered = Ticket.parse(text[:at] + character + text[at + 1 :])
    except BadTicket:
        return
    assert (altered == ticket) == (altered.format() == text)


def test_the_written_form_is_as_the_protocol_has_it() -> None:
    assert FULL.format() == (
        f"roost:?db={bytes(range(32)).hex()}&pr=https://a.example/x&pr=http://%5B::1%5D:7777&pk={PEER.hex()}"
        f"&fp={'00' * 32}&r=write&s=-__7__v_-__7__v_-__7__v_-__7__v_-__7__v_-_8"
    )


def test_a_link_carries_everything_in_its_fragment() -> None:
    page, _, fragment = FULL.link("https://host.example/").partition("#")
    assert page == "https://host.example/join"
    assert "roost:?" + fragment == FULL.format()


def test_blanks_around_a_ticket_are_dropped() -> None:
    assert Ticket.parse(f"  {FULL.format()}\r\n") == FULL


def test_repr_and_str_never_show_the_secret() -> None:
    shown = repr(FULL) + str(FULL) + f"{FULL}"
    assert "secret" not in shown
    assert repr(SECRET) not in shown
    assert base64.urlsafe_b64encode(SECRET).decode()[:8] not in shown


@pytest.mark.parametrize("cut", range(1, 46))
def test_no_reason_ever_shows_the_secret(cut: int) -> None:
    text = FULL.format()
    written = text[-43:]
    for damaged in (text[:-cut], text + "x" * cut, text.replace("&s=", "&s"), text.replace("&s=", f"&{written}=")):
        assert written[:10] not in reason(damaged)


@pytest.mark.parametrize("name", ["db", "pk", "fp", "r", "s"])
def test_a_parameter_given_twice_is_refused(name: str) -> None:
    item = next(i for i in FULL.format().removeprefix("roost:?").split("&") if i.startswith(f"{name}="))
    assert f"{name} is given twice" in reason(f"{FULL.format()}&{item}")


@pytest.mark.parametrize("name", ["x", "DB", "", "pr[]", "db "])
def test_an_unknown_parameter_is_refused(name: str) -> None:
    reason(f"{FULL.format()}&{name}=1")


@pytest.mark.parametrize("name", ["db", "pk"])
def test_document_and_peer_must_be_there(name: str) -> None:
    kept = [item for item in PLAIN.format().removeprefix("roost:?").split("&") if not item.startswith(name)]
    assert f"{name} is missing" in reason("roost:?" + "&".join(kept))


@pytest.mark.parametrize("name", ["db", "pk", "fp"])
@pytest.mark.parametrize("value", ["", "00", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 62 + "%30", "\u0660" * 64])
def test_only_sixty_four_lower_case_digits_are_an_id(name: str, value: str) -> None:
    reason(with_value(name, value))


def test_a_key_of_small_order_is_no_peer() -> None:
    assert "small order" in reason(with_value("pk", "01" + "00" * 31))


@pytest.mark.parametrize("value", ["A" * 42, "A" * 44, "A" * 42 + "B", "A" * 42 + "+", "A" * 43 + "=", "=" * 43])
def test_a_secret_has_one_spelling(value: str) -> None:
    reason(with_value("s", value))


def test_an_unknown_role_is_refused() -> None:
    assert "read, write, admin" in reason(with_value("r", "owner"))


@pytest.mark.parametrize("count", [0, 9, 100])
def test_a_ticket_has_one_to_eight_addresses(count: int) -> None:
    items = [f"db={DOCUMENT.hex()}", f"pk={PEER.hex()}", *["pr=http://a:1"] * count]
    assert f"{count} addresses" in reason("roost:?" + "&".join(items))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "file:///etc/passwd",
        "a:1",
        "http://",
        "http://a:0",
        "http://a:65536",
        "http://a:",
        "http://user@a",
        "http://user:pass@a",
        "http://a?x=1",
        "http://a/#x",
        "http://a\\@b",
        "http://a b",
        "http://ä",
        "http://[::1",
        "http://a/%2",
        "HTTP://a",
        "http://a\n",
        "http://" + "a" * ADDRESS_CHARS_MAX,
    ],
)
def test_an_address_is_a_plain_http_url(url: str) -> None:
    with pytest.raises(Malformed):
        parse_address(url)
    with pytest.raises(BadTicket):
        Ticket(DOCUMENT, (url,), PEER)


def test_an_address_is_taken_apart() -> None:
    assert parse_address("https://a.example") == Address(True, "a.example", 443, "")
    assert parse_address("http://[fd00::7]:81/x/") == Address(False, "fd00::7", 81, "/x/")


def test_a_broken_escape_in_an_address_is_refused() -> None:
    assert "escape" in reason(FULL.format().replace("%5B", "%5", 1).replace("%5::", "%G::"))


@pytest.mark.parametrize(
    "page", ["https://h/other", "https://h/join?x=1", "ftp://h/join", "/join", "javascript:x/join"]
)
def test_only_a_join_page_makes_a_link(page: str) -> None:
    assert "neither" in reason(f"{page}#{FULL.format().removeprefix('roost:?')}")


def test_a_long_text_is_refused_unread() -> None:
    assert "longer" in reason(PLAIN.format() + "&pr=x" * TICKET_CHARS_MAX)


def test_the_longest_ticket_is_within_the_bound() -> None:
    address = "http://a/" + "$" * (ADDRESS_CHARS_MAX - 9)
    ticket = Ticket(DOCUMENT, (address,) * 8, PEER, bytes(32), "admin", SECRET)
    host = "https://" + "h" * (ADDRESS_CHARS_MAX - 8)
    assert Ticket.parse(ticket.link(host)) == ticket


@pytest.mark.parametrize(
    "fields", [{"document": b""}, {"fingerprint": b"x"}, {"secret": b"short"}, {"secret": b""}, {"peer": bytes(32)}]
)
def test_a_bad_ticket_cannot_be_made_either(fields: dict[str, bytes]) -> None:
    good = {"document": DOCUMENT, "peer": PEER, "fingerprint": None, "secret": None}
    values = good | fields
    with pytest.raises(BadTicket):
        Ticket(
            DocumentId(values["document"] or b""),
            ("http://a",),
            PeerKey(values["peer"] or b""),
            fingerprint=values["fingerprint"],
            secret=values["secret"],
        )


JOINER = SigningKey.from_seed(b"j" * 32).public
NONCE = b"n" * 16


def test_the_proof_is_an_hmac_under_the_hash_of_the_secret() -> None:
    message = b"roost/invite/1\0" + DOCUMENT + PEER + JOINER + NONCE
    expected = hmac.new(sha256(SECRET).digest(), message, sha256).digest()
    assert invite_mac(SECRET, DOCUMENT, PEER, JOINER, NONCE) == expected


def test_the_sharer_recognises_the_proof_by_the_hash_alone() -> None:
    mac = invite_mac(SECRET, DOCUMENT, PEER, JOINER, NONCE)
    assert verify_invite_mac(secret_hash(SECRET), DOCUMENT, PEER, JOINER, NONCE, mac)


def test_a_proof_fits_nothing_else() -> None:
    mac = invite_mac(SECRET, DOCUMENT, PEER, JOINER, NONCE)
    known = secret_hash(SECRET)
    other = DocumentId(bytes(32))
    assert not verify_invite_mac(secret_hash(b"x" * 32), DOCUMENT, PEER, JOINER, NONCE, mac)
    assert not verify_invite_mac(known, other, PEER, JOINER, NONCE, mac)
    assert not verify_invite_mac(known, DOCUMENT, JOINER, PEER, NONCE, mac)
    assert not verify_invite_mac(known, DOCUMENT, PEER, PEER, NONCE, mac)
    assert not verify_invite_mac(known, DOCUMENT, PEER, JOINER, b"m" * 16, mac)
    assert not verify_invite_mac(known, DOCUMENT, PEER, JOINER, NONCE, mac[:-1])
    assert not verify_invite_mac(known, DOCUMENT, PEER, JOINER, NONCE, b"")


def test_fields_of_another_size_cannot_be_proven() -> None:
    with pytest.raises(AssertionError):
        invite_mac(SECRET, DOCUMENT, PEER, JOINER, b"short")
