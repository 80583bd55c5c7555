"""Which redacts take effect: by the target's author at once, under an admin's proof by hiding first (PROTOCOL 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from roost.core.document import Document
from roost.core.heads import RedactHead
from roost.core.ids import OperationId, PeerKey
from roost.core.index import Index, Known
from roost.core.operation import Operation

REDACTABLE = frozenset(["entry", "edit"])


def effect(document: Document, redact: Operation) -> Literal["erase", "hide"] | None:
    """What a redact in the set does to its target: by the target's author the content goes at once.

    What another admin redacts is hidden, and goes after seven days unless the redact has turned void by then.
    """
    assert isinstance(redact.head, RedactHead)
    known = document.find(OperationId(redact.head.target))
    by = document.find(redact.id)
    if known is None or by is None or known.kind not in REDACTABLE or not document.accepted(by):
        return None
    if known.author == redact.author:
        return "erase"
    return "hide" if document.access.by_number[by.group].role == "admin" else None


def erased_by(document: Document, operation: Operation, index: Index) -> OperationId | None:
    """The redact by its own author that took this operation's content away, if there is one."""
    if operation.kind not in REDACTABLE:
        return None
    found = _effective(document, operation.id, operation.author, index)
    return next((one for one, by in found if by.author == operation.author), None)


def is_hidden(document: Document, identity: OperationId, index: Index) -> bool:
    """Whether the content of an operation of the set is shown to nobody."""
    known = document.known(identity)
    return known.kind in REDACTABLE and any(True for _ in _effective(document, identity, known.author, index))


def _effective(
    document: Document, target: OperationId, author: PeerKey, index: Index
) -> Iterator[tuple[OperationId, Known]]:
    for identity in dict.fromkeys([*index.redactions_of(target), *document.redactions.get(target, ())]):
        by = document.find(identity)
        if by is None or not document.accepted(by):
            continue
        group = document.access.by_number[by.group]
        if by.author == author or group.role == "admin":
            yield identity, by
