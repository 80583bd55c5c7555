"""Tickets: a URL that names a document, where to reach it, whom to expect there, and perhaps an invite secret.

The secret never travels: who joins proves that they know it by ``invite_mac``. Source: PROTOCOL section 4, "Tickets".
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

from roost.core.errors import BadKey, BadTicket, Malformed
from roost.core.ids import ID_BYTES, DocumentId, PeerKey
from roost.core.keys import check_peer_key

TICKET_CHARS_MAX: Final = 8192  # eight of the longest addresses, each character escaped, and the rest
ADDRESSES_MAX: Final = 8  # three are dialled at once, 5 s each, 30 s in all
ADDRESS_CHARS_MAX: Final = 256
SECRET_BYTES: Final = 32
FINGERPRINT_BYTES: Final = 32  # SHA-256 of the certificate
NONCE_BYTES: Final = 16
ROLES: Final = ("read", "write", "admin")

_SCHEME: Final = "roost:?"
_JOIN: Final = "/join"
_SINGLE: Final = ("db", "pk", "fp", "r", "s")
_MAC_PREFIX: Final = b"roost/invite/1\0"

_ADDRESS: Final = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?"
)
_VISIBLE: Final = re.compile(r"[!-~]*")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer listens, taken apart. host is without the brackets of IPv6; path is "" or begins with a slash."""

    tls: bool
    host: str
    port: int
    path: str


