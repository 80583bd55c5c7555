"""Who sent a request and who answered it: HTTP message signatures (RFC 9421) in one shape only.

A request's signature covers exactly REQUEST_COMPONENTS, an answer's exactly ANSWER_COMPONENTS, which binds it to that
request. The library parses fields and builds what is signed; keys, clock, coverage and replay are judged here.
Source: PROTOCOL section 4 "Authentication"; RFC 9421, RFC 9530.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageSigner,
    HTTPMessageVerifier,
    HTTPSignatureAlgorithm,
    HTTPSignatureKeyResolver,
    VerifyResult,
)

from roost.adapters.replays import CLOCK_SECONDS_MAX, ReplayCache
from roost.core.errors import BadRequest, BadSignature, ClockOff, Malformed, RoostError
from roost.core.ids import PeerKey
from roost.core.keys import KEY_BYTES, SigningKey, check_peer_key, verify
from roost.core.ticket import NONCE_BYTES, parse_address

TAG: Final = "roost/1"
FIELD_CHARS_MAX: Final = 1024  # the longest honest field, Signature-Input, has some 250
URL_CHARS_MAX: Final = 8192
REQUEST_COMPONENTS: Final = ("@method", "@authority", "@path", "@query", "content-digest", "roost-recipient")
ANSWER_COMPONENTS: Final = ("@status", "content-digest", '"signature";req')

_LABEL: Final = "roost"
_REQUEST_PARAMETERS: Final = frozenset({"created", "keyid", "nonce", "tag"})
_ANSWER_PARAMETERS: Final = frozenset({"created", "keyid", "tag"})
_ANSWER_FIELDS: Final = ("content-digest", "signature", "signature-input")
_REQUEST_FIELDS: Final = (*_ANSWER_FIELDS, "roost-recipient")
# What is signed begins with the first component's name: a use of the key that no other prefix is the beginning of.
_PREFIXES: Final = (b'"@method": ', b'"@status": ')

Headers = Iterable[tuple[str, str]]  # every field line, names in any case


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it came over the wire.

    url is absolute, put together from the scheme, the Host field and the request target, all of them raw.
    """

    method: str
    url: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class VerifiedRequest:
    """Who made the request. signature is the Signature field as received: the answer is bound to it."""

    peer: PeerKey
    nonce: bytes
    created: int
    signature: str


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """created is the answering peer's clock in whole seconds, as it signed it: after a ClockOff, sign with this."""

    peer: PeerKey
    created: int


def sign_request(
    key: SigningKey, method: str, url: str, body: bytes, recipient: PeerKey, now_seconds: float, nonce: bytes
) -> dict[str, str]:
    """The fields to send along: Content-Digest, Roost-Recipient, Signature-Input, Signature.

    url is absolute, http, https, ws or wss, encoded as it will be sent. nonce is NONCE_BYTES random bytes. Keep the
    Signature field: verify_answer needs it. Raises Malformed for a method in lower case or a URL that is not encoded.
    """
    assert len(nonce) == NONCE_BYTES
    message = _Request(method, _as_http(url), _digest_field(body) | {"Roost-Recipient": recipient.hex()})
    return _sign(message, key, REQUEST_COMPONENTS, now_seconds, nonce.hex())


