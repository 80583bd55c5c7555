"""Check a stored document from its bytes alone: every hash, every chain, every signature that the rules rest on."""

from __future__ import annotations

from hashlib import sha256

from roost.adapters.store.reader import Reader
from roost.adapters.store.records import Row
from roost.adapters.store.store import Store
from roost.core import operation as operations
from roost.core.errors import Refused
from roost.core.ids import DocumentId, OperationId
from roost.core.operation import Operation
from roost.core.outcome import StretchRow
from roost.node.transcript import Json

PAGE = 1000
ALWAYS_VERIFIED = frozenset(["access", "claim", "redact", "genesis"])


async def verify_document(store: Store, document: DocumentId) -> dict[str, Json]:
    """The row of ``roost verify``. An operation is good if its bytes hash to its id and it is authentic."""
    checked, bad = await store.read(lambda reader: _check(reader, document))
    return {
        "session": document.hex(),
        "operations": checked,
        "ok": bad is None,
        "first_bad": None if bad is None else bad.hex(),
    }


def _check(reader: Reader, document: DocumentId) -> tuple[int, OperationId | None]:
    checked = 0
    bad: list[tuple[int, OperationId]] = []
    authentic_below: set[OperationId] = set()  # backlinks that a fork on another stretch vouches for
    for stretch in sorted(reader.stretches(document), key=lambda row: row.first, reverse=True):
        checked += _check_stretch(reader, document, stretch, authentic_below, bad)
    return checked, min(bad)[1] if bad else None


def _check_stretch(
    reader: Reader,
    document: DocumentId,
    stretch: StretchRow,
    vouched: set[OperationId],
    bad: list[tuple[int, OperationId]],
) -> int:
    """From the end of the stretch down: whoever an authentic operation names as its backlink is authentic."""
    count = 0
    high = stretch.last
    while high >= stretch.first:
        low = max(stretch.first, high - PAGE + 1)
        page = reader.operations_between(document, stretch.number, low, high, PAGE)
        if [row.position.seq for row in page] != list(range(low, high + 1)):
            bad.append((0, OperationId(document)))
            return count
        for row in reversed(page):
            count += 1
            operation = row.operation
            if not _sound(row) or not _authentic(operation, row.verified, vouched):
                bad.append((operation.time, operation.id))
            elif operation.backlink is not None:
                vouched.add(operation.backlink)
            vouched.discard(operation.id)
        high = low - 1
    return count


def _sound(row: Row) -> bool:
    operation = row.operation
    try:
        again = operations.decode(
            operation.header_bytes,
            operation.signature,
            operation.head_bytes,
            operation.content,
            operation.content_hash,
            operation.absence,
        )
    except Refused:
        return False
    return again.id == operation.id == sha256(operation.header_bytes).digest()


def _authentic(operation: Operation, verified: bool, vouched: set[OperationId]) -> bool:
    if not verified and operation.kind not in ALWAYS_VERIFIED and operation.id in vouched:
        return True
    try:
        operations.verify(operation)
    except Refused:
        return operation.id in vouched and operation.kind not in ALWAYS_VERIFIED
    return True
