"""Random histories of edits, peers that replay them, and an oracle that makes every change from nothing.

A *fact* is what may change after an operation is there: whether it counts, whether its content can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

from automerge import core as automerge

from roost.core.edits import EditRecord, Scalar
from roost.core.graph import Frontier, Graph, LogKey, Position
from roost.core.heads import Delete, Edit, Put, Splice
from roost.core.ids import LogId, OperationId, PeerKey
from roost.core.state import Progress, State

KEYS = ("name", "topic", "a/b")
CHARACTERS = "ab é😀\0"


@dataclass(frozen=True)
class Act:
    """An operation as the replay sees it; without ``edits`` it is one of another kind."""

    id: OperationId
    log: LogKey
    seq: int
    backlink: OperationId | None
    deps: tuple[OperationId, ...]
    time: int
    edits: tuple[Edit, ...] = ()
    values: tuple[Scalar, ...] = ()

    @property
    def parents(self) -> tuple[OperationId, ...]:
        return self.deps if self.backlink is None else (self.backlink, *self.deps)


def log_of(name: str) -> LogKey:
    digest = sha256(name.encode()).digest()
    return LogKey(PeerKey(digest), LogId(digest[:8]))


def act(
    log: LogKey,
    before: Act | None,
    deps: Iterable[Act],
    time: int,
    edits: Sequence[Edit] = (),
    values: Sequence[Scalar] = (),
) -> Act:
    named = tuple(sorted(dep.id for dep in deps))
    seq = 0 if before is None else before.seq + 1
    backlink = None if before is None else before.id
    identity = sha256(repr((log, seq, backlink, named, time, edits, values)).encode()).digest()
    return Act(OperationId(identity), log, seq, backlink, named, time, tuple(edits), tuple(values))


@dataclass
class Facts:
    """void: judged not to count; unreadable: redacted, absent, or breaking the schema."""

    void: set[OperationId] = field(default_factory=set)
    unreadable: set[OperationId] = field(default_factory=set)

    @staticmethod
    def draw(acts: Sequence[Act], chance: Random) -> Facts:
        sets = []
        for _ in range(2):
            share = chance.choice((0.0, 0.1, 0.4))
            sets.append({one.id for one in acts if chance.random() < share})
        return Facts(*sets)


class Peer:
    """A document's graph by order of arrival, and the State under test."""

    def __init__(self, kind: str = "session", cached: Mapping[OperationId, bytes] | None = None) -> None:
        self.graph = Graph(lambda stretch: ())
        self.acts: dict[OperationId, Act] = {}
        self.positions: dict[OperationId, Position] = {}
        self._ids: dict[Position, OperationId] = {}
        self._unreadable: set[OperationId] = set()
        self.cache = dict(cached or {})
        self.state = State(kind, self.graph, self._ids.__getitem__, self.cache)

    def place(self, one: Act) -> None:
        """What a document does when it admits an operation."""
        before = None if one.backlink is None else self.positions[one.backlink]
        stretch = None if before is None else self.graph.stretches[before.stretch]
        if stretch is not None and before is not None and stretch.last == before.seq:
            stretch.last = one.seq
        else:
            stretch = self.graph.start(len(self.graph.stretches), one.log, before, one.seq)
        if one.deps:
            stretch.merges.append(one.seq, [self.positions[dep] for dep in one.deps])
        position = Position(stretch.number, one.seq)
        self.acts[one.id], self.positions[one.id], self._ids[position] = one, position, one.id

    def live(self, facts: Facts) -> Frontier:
        frontier: Frontier = {}
        for identity, position in self.positions.items():
            if identity not in facts.void:
                self.graph.extend(frontier, position)
        return frontier

    def record(self, one: Act, facts: Facts) -> EditRecord:
        values = None if one.id in facts.unreadable else one.values
        return EditRecord(one.id, one.log, self.positions[one.id], one.time, one.edits, values)

    def receive(self, acts: Iterable[Act], facts: Facts, edits_max: int | None = None) -> Progress:
        """New operations, and the facts as they are now."""
        new = list(acts)
        for one in new:
            self.place(one)
        turned = {i for i in facts.unreadable ^ self._unreadable if i in self.acts} - {one.id for one in new}
        self._unreadable = set(facts.unreadable)
        told = [*new, *(self.acts[i] for i in sorted(turned))]
        self.state.note(self.live(facts), [self.record(one, facts) for one in told if one.edits])
        return self.work(edits_max)

    def work(self, edits_max: int | None = None) -> Progress:
        """Work off the edits and keep their changes as a store would."""
        progress = self.state.advance(edits_max)
        for identity in progress.forgotten:
            self.cache.pop(identity, None)
        self.cache.update(progress.made)
        return progress