def parse_address(url: str) -> Address:
    """Take an http or https URL apart; a user, a query or a fragment in it makes it Malformed."""
    match = _ADDRESS.fullmatch(url) if len(url) <= ADDRESS_CHARS_MAX else None
    if match is None:
        raise Malformed("an address is not of the form http://host:port or https://host:port")
    tls = match["scheme"] == "https"
    port = int(match["port"] or (443 if tls else 80))
    if not 1 <= port <= 65535:
        raise Malformed("an address has a port outside 1 to 65535")
    return Address(tls=tls, host=match["host"].strip("[]"), port=port, path=match["path"] or "")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A well-formed ticket; making one that is not raises BadTicket. Only ``format`` and ``link`` show the secret."""

    document: DocumentId
    addresses: tuple[str, ...]  # http or https URLs, tried in this order
    peer: PeerKey  # must be proven at the address before anything else is said
    fingerprint: bytes | None = None  # SHA-256 of the certificate that is pinned
    role: str | None = None  # a hint: what is granted is the sharer's matter
    secret: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.document) != ID_BYTES:
            raise BadTicket(f"a document id has {ID_BYTES} bytes")
        if not 1 <= len(self.addresses) <= ADDRESSES_MAX:
            raise BadTicket(f"{len(self.addresses)} addresses; a ticket has 1 to {ADDRESSES_MAX}")
        try:
            for address in self.addresses:
                parse_address(address)
            check_peer_key(self.peer)
        except Malformed as error:
            raise BadTicket(error.detail) from error
        except BadKey as error:
            raise BadTicket(f"pk is no peer key: {error.detail}") from error
        if self.fingerprint is not None and len(self.fingerprint) != FINGERPRINT_BYTES:
            raise BadTicket(f"a certificate hash has {FINGERPRINT_BYTES} bytes")
        if self.role is not None and self.role not in ROLES:
            raise BadTicket("the role is none of " + ", ".join(ROLES))
        if self.secret is not None and len(self.secret) != SECRET_BYTES:
            raise BadTicket(f"an invite secret has {SECRET_BYTES} bytes")

    @classmethod
    def parse(cls, text: str) -> Ticket:
        """Read ``roost:?...`` or ``https://host/join#...``; blanks around it are dropped.

        Raises BadTicket, whose reason never quotes the text: a secret may be in it.
        """
        if len(text) > TICKET_CHARS_MAX:
            raise BadTicket(f"longer than {TICKET_CHARS_MAX} characters")
        addresses, values = _parameters(_query(text.strip()))
        fingerprint, secret = values.get("fp"), values.get("s")
        return cls(
            document=DocumentId(_from_hex("db", values)),
            addresses=tuple(addresses),
            peer=PeerKey(_from_hex("pk", values)),
            fingerprint=None if fingerprint is None else _from_hex("fp", values),
            role=values.get("r"),
            secret=None if secret is None else _secret_from_text(secret),
        )

    def format(self) -> str:
        """The ticket as ``roost:?...``; it holds the secret."""
        return _SCHEME + "&".join(f"{name}={value}" for name, value in self._pairs())

    def link(self, host_url: str) -> str:
        """The ticket as a link to host_url's page; it holds the secret, in the fragment, which no browser sends.

        Raises Malformed if host_url is no address.
        """
        parse_address(host_url)
        return host_url.rstrip("/") + _JOIN + "#" + self.format().removeprefix(_SCHEME)

    def _pairs(self) -> Iterable[tuple[str, str]]:
        yield "db", self.document.hex()
        for address in self.addresses:
            yield "pr", quote(address, safe=":/")
        yield "pk", self.peer.hex()
        if self.fingerprint is not None:
            yield "fp", self.fingerprint.hex()
        if self.role is not None:
            yield "r", self.role
        if self.secret is not None:
            yield "s", _secret_to_text(self.secret)


def _query(text: str) -> str:
    if not _VISIBLE.fullmatch(text):
        raise BadTicket("a blank or a character that is not ASCII in it; was it cut or wrapped on the way?")
    if text.startswith(_SCHEME):
        return text.removeprefix(_SCHEME)
    page, mark, query = text.partition("#")
    match = _ADDRESS.fullmatch(page)
    if mark and match and (match["path"] or "").endswith(_JOIN):
        return query
    raise BadTicket("it begins neither with roost:? nor is it a link https://host/join#...; in a shell it needs quotes")


def _parameters(query: str) -> tuple[list[str], dict[str, str]]:
    addresses: list[str] = []
    values: dict[str, str] = {}
    for item in query.split("&"):
        name, equals, value = item.partition("=")
        if not equals or not value:
            raise BadTicket("a parameter without a value; in a shell a ticket needs quotes")
        if name == "pr":
            addresses.append(_unescape(value))
        elif name not in _SINGLE:
            raise BadTicket(f"a parameter other than pr, {', '.join(_SINGLE)}; it may need a newer roost")
        elif name in values:
            raise BadTicket(f"{name} is given twice")
        else:
            values[name] = value
    return addresses, values


def _unescape(value: str) -> str:
    if _BROKEN_ESCAPE.search(value):
        raise BadTicket("an address has a % that begins no escape")
    return unquote(value)


def _from_hex(name: str, values: dict[str, str]) -> bytes:
    text = values.get(name)
    if text is None:
        raise BadTicket(f"{name} is missing")
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise BadTicket(f"{name} is not 64 lower-case hexadecimal digits")
    return bytes.fromhex(text)


def _secret_to_text(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()


def _secret_from_text(text: str) -> bytes:
    secret = (
        base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) if re.fullmatch(r"[A-Za-z0-9_-]{43}", text) else b""
    )
    if _secret_to_text(secret) != text:  # the last character has two bits to spare: one secret, one spelling
        raise BadTicket("s is not an invite secret; was the ticket cut?")
    return secret


def secret_hash(secret: bytes) -> bytes:
    """What the sharer keeps of an invite secret: its SHA-256, which is also the key of ``invite_mac``."""
    return sha256(secret).digest()


def invite_mac(secret: bytes, document: DocumentId, recipient: PeerKey, joiner: PeerKey, nonce: bytes) -> bytes:
    """The joiner's proof, 32 bytes, that it knows the secret: for this document, asked of this peer, by this key, once.

    nonce is NONCE_BYTES long, drawn for the request that carries the proof.
    """
    return _mac(secret_hash(secret), document, recipient, joiner, nonce)


def verify_invite_mac(
    hash_of_secret: bytes, document: DocumentId, recipient: PeerKey, joiner: PeerKey, nonce: bytes, mac: bytes
) -> bool:
    """Whether mac was made with the secret of this hash; a sharer asks this of each of a document's invites."""
    return hmac.compare_digest(_mac(hash_of_secret, document, recipient, joiner, nonce), mac)


def _mac(key: bytes, document: DocumentId, recipient: PeerKey, joiner: PeerKey, nonce: bytes) -> bytes:
    sizes = tuple(map(len, (key, document, recipient, joiner, nonce)))
    assert sizes == (32, 32, 32, 32, NONCE_BYTES), f"a fixed shape keeps the fields apart: {sizes}"
    return hmac.digest(key, _MAC_PREFIX + document + recipient + joiner + nonce, "sha256")
