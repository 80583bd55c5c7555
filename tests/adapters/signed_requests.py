"""Signed requests for the tests of signatures: made by the module, and made by the RFC alone."""

from __future__ import annotations

import base64
from dataclasses import replace
from hashlib import sha256

from roost.adapters.replays import ReplayCache
from roost.adapters.signatures import ReceivedRequest, VerifiedRequest, sign_request, verify_request
from roost.core.ids import PeerKey
from roost.core.keys import SigningKey

ALICE, BOB, EVE = (SigningKey.from_seed(name * 32) for name in (b"a", b"b", b"e"))
NOW = 1_700_000_000
NONCE = bytes(range(16))
URL = "http://127.0.0.1:7777/v1/join?document=00&x=%2F"
BODY = b"body"
COVERED = ("@method", "@authority", "@path", "@query", "content-digest", "roost-recipient")


def request(now: float = NOW, nonce: bytes = NONCE, url: str = URL, key: SigningKey = ALICE) -> ReceivedRequest:
    headers = sign_request(key, "POST", url, BODY, BOB.public, now, nonce)
    return ReceivedRequest("POST", url, tuple(headers.items()), BODY)


def received(
    sent: ReceivedRequest,
    *,
    now: float = NOW,
    started: float = NOW - 1000,
    recipient: PeerKey = BOB.public,
    replays: ReplayCache | None = None,
) -> VerifiedRequest:
    return verify_request(
        sent,
        recipient=recipient,
        authorities={"127.0.0.1:7777", "bob.example"},
        now_seconds=now,
        started_seconds=started,
        replays=ReplayCache() if replays is None else replays,
    )


def with_field(sent: ReceivedRequest, name: str, value: str) -> ReceivedRequest:
    assert name in dict(sent.headers)
    return replace(sent, headers=tuple((n, value if n == name else v) for n, v in sent.headers))


def handmade(
    components: tuple[str, ...] = COVERED,
    *,
    key: SigningKey = ALICE,
    parameters: dict[str, str] | None = None,
    body: bytes = BODY,
) -> ReceivedRequest:
    """A well signed request of any shape, put together by RFC 9421 section 2.5 and not by the library."""
    digest = f"sha-256=:{base64.b64encode(sha256(body).digest()).decode()}:"
    values = {
        "@method": "POST",
        "@authority": "127.0.0.1:7777",
        "@path": "/v1/join",
        "@query": "?document=00&x=%2F",
        "@scheme": "http",
        "content-digest": digest,
        "roost-recipient": BOB.public.hex(),
    }
    given = {"created": f"{NOW}", "keyid": f'"{key.public.hex()}"', "nonce": f'"{NONCE.hex()}"', "tag": '"roost/1"'}
    given = given if parameters is None else {name: v for name, v in (given | parameters).items() if v}
    shape = "(" + " ".join(f'"{c}"' for c in components) + ")" + "".join(f";{n}={v}" for n, v in given.items())
    base = "".join(f'"{c}": {values[c]}\n' for c in components) + f'"@signature-params": {shape}'
    signature = key.sign(base[:1].encode(), base[1:].encode())
    headers = {
        "content-digest": digest,
        "roost-recipient": BOB.public.hex(),
        "signature-input": f"any={shape}",
        "signature": f"any=:{base64.b64encode(signature).decode()}:",
    }
    return ReceivedRequest("POST", URL, tuple(headers.items()), body)