class Writers:
    """Writers who edit, meet and twin: a twin is a copy of a data directory, so both continue one log."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.acts: list[Act] = []
        self._clock = 1000
        self._writers: list[tuple[LogKey, dict[OperationId, Act], list[Act]]] = [
            (log_of(name), {}, []) for name in ("ann", "bob", "cid", "dee")[: self.chance.randrange(3, 5)]
        ]

    def history(self, count: int) -> list[Act]:
        """So many operations, parents first."""
        while len(self.acts) < count:
            draw = self.chance.random()
            log, known, chain = self.chance.choice(self._writers)
            if draw < 0.25:
                known.update(self.chance.choice(self._writers)[1])
            elif draw < 0.33 and len(self._writers) < 7:
                self._writers.append((log, dict(known), list(chain)))
            else:
                self._write(log, known, chain)
        return self.acts

    def _write(self, log: LogKey, known: dict[OperationId, Act], chain: list[Act]) -> None:
        before = chain[-1] if chain else None
        named = {parent for one in known.values() for parent in one.parents}
        deps = [one for one in known.values() if one.id not in named and one is not before]
        self._clock += self.chance.randrange(-20, 30)
        latest = max([one.time for one in (*deps, *([] if before is None else [before]))], default=0)
        edits, values = self._edits() if self.chance.random() < 0.85 else ((), ())
        made = act(log, before, deps, max(self._clock, latest + 1), edits, values)
        if made.id not in {one.id for one in self.acts}:
            self.acts.append(made)
        known[made.id] = made
        chain.append(made)

    def _edits(self) -> tuple[tuple[Edit, ...], tuple[Scalar, ...]]:
        pairs = [self._edit() for _ in range(self.chance.choice((1, 1, 2, 3)))]
        return tuple(edit for edit, _ in pairs), tuple(value for _, value in pairs)

    def _edit(self) -> tuple[Edit, Scalar]:
        draw = self.chance.random()
        if draw < 0.03:
            return Put("nowhere", "key"), 1
        if draw < 0.3:
            value: Scalar = self.chance.choice(("text", -5, 2.5, True, None, self.chance.randrange(1 << 40)))
            return Put(self.chance.choice(("meta", "tags")), self.chance.choice(KEYS)), value
        if draw < 0.4:
            return Delete(self.chance.choice(("meta", "tags")), self.chance.choice(KEYS)), None
        text = "".join(self.chance.choice(CHARACTERS) for _ in range(self.chance.randrange(5)))
        return Splice("notes", self.chance.randrange(5), self.chance.choice((0, 0, 0, 1, 2)), len(text)), text


def shuffled(acts: Sequence[Act], chance: Random) -> list[Act]:
    """A random order in which parents still come first."""
    left, done, order = list(acts), set[OperationId](), []
    while left:
        ready = [one for one in left if all(parent in done for parent in one.parents)]
        one = chance.choice(ready)
        left.remove(one)
        done.add(one.id)
        order.append(one)
    return order


# --- the oracle: PROTOCOL 3 by its letter, every change from nothing --------------------------------------------------


def oracle(acts: Sequence[Act], facts: Facts) -> automerge.Document:
    """The main document of a session, for operations given parents first."""
    by_id = {one.id: one for one in acts}
    ancestors: dict[OperationId, set[OperationId]] = {}
    for one in acts:
        ancestors[one.id] = set(one.parents).union(*(ancestors[parent] for parent in one.parents))
    live = {i for one in acts if one.id not in facts.void for i in (one.id, *ancestors[one.id])}
    siblings: dict[tuple[LogKey, OperationId | None], list[Act]] = {}
    for i in live:
        siblings.setdefault((by_id[i].log, by_id[i].backlink), []).append(by_id[i])
    ordered = sorted((by_id[i] for i in live if by_id[i].edits), key=lambda one: (one.time, one.id))
    changes: dict[OperationId, bytes] = {}
    for one in ordered:
        document, places = first_document()
        deliver(document, [changes[other.id] for other in ordered if other.id in ancestors[one.id]])
        branch = b""
        step: Act | None = one
        while step is not None and not branch:
            if len(siblings[step.log, step.backlink]) > 1:
                branch = step.id
            step = None if step.backlink is None else by_id[step.backlink]
        document.set_actor(sha256(one.log.author + one.log.log + branch).digest()[:16])
        changes[one.id] = _run(document, places, one, one.id not in facts.unreadable)
    main, _ = first_document()
    deliver(main, [changes[one.id] for one in ordered])
    return main


def first_document() -> tuple[automerge.Document, dict[str, bytes]]:
    document = automerge.Document(sha256(b"roost/containers/1\0session").digest()[:16])
    places: dict[str, bytes] = {}
    with document.transaction() as change:
        for name in ("meta", "agents", "tags"):
            places[name] = change.put_object(automerge.ROOT, name, automerge.ObjType.Map)
        places["notes"] = change.put_object(automerge.ROOT, "notes", automerge.ObjType.Text)
    return document, places


def deliver(document: automerge.Document, changes: Sequence[bytes]) -> None:
    for change in filter(None, changes):
        size = bytearray()
        left = len(change)
        while left > 127:
            size.append(left % 128 + 128)
            left //= 128
        size.append(left)
        message = b"\x42\0\0\0\x01" + bytes(size) + change
        document.receive_sync_message(automerge.SyncState(), automerge.Message.decode(message))


def _run(document: automerge.Document, places: Mapping[str, bytes], one: Act, readable: bool) -> bytes:
    length = document.length(places["notes"])
    for edit in one.edits:
        if isinstance(edit, Splice):
            if edit.index + edit.remove > length:
                return b""
            length += edit.length - edit.remove
        elif edit.map not in places:
            return b""
    before = document.get_heads()
    with document.transaction() as change:
        for edit, value in zip(one.edits, one.values, strict=True):
            _item(change, places, edit, value, readable)
    made = document.get_changes(before)
    return bytes(made[0].bytes) if made else b""


def _item(
    change: automerge.Transaction, places: Mapping[str, bytes], edit: Edit, value: Scalar, readable: bool
) -> None:
    kinds = automerge.ScalarType
    if isinstance(edit, Splice):
        for _ in range(edit.remove):
            change.delete(places[edit.text], edit.index)
        for offset, character in enumerate(str(value) if readable else "\u2588" * edit.length):
            change.insert(places[edit.text], edit.index + offset, kinds.Str, character)
    elif isinstance(edit, Delete):
        change.delete(places[edit.map], edit.key)
    elif not readable or value is None:
        change.put(places[edit.map], edit.key, kinds.Null, None)
    else:
        kind = {str: kinds.Str, int: kinds.Int, float: kinds.F64, bool: kinds.Boolean}[type(value)]
        change.put(places[edit.map], edit.key, kind, value)