def verify_request(
    request: ReceivedRequest,
    *,
    recipient: PeerKey,
    authorities: Set[str],
    now_seconds: float,
    started_seconds: float,
    replays: ReplayCache,
) -> VerifiedRequest:
    """Who signed the request, for this peer (recipient), at an address of its own (authorities: see authority_of), now.

    The two clocks are the recipient's, in seconds since 1970. Raises BadRequest for another shape, recipient, authority
    or body, BadKey, BadSignature, and, for what is well signed, ClockOff, Malformed, Replayed or Busy.
    """
    fields = _fields(request.headers, _REQUEST_FIELDS)
    if len(request.url) > URL_CHARS_MAX:
        raise BadRequest("the address is too long")
    if fields["roost-recipient"] != recipient.hex():
        raise BadRequest("it is addressed to another peer")
    _check_digest(fields, request.body)
    result = _verify(_Request(request.method, _as_http(request.url), fields))
    _check_shape(result, REQUEST_COMPONENTS, _REQUEST_PARAMETERS)
    if result.covered_components['"@authority"'] not in authorities:
        raise BadRequest("the address is not one of this peer")
    nonce = _from_hex(str(result.nonce), NONCE_BYTES, "nonce")
    peer = PeerKey(bytes.fromhex(str(result.parameters["keyid"])))  # checked before it verified
    created = int(result.parameters["created"])
    if abs(created - now_seconds) > CLOCK_SECONDS_MAX or created < started_seconds:
        raise ClockOff(f"it is {answer_clock(now_seconds, started_seconds)} here")
    replays.admit(peer, nonce, created, now_seconds)
    return VerifiedRequest(peer=peer, nonce=nonce, created=created, signature=fields["signature"])


def sign_answer(
    key: SigningKey, status: int, body: bytes, request_signature: str, now_seconds: float
) -> dict[str, str]:
    """The fields to answer with: Content-Digest, Signature-Input, Signature. body is empty for an upgrade (101).

    request_signature is the request's Signature field (VerifiedRequest.signature, or signature_of its headers).
    A refusal for the clock is signed with answer_clock as now_seconds.
    """
    message = _Answer(status, _digest_field(body), _request_signed_by(request_signature))
    return _sign(message, key, ANSWER_COMPONENTS, now_seconds, None)


def verify_answer(
    status: int, headers: Headers, body: bytes, *, request_signature: str, server: PeerKey
) -> VerifiedAnswer:
    """That server gave this answer to the request with this Signature field. Raises BadRequest or BadSignature."""
    fields = _fields(headers, _ANSWER_FIELDS)
    _check_digest(fields, body)
    result = _verify(_Answer(status, fields, _request_signed_by(request_signature)))
    _check_shape(result, ANSWER_COMPONENTS, _ANSWER_PARAMETERS)
    if result.parameters["keyid"] != server.hex():
        raise BadSignature("another peer answered")
    return VerifiedAnswer(peer=server, created=int(result.parameters["created"]))


def answer_clock(now_seconds: float, started_seconds: float) -> int:
    """The time, in whole seconds, with which a request would be taken now: not before this process started."""
    return max(int(now_seconds), math.ceil(started_seconds))


def clock_field(now_seconds: float, started_seconds: float) -> dict[str, str]:
    """The Roost-Time field of a refusal, for people; a peer believes the signed VerifiedAnswer.created instead."""
    return {"Roost-Time": str(answer_clock(now_seconds, started_seconds))}


def authority_of(url: str) -> str:
    """The @authority of an address that a peer advertises: lower case, without the scheme's own port."""
    address = parse_address(_as_http(url))
    host = f"[{address.host}]" if ":" in address.host else address.host
    default = 443 if address.tls else 80
    return host.lower() if address.port == default else f"{host.lower()}:{address.port}"


def signature_of(headers: Headers) -> str:
    """The one Signature field, verified or not."""
    return _fields(headers, ("signature",))["signature"]


# --- the library's side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Answer:
    status_code: int
    headers: dict[str, str]
    request: _Request


class _Ed25519(HTTPSignatureAlgorithm):
    """Ed25519 as libsodium judges it; the library's own would take keys of small order. Signing needs no algorithm."""

    algorithm_id = "ed25519"

    def __init__(self, public_key: PeerKey) -> None:
        self._key = public_key

    def verify(self, signature: bytes, message: bytes) -> None:
        verify(signature, self._key, *_split(message))


class _KeyIsTheId(HTTPSignatureKeyResolver):
    def resolve_public_key(self, key_id: str) -> PeerKey:
        return check_peer_key(_from_hex(key_id, KEY_BYTES, "keyid"))


class _Verifier(HTTPMessageVerifier):
    def validate_created_and_expires(self, sig_input: object, max_age: object = None) -> None:
        """Nothing here: the library would read the system's clock. verify_request judges by the clock it is given."""


