"""The document's mutable state: an Automerge document that each peer makes for itself from readable edits.

The only module that touches Automerge, and all that it feeds to it are changes this peer made: hostile bytes abort the
process or brick a document. Every edit becomes one change, made on a *replica* that holds exactly the changes of the
edits among its ancestors; the *main* document holds those of all live edits. Made changes are cached by the store; when
a fact they rest on changes (a content can be read or not, a log forks), they are made again from there on.
Source: docs/protocol.md "State".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from typing import TypeAlias, TypeVar

from automerge import core as automerge
from msgspec import Struct

from roost.core.edits import CONTAINERS, EditRecord, Scalar, has_places, lengths_after
from roost.core.errors import StateFailed
from roost.core.graph import Frontier, Graph, Position
from roost.core.heads import Delete, Put, Splice
from roost.core.history import MADE_BYTES, History, KnownEdit, Order, by_order, seal
from roost.core.ids import OperationId

Handle: TypeAlias = bytes  # an Automerge object id

_PUT_TYPES = {
    str: automerge.ScalarType.Str,
    int: automerge.ScalarType.Int,
    float: automerge.ScalarType.F64,
    bool: automerge.ScalarType.Boolean,
    type(None): automerge.ScalarType.Null,
}
UNREADABLE = "\N{FULL BLOCK}"  # stands for each character of a splice that cannot be read
MESSAGE_CHANGES_MAX = 500  # more per message gain no speed
REPLICAS_MAX = 32  # each is a copy of the state in memory; the one used longest ago goes first
CLOCK_STEP = 32  # Automerge keeps the clock of every 32nd change; asking from elsewhere walks the whole history
ANCHORED_MAX = 64  # more changes behind an anchor cost more than that walk

_T = TypeVar("_T")
_wrecks: list[object] = []  # a transaction that the engine failed in: freeing it would crash the process


class StateView(Struct, frozen=True):
    """The state as it stands: map -> key -> value, text -> characters, and the heads in hex, ascending."""

    maps: dict[str, dict[str, Scalar]]
    texts: dict[str, str]
    heads: tuple[str, ...]


class Progress(Struct, frozen=True):
    """What the store must do in one transaction: first forget, then keep; ``settled``: nothing is left to do."""

    forgotten: frozenset[OperationId]
    made: dict[OperationId, bytes]
    settled: bool


@contextmanager
def _border() -> Iterator[None]:
    """Automerge reports by bare ``Exception``, and a Rust panic is a ``BaseException``: both become StateFailed."""
    try:
        yield
    except BaseException as error:
        if type(error) is Exception or type(error).__module__ == "pyo3_runtime":
            raise StateFailed(type(error).__name__) from error
        raise


class _Containers(Struct, frozen=True):
    maps: dict[str, Handle]
    texts: dict[str, Handle]
    change: bytes  # the fixed first change; empty for a kind that this version does not know
    actor: bytes


@lru_cache(maxsize=16)
def _containers(kind: str) -> _Containers:
    actor = sha256(b"roost/containers/1\0" + kind.encode()).digest()[:16]
    if kind not in CONTAINERS:
        return _Containers({}, {}, b"", actor)
    map_names, text_names = CONTAINERS[kind]
    document = automerge.Document(actor)
    with document.transaction() as change:
        maps = {name: change.put_object(automerge.ROOT, name, automerge.ObjType.Map) for name in map_names}
        texts = {name: change.put_object(automerge.ROOT, name, automerge.ObjType.Text) for name in text_names}
    return _Containers(maps, texts, bytes(document.get_changes([])[0].bytes), actor)


def _message(changes: Sequence[bytes]) -> bytes:
    """A sync message with no heads, need or have, and these changes: the one way to apply a change without ``load``."""
    parts = [part for change in changes for part in (_varint(len(change)), change)]
    return b"".join([b"\x42\0\0\0", _varint(len(changes)), *parts])


def _varint(number: int) -> bytes:
    """Unsigned LEB128."""
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


class _Copy:
    """An Automerge document that holds the first change and what was delivered to it."""

    def __init__(self, containers: _Containers) -> None:
        self.containers = containers
        self.document = automerge.Document(containers.actor)  # given, so that the library draws none
        self.newest: Order | None = None  # of what it holds
        self.count = 0
        self.anchor: bytes | None = None  # the newest change known whose clock Automerge keeps
        self.straight = True  # nothing branched since the anchor
        self._apply([containers.change] if containers.change else [])

    def deliver(self, edits: Sequence[KnownEdit]) -> None:
        """Take over the changes of ``edits``, which ascend in the order."""
        if not edits:
            return
        changes = []
        for edit in edits:
            assert edit.made is not None, "an ancestor's change was not made"
            if len(edit.made) > MADE_BYTES:
                changes.append(edit.made[MADE_BYTES:])
        for start in range(0, len(changes), MESSAGE_CHANGES_MAX):
            self._apply(changes[start : start + MESSAGE_CHANGES_MAX])
        self.newest = max(self.newest or edits[-1].order, edits[-1].order)

    def _apply(self, changes: list[bytes]) -> None:
        if not changes:
            return
        self.document.receive_sync_message(automerge.SyncState(), automerge.Message.decode(_message(changes)))
        self.straight = False
        for change in changes:
            self.count += 1
            if self.count % CLOCK_STEP == 0 and change[8] == 1:  # 8: magic and checksum; 1: a change, not deflated
                self.anchor = sha256(change[8:]).digest()

    def view(self) -> StateView:
        document = self.document
        maps: dict[str, dict[str, Scalar]] = {}
        for name, handle in self.containers.maps.items():
            maps[name] = values = {}
            for key in document.keys(handle):
                found = document.get(handle, key)
                assert found is not None
                values[key] = found[0][1]  # type: ignore[index]
        texts = {name: document.text(handle) for name, handle in self.containers.texts.items()}
        return StateView(maps, texts, tuple(sorted(head.hex() for head in document.get_heads())))


class _Replica(_Copy):
    """The copy on which the edits of one stretch run, one after another."""

    def __init__(self, containers: _Containers) -> None:
        super().__init__(containers)
        self.frontier: Frontier = {}
        self.held: dict[int, int] = {}  # stretch -> seq up to which it holds the changes of the edits
        self._actor = containers.actor
        self._lengths: dict[str, int] = {}

    def deliver(self, edits: Sequence[KnownEdit]) -> None:
        if edits:
            self._lengths.clear()
            super().deliver(edits)

    def run(self, edit: KnownEdit, actor: bytes) -> bytes:
        """Make the change of an edit, or nothing if an item of it is out of range or nothing is changed by it."""
        self.newest = max(self.newest or edit.order, edit.order)
        lengths = lengths_after(edit.record.edits, self._lengths, self._length)
        if lengths is None:
            return b""
        self._lengths = lengths
        if actor != self._actor:
            self.document.set_actor(actor)
            self._actor = actor
        before = self.document.get_heads()
        transaction = self.document.transaction()
        try:
            with transaction as change:
                self._write(change, edit.record)
        except BaseException:
            _wrecks.append((self.document, transaction))
            raise
        return self._last_change(before)

    def _length(self, text: str) -> int:
        return self.document.length(self.containers.texts[text])

    def _write(self, change: automerge.Transaction, record: EditRecord) -> None:
        maps, texts = self.containers.maps, self.containers.texts
        for number, edit in enumerate(record.edits):
            value = None if record.values is None else record.values[number]
            if isinstance(edit, Put):
                change.put(maps[edit.map], edit.key, _PUT_TYPES[type(value)], value)
            elif isinstance(edit, Delete):
                change.delete(maps[edit.map], edit.key)
            elif isinstance(edit, Splice):
                handle = texts[edit.text]
                for _ in range(edit.remove):
                    change.delete(handle, edit.index)
                characters = value if isinstance(value, str) else UNREADABLE * edit.length
                for index, character in enumerate(characters, edit.index):
                    change.insert(handle, index, automerge.ScalarType.Str, character)

    def _last_change(self, before: list[bytes]) -> bytes:
        """The change that was just made; empty if the transaction changed nothing."""
        heads = self.document.get_heads()
        if heads == before:
            return b""
        anchored = self.anchor is not None and not self.straight
        changes = self.document.get_changes([self.anchor] if anchored else before)  # type: ignore[list-item]
        change = next((found for found in reversed(changes) if found.hash == heads[0]), None)
        assert change is not None, "the change just made is a head"
        self.count += 1
        if self.count % CLOCK_STEP == 0:
            self.anchor, self.straight = heads[0], True
        elif len(changes) > ANCHORED_MAX:
            self.anchor = None
        return bytes(change.bytes)


class State:
    """The state of one document of ``kind``, made from the edits that ``update`` is given.

    ``cached`` holds the made changes of an earlier State, as its ``Progress`` reported them, or nothing. ``id_at``
    answers for any operation of the document. A document that was dropped and loaded again needs a new State.
    """

    def __init__(
        self, kind: str, graph: Graph, id_at: Callable[[Position], OperationId], cached: Mapping[OperationId, bytes]
    ) -> None:
        self._kind = kind
        self._containers = _containers(kind)
        self._graph = graph
        self._history = History(graph, id_at, cached)
        self._main: _Copy | None = None
        self._main_in_order = True
        self._undelivered: list[KnownEdit] = []  # shown, but not delivered to it yet
        self._replicas: dict[int, _Replica] = {}  # by stretch; the one used last stands last
        self._queue: list[KnownEdit] = []  # live edits that the main document lacks, in the order
        self._made: dict[OperationId, bytes] = {}

    def update(self, live: Frontier, records: Iterable[EditRecord] = ()) -> Progress:
        """``note`` and all the work that follows from it."""
        self.note(live, records)
        return self.advance()

    def note(self, live: Frontier, records: Iterable[EditRecord] = ()) -> None:
        """Take in facts; cheap. The first call gives all edits that are stored, later ones what has changed since.

        live: the document's live frontier; every edit it covers must have been given. records: new edits in any order,
        and known ones whose content became readable or ceased to be.
        """
        fresh, withdrawn, cut = self._history.note(live, records)
        if cut is not None:
            for stretch, replica in list(self._replicas.items()):
                if replica.newest is not None and replica.newest >= cut:
                    del self._replicas[stretch]
            for identity in self._history.forgotten:
                self._made.pop(identity, None)
        if withdrawn:
            self._assemble_again()
        else:
            self._enqueue(fresh)

    def advance(self, edits_max: int | None = None) -> Progress:
        """Work off at most ``edits_max`` edits, so that a caller can do something else in between."""
        self._twice(lambda: self._work(edits_max))
        forgotten = frozenset(self._history.forgotten)
        made, self._made = self._made, {}
        self._history.forgotten.clear()
        return Progress(forgotten, made, not self._queue)

    def view(self) -> StateView:
        """The state, read from the Automerge document. Does outstanding work first; ``advance`` reports it later."""
        return self._twice(lambda: self._settled().view())

    def save(self) -> bytes:
        """The state as a standard Automerge document: equal bytes for equal sets of edits."""
        return self._twice(lambda: bytes(self._ordered().document.save()))

    # --- work ---------------------------------------------------------------------------------------------------

    def _work(self, edits_max: int | None) -> None:
        batch = self._queue[:edits_max]
        ready = []
        for edit in batch:
            if not self._history.is_live(edit):
                continue
            if edit.made is None:
                edit.made = self._make(edit)
                self._made[edit.record.id] = edit.made
            ready.append(edit)
        del self._queue[:edits_max]
        for edit in batch:
            edit.queued = False
        for edit in ready:
            edit.shown = True
        self._undelivered += ready
        if len(self._undelivered) >= MESSAGE_CHANGES_MAX:
            self._deliver()

    def _deliver(self) -> _Copy:
        """Bring the main document up to date. Many at a time: few look at the state after every edit."""
        main = self._main = self._main or _Copy(self._containers)
        edits = sorted(self._undelivered, key=by_order)
        if edits and main.newest is not None and edits[0].order < main.newest:
            self._main_in_order = False  # Automerge saves changes in the order in which they came
        main.deliver(edits)
        self._undelivered = []
        return main

    def _make(self, edit: KnownEdit) -> bytes:
        """Facts and change of a live edit; the changes of its ancestors are made."""
        facts = self._history.facts(edit)
        if not has_places(self._kind, edit.record.edits):
            return seal(facts, b"")
        stretch, seq = edit.record.position
        replica = self._replicas.pop(stretch, None) or _Replica(self._containers)
        self._catch_up(replica, edit.record.position)
        change = replica.run(edit, facts[1:])
        replica.held[stretch] = seq
        self._replicas[stretch] = replica
        if len(self._replicas) > REPLICAS_MAX:
            del self._replicas[next(iter(self._replicas))]
        return seal(facts, change)

    def _catch_up(self, replica: _Replica, position: Position) -> None:
        """Deliver the changes of all edits among the ancestors of ``position`` that the replica lacks."""
        touched = {position.stretch}
        self._graph.extend(replica.frontier, position, lambda stretch, _: touched.add(stretch))
        missing: list[KnownEdit] = []
        for stretch in touched:
            line = self._history.lines.get(stretch)
            if line is not None:
                up_to = position.seq - 1 if stretch == position.stretch else replica.frontier[stretch]
                missing += line.between(replica.held.get(stretch, -1), up_to)
                replica.held[stretch] = up_to
        missing.sort(key=by_order)
        replica.deliver(missing)

    def _enqueue(self, edits: Iterable[KnownEdit]) -> None:
        for edit in edits:
            if not edit.shown and not edit.queued:
                edit.queued = True
                self._queue.append(edit)
        self._queue.sort(key=by_order)

    def _assemble_again(self) -> None:
        """Automerge cannot take a change out: begin a new main document."""
        live = self._history.live_edits()
        for edit in self._queue:
            edit.queued = False
        for line in self._history.lines.values():
            for edit in line.edits:
                edit.shown = False
        self._main, self._main_in_order, self._undelivered, self._queue = None, True, [], []
        self._enqueue(live)

    def _settled(self) -> _Copy:
        self._work(None)
        return self._deliver()

    def _ordered(self) -> _Copy:
        """The main document, put together in the order."""
        main = self._settled()
        if self._main_in_order:
            return main
        self._assemble_again()
        return self._settled()

    def _twice(self, action: Callable[[], _T]) -> _T:
        """Try, and after a failure of the engine once more from nothing: a cached change may be damaged."""
        try:
            with _border():
                return action()
        except StateFailed:
            self._start_over()
        with _border():
            return action()

    def _start_over(self) -> None:
        self._history.forget_from(None)
        self._replicas.clear()
        self._made.clear()
        self._assemble_again()
