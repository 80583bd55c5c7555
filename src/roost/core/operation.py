"""The one signed, hash-linked, immutable unit that roost stores and replicates: header + head + content.

Bytes become an ``Operation`` here, once; whoever holds one may rely on its form, its head and its body hash, not on its
signature (``verify``) and not on its ancestors (``core.document``). Source: docs/protocol.md "Operation".
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from roost.core import canonical, keys
from roost.core.errors import (
    BadBody,
    BadChain,
    BadDeps,
    BadHead,
    BadKey,
    BadProof,
    BadVersion,
    Malformed,
    NotCanonical,
    TooLarge,
)
from roost.core.heads import KINDS_WITH_CONTENT, KNOWN_KINDS, Head, decode_head
from roost.core.ids import SIGNATURE_BYTES, DocumentId, LogId, OperationId, PeerKey

VERSION = 1
SIGNATURE_PREFIX = b"roost/operation/1\0"
HEADER_BYTES_MAX = 2 << 10
HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 960 << 10
DEPS_MAX = 32
TIME_MAX = canonical.INTEGER_MAX
NOT_HELD = b""  # the reason why a content is absent: nobody asked had it; else the 32-byte id of a redact
EMPTY_HASH = sha256(b"").digest()

_Bytes32 = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Count = Annotated[int, Meta(ge=0, le=canonical.INTEGER_MAX)]


class Header(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The signed array. ``document`` is empty and ``proof`` nil in a genesis only; ``backlink`` is nil at seq 0."""

    version: int
    document: Annotated[bytes, Meta(max_length=32)]
    author: _Bytes32
    log: Annotated[bytes, Meta(min_length=8, max_length=8)]
    seq: _Count
    backlink: _Bytes32 | None
    deps: tuple[_Bytes32, ...]
    proof: _Bytes32 | None
    kind: Annotated[str, Meta(min_length=1, max_length=16)]
    time: _Count
    body_size: _Count
    body_hash: _Bytes32


class Operation(Struct, frozen=True, gc=False):
    """A well-formed operation. ``content`` is None while absent; ``absence`` says why: NOT_HELD, or a redact's id."""

    id: OperationId
    document: DocumentId  # in a genesis its own id
    author: PeerKey
    log: LogId
    seq: int
    backlink: OperationId | None
    deps: tuple[OperationId, ...]
    proof: OperationId  # in a genesis its own id: it is accepted by itself
    kind: str
    time: int  # microseconds; orders, nothing more
    body_size: int
    head: Head
    header_bytes: bytes
    signature: bytes
    head_bytes: bytes
    content_hash: bytes
    content: bytes | None
    absence: bytes = NOT_HELD

    @property
    def parents(self) -> tuple[OperationId, ...]:
        """Backlink and deps: every operation that this one names as seen."""
        return self.deps if self.backlink is None else (self.backlink, *self.deps)

    @property
    def size(self) -> int:
        """Bytes that it takes on disk or on the wire, about."""
        return len(self.header_bytes) + len(self.head_bytes) + (len(self.content) if self.content else 0) + 96

    def without_content(self, absence: bytes = NOT_HELD) -> Operation:
        """The same operation with its content absent; of zero bytes there is nothing to take away."""
        if self.body_size == len(self.head_bytes):
            return self
        return msgspec.structs.replace(self, content=None, absence=absence)

    def __repr__(self) -> str:  # contents are people's words: they never reach a log
        return f"<{self.kind} {self.id.hex()[:8]} seq {self.seq}>"


_header_decoder = msgspec.msgpack.Decoder(Header)
_header_encoder = msgspec.msgpack.Encoder()


def body_hash(head_bytes: bytes, content_hash: bytes) -> bytes:
    """SHA-256(SHA-256(head) + SHA-256(content)): a content can go without breaking a signature."""
    return sha256(sha256(head_bytes).digest() + content_hash).digest()


def decode(
    header_bytes: bytes,
    signature: bytes,
    head_bytes: bytes,
    content: bytes | None,
    content_hash: bytes | None = None,
    absence: bytes = NOT_HELD,
) -> Operation:
    """Check everything that the bytes alone can show, or raise a ``Refused`` with its reason.

    content_hash is needed where content is None, and ignored otherwise. The signature is not verified here.
    """
    if len(header_bytes) > HEADER_BYTES_MAX or len(head_bytes) > HEAD_BYTES_MAX:
        raise TooLarge("header or head")
    header = _decode_header(header_bytes)
    content_hash = _check_body(header, head_bytes, content, content_hash)
    if len(signature) != SIGNATURE_BYTES or len(absence) not in (0, 32):
        raise Malformed("signature or absence")
    head = _decode_known_head(header.kind, head_bytes)
    identity = OperationId(sha256(header_bytes).digest())
    genesis = header.kind == "genesis"
    return Operation(
        identity,
        DocumentId(identity if genesis else header.document),
        PeerKey(header.author),
        LogId(header.log),
        header.seq,
        None if header.backlink is None else OperationId(header.backlink),
        header.deps,  # type: ignore[arg-type]
        OperationId(header.proof or identity),
        header.kind,
        header.time,
        header.body_size,
        head,
        header_bytes,
        signature,
        head_bytes,
        content_hash,
        content,
        absence if content is None else NOT_HELD,
    )