_SIGNER: Final = HTTPMessageSigner(signature_algorithm=_Ed25519)
_VERIFIER: Final = _Verifier(signature_algorithm=_Ed25519, key_resolver=_KeyIsTheId())


def _sign(
    message: _Request | _Answer, key: SigningKey, components: tuple[str, ...], now_seconds: float, nonce: str | None
) -> dict[str, str]:
    """The message's fields and those of its signature."""
    try:
        prepared = _SIGNER.prepare(
            message,
            key_id=key.public.hex(),
            created=datetime.fromtimestamp(int(now_seconds), UTC),
            nonce=nonce,
            label=_LABEL,
            tag=TAG,
            include_alg=False,  # one algorithm only: naming it would be a choice for an attacker
            covered_component_ids=components,
            use_existing_digest=True,
        )
    except HTTPMessageSignaturesException as error:
        raise Malformed("the method or the address cannot be signed") from error
    signature = key.sign(*_split(prepared.signature_base))
    # Written here, not by apply(): that builds everything once more to see that nothing changed, at twice the time.
    return message.headers | {
        "Signature-Input": f"{_LABEL}={prepared.signature_params}",
        "Signature": f"{_LABEL}=:{base64.b64encode(signature).decode()}:",
    }


def _verify(message: _Request | _Answer) -> VerifyResult:
    try:
        # Without a tag to look for the library refuses a message with several signatures; the tag is judged after.
        return _VERIFIER.verify(message, max_age=None)[0]
    except HTTPMessageSignaturesException as error:
        if isinstance(error.__cause__, RoostError):  # raised by our resolver or algorithm, wrapped by the library
            raise error.__cause__ from error
        raise BadRequest("the signature's fields are damaged, several, or of another form") from error


def _check_shape(result: VerifyResult, components: tuple[str, ...], parameters: Set[str]) -> None:
    expected = [name if name.startswith('"') else f'"{name}"' for name in components]
    if list(result.covered_components) != [*expected, '"@signature-params"']:
        raise BadRequest("the signature must cover exactly " + ", ".join(components))
    if result.parameters.keys() != parameters or result.parameters["tag"] != TAG:
        raise BadRequest(f"the signature must have exactly {', '.join(sorted(parameters))}, and the tag {TAG}")


def _split(message: bytes) -> tuple[bytes, bytes]:
    for prefix in _PREFIXES:
        if message.startswith(prefix):
            return prefix, message[len(prefix) :]
    raise BadRequest("the signature covers other things than it must")


def _from_hex(text: str, size: int, name: str) -> bytes:
    if not re.fullmatch(rf"[0-9a-f]{{{2 * size}}}", text):
        raise BadRequest(f"{name} is not {2 * size} lower-case hexadecimal digits")
    return bytes.fromhex(text)


def _request_signed_by(signature: str) -> _Request:
    """The library wants a whole request, though an answer covers only this field of it."""
    return _Request("GET", "http://peer/", {"signature": signature})


def _as_http(url: str) -> str:
    """A WebSocket is opened by an http request; only of http does the library know the port that goes unsaid."""
    return "http" + url.removeprefix("ws") if url.startswith(("ws://", "wss://")) else url


def _digest_field(body: bytes) -> dict[str, str]:
    return {"Content-Digest": f"sha-256=:{base64.b64encode(sha256(body).digest()).decode()}:"}


def _check_digest(fields: dict[str, str], body: bytes) -> None:
    if fields["content-digest"] != _digest_field(body)["Content-Digest"]:
        raise BadRequest("the body does not fit its Content-Digest, one SHA-256")


def _fields(headers: Headers, names: tuple[str, ...]) -> dict[str, str]:
    """The named fields, each of which is there once and short; others are dropped."""
    found: dict[str, str] = {}
    for field, value in headers:
        name = field.lower()
        if name not in names:
            continue
        if name in found or len(value) > FIELD_CHARS_MAX:
            raise BadRequest(f"{name} is there twice, or too long")
        found[name] = value
    if len(found) < len(names):
        raise BadRequest("missing: " + ", ".join(name for name in names if name not in found))
    return found
