"""The edits of a document as the replay needs them: by stretch, in the order, with the facts that changes rest on.

A *made change* is what the store caches per edit: a CRC-32 of the rest, 17 bytes of facts (readable or not, and the
actor), then the change, which is empty if the edit has no effect. Sum and facts are checked when cached changes are
taken back: Automerge passes over a damaged change in silence, and a crash between "redacted" and "made again" must not
leave a stale one in use.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple, TypeAlias
from zlib import crc32

from msgspec import Struct

from roost.core.edits import EditRecord
from roost.core.graph import Frontier, Graph, LogKey, Position
from roost.core.ids import OperationId

Order: TypeAlias = tuple[int, OperationId]

ACTOR_BYTES = 16
SUM_BYTES = 4
MADE_BYTES = SUM_BYTES + 1 + ACTOR_BYTES  # of a made change without effect
_ForkMarks: TypeAlias = tuple[tuple[int, bool, bool], ...]


class KnownEdit(Struct, eq=False, gc=False):
    """An edit, its made change if there is one, and how far it got on its way into the main document."""

    record: EditRecord
    order: Order
    made: bytes | None
    shown: bool = False
    queued: bool = False


def by_order(edit: KnownEdit) -> Order:
    return edit.order


def seal(facts: bytes, change: bytes) -> bytes:
    """The made change, as it is cached."""
    made = facts + change
    return crc32(made).to_bytes(SUM_BYTES, "big") + made


def _intact(made: bytes) -> bool:
    return len(made) >= MADE_BYTES and crc32(made[SUM_BYTES:]).to_bytes(SUM_BYTES, "big") == made[:SUM_BYTES]


class Line:
    """The edits of one stretch, by ascending seq, and how far it was live when last looked at."""

    __slots__ = ("edits", "live", "seqs")

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.edits: list[KnownEdit] = []
        self.live = -1

    def insert(self, edit: KnownEdit) -> None:
        seq = edit.record.position.seq
        place = bisect_left(self.seqs, seq)
        self.seqs.insert(place, seq)
        self.edits.insert(place, edit)

    def between(self, above: int, up_to: int) -> list[KnownEdit]:
        """The edits with above < seq <= up_to."""
        return self.edits[bisect_right(self.seqs, above) : bisect_right(self.seqs, up_to)]


class Shift(NamedTuple):
    """What new facts mean for the replay."""

    fresh: list[KnownEdit]  # became live, or came live
    withdrawn: bool  # something that the main document holds is no longer live, or was cut
    cut: Order | None  # changes from here on were forgotten


class History:
    """Every edit that was given, the live frontier, and the made changes."""

    def __init__(
        self, graph: Graph, id_at: Callable[[Position], OperationId], cached: Mapping[OperationId, bytes]
    ) -> None:
        self._graph = graph
        self._id_at = id_at
        self._cached = dict(cached)
        self._loaded = False
        self._live: Frontier = {}
        self._edits: dict[OperationId, KnownEdit] = {}
        self._logs: dict[LogKey, set[int]] = {}  # stretches that hold edits
        self._fork_marks: dict[LogKey, _ForkMarks] = {}
        self._plain_actors: dict[LogKey, bytes] = {}
        self.lines: dict[int, Line] = {}
        self.forgotten: set[OperationId] = set()  # their cached changes are void; the caller takes them away

    def live_edits(self) -> list[KnownEdit]:
        """Every live edit in the order."""
        return sorted((edit for line in self.lines.values() for edit in line.between(-1, line.live)), key=by_order)

    def is_live(self, edit: KnownEdit) -> bool:
        stretch, seq = edit.record.position
        return seq <= self._live.get(stretch, -1)

    def note(self, live: Frontier, records: Iterable[EditRecord] = ()) -> Shift:
        """Take in records (a known id: whether its content can be read) and the live frontier."""
        added, stale = self._take(records)
        self._live = dict(live)
        fresh = [edit for edit in added if self.is_live(edit)]
        withdrawn = self._move(fresh)
        stale += [edit for edit in fresh if edit.made is not None and not self._facts_hold(edit)]
        for log, stretches in self._logs.items():
            if self._graph.forked(log) and self._marks_changed(log):
                live_now = (
                    edit for stretch in stretches for edit in self.lines[stretch].between(-1, live.get(stretch, -1))
                )
                stale += [edit for edit in live_now if edit.made is not None and not self._facts_hold(edit)]
        if not self._loaded:
            stale += self._gaps()
        if not stale:
            return Shift(fresh, withdrawn, None)
        cut = min(edit.order for edit in stale)
        return Shift(fresh, self.forget_from(cut) or withdrawn, cut)

    def forget_from(self, cut: Order | None) -> bool:
        """Forget the changes from ``cut`` on (None: all); whether the main document holds one of them."""
        shown = False
        for edit in self._edits.values():
            if edit.made is not None and (cut is None or edit.order >= cut):
                edit.made = None
                self.forgotten.add(edit.record.id)
                shown = shown or edit.shown
        return shown

    def _take(self, records: Iterable[EditRecord]) -> tuple[list[KnownEdit], list[KnownEdit]]:
        """The edits that are new, and those from which on changes no longer hold."""
        added: list[KnownEdit] = []
        stale: list[KnownEdit] = []
        for record in records:
            known = self._edits.get(record.id)
            if known is None:
                edit = self._add(record)
                added.append(edit)
                if self.is_live(edit):  # by the frontier before this: later edits may have been made without it
                    stale.append(edit)
            elif (known.record.values is None) is not (record.values is None):
                known.record = record
                if known.made is not None:
                    stale.append(known)
        return added, stale

    def _add(self, record: EditRecord) -> KnownEdit:
        edit = KnownEdit(record, (record.time, record.id), self._cached.pop(record.id, None))
        if edit.made is not None and not _intact(edit.made):
            edit.made = None
            self.forgotten.add(record.id)
        self._edits[record.id] = edit
        line = self.lines.get(record.position.stretch)
        if line is None:
            line = self.lines[record.position.stretch] = Line()
            self._logs.setdefault(record.log, set()).add(record.position.stretch)
        line.insert(edit)
        return edit

    def _move(self, fresh: list[KnownEdit]) -> bool:
        """Add what the frontier newly covers to ``fresh``; whether it uncovers something that is shown."""
        seen = {edit.record.id for edit in fresh}
        withdrawn = False
        for stretch, line in self.lines.items():
            now = self._live.get(stretch, -1)
            if now > line.live:
                fresh += [edit for edit in line.between(line.live, now) if edit.record.id not in seen]
            elif now < line.live:
                withdrawn = withdrawn or any(edit.shown for edit in line.between(now, line.live))
            line.live = now
        return withdrawn

    def _gaps(self) -> list[KnownEdit]:
        """At the first load: the first edit without a change that holds. Behind it nothing can be vouched for."""
        self._loaded = True
        self.forgotten.update(self._cached)  # of edits that are no more
        self._cached.clear()
        for edit in sorted(self._edits.values(), key=by_order):
            if edit.made is None:
                if self.is_live(edit):
                    return [edit]
            elif edit.made[SUM_BYTES : SUM_BYTES + 1] != _readable(edit):
                return [edit]
        return []

    # --- the facts ----------------------------------------------------------------------------------------------

    def facts(self, edit: KnownEdit) -> bytes:
        """What the change of a live edit rests on, besides its ancestors."""
        return _readable(edit) + self._actor(edit.record)

    def _facts_hold(self, edit: KnownEdit) -> bool:
        return edit.made is not None and edit.made[SUM_BYTES:MADE_BYTES] == self.facts(edit)

    def _actor(self, record: EditRecord) -> bytes:
        """One per log, and one more per live branch of it: else two changes would claim one (actor, seq)."""
        sibling = self._graph.last_sibling(record.position, self._live)
        if sibling is not None:
            return sha256(record.log.author + record.log.log + self._id_at(sibling)).digest()[:ACTOR_BYTES]
        plain = self._plain_actors.get(record.log)
        if plain is None:
            plain = sha256(record.log.author + record.log.log).digest()[:ACTOR_BYTES]
            self._plain_actors[record.log] = plain
        return plain

    def _marks_changed(self, log: LogKey) -> bool:
        """Whether other branches of a log are live than before."""
        marks = []
        for number in self._graph.logs[log]:
            stretch = self._graph.stretches[number]
            base = stretch.base
            goes_on = base is not None and self._live.get(base.stretch, -1) > base.seq
            marks.append((number, self._live.get(number, -1) >= stretch.first, goes_on))
        before, after = self._fork_marks.get(log), tuple(marks)
        self._fork_marks[log] = after
        return before != after


def _readable(edit: KnownEdit) -> bytes:
    return b"\0" if edit.record.values is None else b"\1"