def _decode_header(raw: bytes) -> Header:
    try:
        header = _header_decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Malformed(f"header: {error}") from error
    if header.version != VERSION:
        raise BadVersion(str(header.version))
    if _header_encoder.encode(header) != raw:
        raise NotCanonical("header")
    _check_author(header.author)
    kind = header.kind
    if not (kind.isascii() and kind.isalpha()):
        raise Malformed("kind is not 1 to 16 ASCII letters")
    if kind == "genesis":
        if header.document or header.seq or header.backlink or header.deps or header.proof:
            raise BadChain("a genesis has no document, predecessor, deps or proof")
        return header
    if len(header.document) != 32:
        raise Malformed("document")
    if (header.seq == 0) is not (header.backlink is None):
        raise BadChain("backlink is nil at seq 0, and only there")
    _check_deps(header)
    return header


def _check_deps(header: Header) -> None:
    deps = header.deps
    if len(deps) > DEPS_MAX:
        raise BadDeps(f"more than {DEPS_MAX}")
    if len(deps) > 1 and any(low >= high for low, high in pairwise(deps)):
        raise BadDeps("not strictly ascending")
    if header.backlink is None and not deps:
        raise BadDeps("neither backlink nor deps")
    if header.backlink in deps:
        raise BadDeps("the backlink is among them")
    if header.proof is None:
        raise BadProof("nil")
    if header.backlink is None and header.proof != header.document and header.proof not in deps:
        raise BadProof("the first of a log carries its proof in deps")
    if header.proof == header.backlink and header.proof != header.document:
        raise BadProof("the backlink")


@lru_cache(maxsize=4096)
def _check_author(author: bytes) -> None:
    try:
        keys.check_peer_key(author)
    except BadKey as error:
        raise BadKey("author") from error


@lru_cache(maxsize=8)
def _join_head(raw: bytes) -> Head:
    return decode_head("join", raw)


def _decode_known_head(kind: str, raw: bytes) -> Head:
    if kind == "join":
        return _join_head(raw)
    try:
        return decode_head(kind, raw)
    except BadHead:
        raise
    except (Malformed, NotCanonical) as error:
        raise type(error)(f"head: {error.detail}") from error


def _check_body(header: Header, head_bytes: bytes, content: bytes | None, content_hash: bytes | None) -> bytes:
    """Return the content's hash."""
    if header.body_size > BODY_BYTES_MAX:
        raise TooLarge("body")
    if content is not None:
        if len(content) != header.body_size - len(head_bytes):
            raise BadBody("size")
        content_hash = sha256(content).digest() if content else EMPTY_HASH
    elif content_hash is None or len(content_hash) != 32 or header.body_size <= len(head_bytes):
        raise BadBody("neither content nor its hash")
    if body_hash(head_bytes, content_hash) != header.body_hash:
        raise BadBody("hash")
    if header.body_size != len(head_bytes) and header.kind in KNOWN_KINDS and header.kind not in KINDS_WITH_CONTENT:
        raise BadBody(f"{header.kind} has no content")
    return content_hash


def verify(operation: Operation) -> None:
    """Check that the author signed the header, or raise BadSignature."""
    keys.verify(operation.signature, operation.author, SIGNATURE_PREFIX, operation.header_bytes)


def create(
    key: keys.SigningKey,
    *,
    document: DocumentId | None,
    log: LogId,
    seq: int,
    backlink: OperationId | None,
    deps: tuple[OperationId, ...],
    proof: OperationId | None,
    kind: str,
    time: int,
    head_bytes: bytes,
    content: bytes = b"",
) -> Operation:
    """Make and sign an operation. It passes through ``decode``, so nothing leaves that a peer would refuse."""
    content_hash = sha256(content).digest() if content else EMPTY_HASH
    header = Header(
        VERSION,
        document or b"",
        key.public,
        log,
        seq,
        backlink,
        tuple(sorted(deps)),
        proof,
        kind,
        time,
        len(head_bytes) + len(content),
        body_hash(head_bytes, content_hash),
    )
    header_bytes = _header_encoder.encode(header)
    signature = key.sign(SIGNATURE_PREFIX, header_bytes)
    return decode(header_bytes, signature, head_bytes, content)
