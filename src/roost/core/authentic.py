"""Which operations are vouched for, and by which signatures.

An operation is authentic if its own signature verifies, or if it is the backlink of an authentic operation of the same
author and log: the chain carries the proof, so one signature per log and frame is enough. ``access``, ``claim`` and
``redact`` are always verified by themselves. What is not authentic yet is parked, never refused: another peer may hold
the true signature, or the author's next operation. Source: docs/protocol.md "Operation".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from roost.core import keys
from roost.core.errors import BadSignature
from roost.core.ids import OperationId, PeerKey
from roost.core.operation import SIGNATURE_PREFIX, Operation

ALWAYS_VERIFIED = frozenset(["access", "claim", "redact"])


class Signed(Protocol):
    """A header and its signature."""

    @property
    def header_bytes(self) -> bytes: ...
    @property
    def signature(self) -> bytes: ...


def is_signed(signed: Signed, author: PeerKey) -> bool:
    """Whether the signature is true."""
    try:
        keys.verify(signed.signature, author, SIGNATURE_PREFIX, signed.header_bytes)
    except BadSignature:
        return False
    return True


class Authenticated(Struct, frozen=True):
    """``operations`` are authentic, in the order they came; ``verified`` are those whose own signature was checked."""

    operations: tuple[Operation, ...]
    verified: frozenset[OperationId]
    parked: tuple[Operation, ...]


def signatures_to_verify(batch: Sequence[Operation]) -> list[int]:
    """The indices of the operations that nothing else in the batch can vouch for."""
    vouched = {(one.backlink, one.author, one.log) for one in batch}
    return [
        index
        for index, one in enumerate(batch)
        if one.kind in ALWAYS_VERIFIED or (one.id, one.author, one.log) not in vouched
    ]


def authenticate(batch: Sequence[Operation], verify: Callable[[Operation], bool]) -> Authenticated:
    """Sort a batch into what is authentic and what is not yet.

    ``verify`` says whether an operation's own signature is true; it is asked about ``signatures_to_verify``, and about
    a predecessor only where what follows it turned out false.
    """
    vouched: set[tuple[bytes, bytes, bytes]] = set()
    verified: set[OperationId] = set()
    authentic: set[OperationId] = set()
    for one in sorted(batch, key=_seq, reverse=True):  # what follows an operation in its log has the next seq
        if one.kind in ALWAYS_VERIFIED or (one.id, one.author, one.log) not in vouched:
            if not verify(one):
                continue
            verified.add(one.id)
        authentic.add(one.id)
        if one.backlink is not None:
            vouched.add((one.backlink, one.author, one.log))
    if len(authentic) == len(batch):
        return Authenticated(tuple(batch), frozenset(verified), ())
    return Authenticated(
        tuple(one for one in batch if one.id in authentic),
        frozenset(verified),
        tuple(one for one in batch if one.id not in authentic),
    )


def _seq(operation: Operation) -> int:
    return operation.seq


def cut(chunk: Sequence[tuple[int, bool]], verify: Callable[[int], bool]) -> int:
    """How many of a chunk's first operations may be sent by themselves; 0 if no beginning of it may.

    chunk: per operation its stretch, and whether its signature was verified here; in the total order. In what is sent
    each stretch must end in an operation whose own signature is true, so that the receiver has one to verify.
    ``verify(index)`` checks one that was not; an honest log costs one such check.
    """
    places: dict[int, list[int]] = {}
    for index, (stretch, _) in enumerate(chunk):
        places.setdefault(stretch, []).append(index)
    known: dict[int, bool] = {}
    length = len(chunk)
    while length:
        false = []
        for indices in places.values():
            while indices and indices[-1] >= length:
                indices.pop()
            if indices:
                end = indices[-1]
                if end not in known:
                    known[end] = chunk[end][1] or verify(end)
                if not known[end]:
                    false.append(end)
        if not false:
            return length
        length = min(false)
    return 0
