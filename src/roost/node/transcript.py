"""Reading a session's transcript: branches, pages, and an entry as surfaces show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import UNSET

from roost.adapters.store.records import CONTENT_ABSENT, CONTENT_ERASED, OrderKey, Row
from roost.adapters.store.store import Store
from roost.core.entry import decode_content
from roost.core.errors import NotFound
from roost.core.heads import EntryHead
from roost.core.ids import DocumentId, OperationId

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

ODD_CLOCK_MICROSECONDS = 10 * 60 * 1_000_000  # shown as odd when author's and arrival's clocks differ by more
FIRST_BRANCH = b""
PAGE = 500


def iso(microseconds: int) -> str:
    """A moment as ISO 8601 in UTC; what no calendar knows is clamped."""
    seconds = min(max(microseconds / 1e6, 0.0), 253402300799.0)
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry_json(row: Row, *, hidden: bool = False) -> dict[str, Json]:
    """An entry as ``log`` and ``follow`` give it; docs/cli.md names the fields. ``hidden``: a redact says so."""
    operation = row.operation
    head = operation.head
    assert isinstance(head, EntryHead)
    content = None if hidden else decode_content(operation.content)
    shown: dict[str, Json] = {
        "id": operation.id.hex(),
        "type": head.type,
        "parent": None if head.parent is None else head.parent.hex(),
        "branch": branch_of(operation.id, head).hex() or None,
        "sender": "" if content is None else content.sender,
        "author": operation.author.hex(),
        "at": iso(head.at),
        "content": "" if content is None else content.content,
    }
    if content is None:
        states = {CONTENT_ABSENT: "absent", CONTENT_ERASED: "redacted"}
        shown["redacted" if hidden else states.get(row.content_state, "unreadable")] = True
    elif content.data is not UNSET:
        shown["data"] = _parsed(content.data)
    if head.origin is not UNSET:
        shown["origin"] = {
            "tool": head.origin.tool, "session": head.origin.session, "position": head.origin.position
        }  # fmt: skip
    elif abs(head.at - row.arrived) > ODD_CLOCK_MICROSECONDS and not row.local:
        shown["odd_clock"] = True
    for name in ("agent", "turn", "run", "claim"):
        value = getattr(head, name)
        if value is not UNSET:
            shown[name] = value.hex()
    return shown


def _parsed(text: object) -> Json:
    try:
        value: Json = json.loads(str(text))
    except (ValueError, RecursionError):
        return str(text)
    return value


def branch_of(identity: OperationId, head: EntryHead) -> bytes:
    """The branch that an entry stands on: empty for the first, else the id of the entry that opened it."""
    if head.branch is None:
        return FIRST_BRANCH
    return identity if head.branch == "new" else bytes(head.branch)


class Transcript:
    """The entries of one session, in the total order, branch by branch."""

    def __init__(self, store: Store, document: DocumentId) -> None:
        self._store = store
        self._document = document

    def current_branch(self) -> bytes:
        """The branch that the latest accepted ``select`` names; the first where there is none."""
        row = self._store.reader.latest_select(self._document)
        if row is None or not isinstance(row.operation.head, EntryHead):
            return FIRST_BRANCH
        return branch_of(row.operation.id, row.operation.head)

    def spans(self, branch: bytes) -> list[tuple[bytes, Row | None]]:
        """(branch, last entry shown or None for all), newest first: a branch, its base, the base of that ..."""
        found: list[tuple[bytes, Row | None]] = []
        seen: set[bytes] = set()
        until: Row | None = None
        current = branch
        while current not in seen:
            seen.add(current)
            found.append((current, until))
            if current == FIRST_BRANCH:
                break
            opened = self._store.reader.operation(OperationId(current))
            if opened is None or not isinstance(opened.operation.head, EntryHead):
                break
            parent = opened.operation.head.parent
            until = None if parent is None else self._store.reader.operation(OperationId(parent))
            if until is None or not isinstance(until.operation.head, EntryHead):
                break
            current = branch_of(until.operation.id, until.operation.head)
        return found

    def tip(self, branch: bytes) -> Row | None:
        """The last entry that a branch shows."""
        return next(self.newest_first(branch, None), None)

    def newest_first(self, branch: bytes | None, before: Row | None) -> Iterator[Row]:
        """Accepted entries below ``before``, newest first; branch None means all branches."""
        if branch is None:
            yield from self._down(None, before, None)
            return
        below = before
        spans = self.spans(branch)
        if before is not None:
            spans = self._spans_below(spans, before)
        for name, until in spans:
            yield from self._down(name, below, until)
            below = None

    def _spans_below(self, spans: list[tuple[bytes, Row | None]], row: Row) -> list[tuple[bytes, Row | None]]:
        head = row.operation.head
        assert isinstance(head, EntryHead)
        branch = branch_of(row.operation.id, head)
        for index, (name, _) in enumerate(spans):
            if name == branch:
                return spans[index:]
        raise NotFound("that entry is not on this branch")

    def _down(self, branch: bytes | None, below: Row | None, until: Row | None) -> Iterator[Row]:
        if until is not None and (below is None or _order(until) < _order(below)):
            yield from [until] if until.accepted else []
            below = until
        while True:
            page = self._store.reader.entries(
                self._document, branch, before=None if below is None else _order(below), limit=PAGE, newest_first=True
            )
            yield from page
            if len(page) < PAGE:
                return
            below = page[-1]

    def oldest_first(self, branch: bytes | None, after: Row | None) -> Iterator[Row]:
        """Accepted entries above ``after``, oldest first."""
        spans = [(None, None)] if branch is None else [*reversed(self.spans(branch))]
        if branch is not None and after is not None:
            spans = [*reversed(self._spans_until(self.spans(branch), after))]
        above = after
        for name, until in spans:
            yield from self._up(name, above, until)
            above = None

    def _spans_until(self, spans: list[tuple[bytes, Row | None]], row: Row) -> list[tuple[bytes, Row | None]]:
        head = row.operation.head
        assert isinstance(head, EntryHead)
        branch = branch_of(row.operation.id, head)
        for index, (name, _) in enumerate(spans):
            if name == branch:
                return spans[: index + 1]
        raise NotFound("that entry is not on this branch")

    def _up(self, branch: bytes | None, above: Row | None, until: Row | None) -> Iterator[Row]:
        while True:
            page = self._store.reader.entries(
                self._document, branch, after=None if above is None else _order(above), limit=PAGE, newest_first=False
            )
            for row in page:
                if until is not None and _order(row) > _order(until):
                    return
                yield row
            if len(page) < PAGE:
                return
            above = page[-1]


def _order(row: Row) -> OrderKey:
    return OrderKey(row.operation.time, row.operation.id)
