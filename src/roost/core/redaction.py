"""Which redacts take effect: by the target's author at once, or under an admin's proof (PROTOCOL 2)."""

from __future__ import annotations

from roost.core.document import Document
from roost.core.heads import RedactHead
from roost.core.ids import OperationId
from roost.core.index import Index
from roost.core.operation import Operation

REDACTABLE = frozenset(["entry", "edit"])


def effective(document: Document, redact: Operation) -> OperationId | None:
    """The target of an accepted redact that may have its effect, if it is in the set."""
    assert isinstance(redact.head, RedactHead)
    target = OperationId(redact.head.target)
    known = document.find(target)
    by = document.find(redact.id)
    if known is None or by is None or known.kind not in REDACTABLE or not document.accepted(by):
        return None
    group = document.access.by_number[by.group]
    return target if known.author == redact.author or group.role == "admin" else None


def redacted_by(document: Document, operation: Operation, index: Index) -> OperationId | None:
    """The redact that took this operation's content away here, if one did."""
    if operation.kind not in REDACTABLE:
        return None
    for identity in index.redactions_of(operation.id):
        by = document.find(identity)
        if by is None or not document.accepted(by):
            continue
        group = document.access.by_number[by.group]
        if by.author == operation.author or group.role == "admin":
            return identity
    return None
