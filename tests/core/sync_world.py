"""Peers joined in memory: the real document, index and sync machine; frames are encoded and decoded on every link."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from random import Random
from typing import NamedTuple

from roost.core import sync, wire
from roost.core.document import Document
from roost.core.graph import Graph, Position
from roost.core.have import Holdings
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.index import Known
from roost.core.operation import Operation
from roost.core.outcome import NewOperation
from roost.core.parked import Space
from roost.core.receiving import Admit, Admitted
from roost.core.sending import Read
from tests.core.model import NOW, MemoryIndex, public

NOTHING = Holdings(Graph(lambda _: ()), lambda _: OperationId(b""), {})
ROUNDS_MAX = 60  # in which any schedule without further faults must have settled


class Row(NamedTuple):
    """A stored operation as it is read for sending."""

    id: OperationId
    position: Position
    verified: bool
    header_bytes: bytes
    signature: bytes
    head_bytes: bytes
    content: bytes | None
    content_hash: bytes | None
    absence: bytes


class Member:
    """A peer: one document, committed at once; it may be there from the start, or be asked for with a ticket."""

    def __init__(self, name: str, document: DocumentId, *, ticket: str | None = None) -> None:
        self.name = name
        self.id = document
        self.now = NOW
        self.index = MemoryIndex()
        self.document: Document | None = None
        self.ticket = ticket
        self.machines: dict[str, sync.SyncMachine] = {}
        self.spaces: dict[str, Space] = {}
        self.erased: set[OperationId] = set()
        self.refuses: set[OperationId] = set()  # as a peer of another version might
        self.contents: dict[OperationId, bytes] = {}
        self.told_to_wait: list[OperationId] = []
        self.rejected: list[str] = []
        self.closed: list[str] = []
        self.announced: list[NewOperation] = []
        self._committed = NOTHING
        self.pieces: dict[str, tuple[int, Iterator[list[Row]]]] = {}

    # --- the copy ---------------------------------------------------------------------------------------------------

    @property
    def holdings(self) -> Holdings:
        return self._committed

    def find(self, operation: OperationId) -> Known | None:
        return None if self.document is None else self.document.find(operation)

    def ids_between(self, stretch: int, low: int, high: int) -> Iterable[OperationId]:
        return [self.index.id_at(Position(stretch, seq)) for seq in range(low, high + 1)]

    def may_read(self, peer: PeerKey) -> bool:
        if self.ticket is not None and public(self.ticket) == peer and not self._is_member():
            return True
        return self.document is not None and self.document.access.may_read(peer)

    def _is_member(self) -> bool:
        """Whether the history is here up to the own grant; the grant of whoever gave that lies before it."""
        return self.document is not None and self.document.access.may_read(public(self.name))

    def may_push(self, peer: PeerKey) -> bool:
        return self.may_read(peer)

    def absent(self, limit: int) -> Sequence[OperationId]:
        return [one for one in self.index.operations if self.content(one) is None and one not in self.erased][:limit]

    def content(self, operation: OperationId) -> bytes | None:
        """The content as it is here: written or received, unless it was lost or erased."""
        if operation in self.contents:
            return self.contents[operation]
        new = self.index.operations.get(operation)
        return None if new is None else new.operation.content

    # --- taking in --------------------------------------------------------------------------------------------------

    def admit(self, operations: Sequence[Operation], verified: frozenset[OperationId] | None) -> Admitted:
        """Admit and commit; tell all machines. verified None: written here."""
        rest = [one for one in operations if one.id not in self.refuses]
        refused = [(one.id, "bad_head") for one in operations if one.id in self.refuses]
        if self.document is None:
            if not rest or rest[0].id != OperationId(self.id):
                return Admitted(0, missing=[(one, one.parents) for one in rest])
            self.document = Document(rest[0], self.index)
            self._committed = Holdings(self.document.graph, self.document.id_at, self.document.liveness.parked)
        received = self.document.receive(rest, now=self.now, local=verified is None, verified=verified)
        self.document.changes()
        for new in received.operations:
            self.index.insert(new)
        self.document.stored()
        self._committed.stored([new.position for new in received.operations])
        self.announced = received.operations
        return Admitted(
            0,
            received.missing,
            [(operation.id, wait) for operation, wait in received.withheld],
            [*refused, *((operation.id, refusal.code) for operation, refusal in received.refused)],
        )

    def rows(self, ranges: Iterable[tuple[int, int, int]], bytes_max: int) -> Iterator[list[Row]]:
        piece: list[Row] = []
        size = 0
        for _, _, row in merge(*(self._along(*range_) for range_ in ranges)):
            weight = len(row.header_bytes) + len(row.head_bytes) + len(row.content or b"") + 96
            if piece and size + weight > bytes_max:
                yield piece
                piece, size = [], 0
            piece.append(row)
            size += weight
        if piece:
            yield piece

    def _along(self, stretch: int, low: int, high: int) -> Iterator[tuple[int, OperationId, Row]]:
        for identity in self.ids_between(stretch, low, high):
            new = self.index.operations[identity]
            one, content = new.operation, self.content(identity)
            row = Row(
                one.id, new.position, new.verified, one.header_bytes, one.signature, one.head_bytes, content,
                None if content is not None else one.content_hash, one.absence,
            )  # fmt: skip
            yield one.time, one.id, row

    def next_piece(self, peer: str, effect: Read) -> list[Row]:
        stream, pieces = self.pieces.get(peer, (-1, iter(())))
        if stream != effect.stream:
            pieces = self.rows(effect.ranges, effect.bytes_max)
            self.pieces[peer] = (effect.stream, pieces)
        return next(pieces, [])

    def holds(self) -> set[OperationId]:
        return set(self.index.operations)


class Faults(NamedTuple):
    """How often a frame is lost, doubled, or overtakes the one before, of 100."""

    lost: int = 0
    doubled: int = 0
    overtakes: int = 0


class World:
    """Members and links; ``settle`` carries frames until none is left, ``tick`` lets half a minute pass."""

    def __init__(self, document: DocumentId, *names: str, seed: int = 0) -> None:
        self.chance = Random(seed)
        self.faults = Faults()
        self.members = {name: Member(name, document) for name in names}
        self.sent: list[tuple[str, str, wire.Message]] = []
        self._wires: dict[tuple[str, str], deque[bytes]] = {}
        self._work: deque[tuple[Member, str, sync.Effect]] = deque()

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def join(self, name: str, *, ticket: str) -> Member:
        """A member that does not hold the document yet."""
        document = next(iter(self.members.values())).id
        self.members[name] = Member(name, document, ticket=ticket)
        return self.members[name]

    # --- links ------------------------------------------------------------------------------------------------------

    def link(self, one: str, other: str) -> None:
        """Open a link, or open it anew; ``one`` dials."""
        self.cut(one, other)
        for name, peer in ((one, other), (other, one)):
            member = self[name]
            member.pieces.pop(peer, None)
            space = member.spaces[peer] = Space()
            machine = sync.SyncMachine(member.id, public(peer), member, leads=name == one, space=space)
            member.machines[peer] = machine
            self._wires[(name, peer)] = deque()
        self.event(self[one], other, sync.Started())
        self.event(self[other], one, sync.Started())

    def cut(self, one: str, other: str) -> None:
        for name, peer in ((one, other), (other, one)):
            machine = self[name].machines.pop(peer, None)
            self._wires.pop((name, peer), None)
            if machine is not None:
                machine.close()

    def event(self, member: Member, peer: str, event: sync.Event) -> None:
        machine = member.machines.get(peer)
        if machine is not None:
            for effect in machine.handle(event):
                self._work.append((member, peer, effect))
            self._carry_out()

    def _carry_out(self) -> None:
        while self._work:
            member, peer, effect = self._work.popleft()
            self._do(member, peer, effect)

    def _do(self, member: Member, peer: str, effect: sync.Effect) -> None:
        match effect:
            case sync.Send(message):
                self._put(member.name, peer, message)
            case Admit(ticket, operations, verified):
                outcome = member.admit(operations, verified)
                self._announce(member)
                self.event(member, peer, Admitted(ticket, outcome.missing, outcome.withheld, outcome.refused))
            case Read():
                rows = member.next_piece(peer, effect)
                self.event(member, peer, sync.ChunkRead(effect.stream, rows))
            case sync.ReadContents(ids):
                found = [(one, None if one in member.erased else member.content(one)) for one in ids]
                self.event(member, peer, sync.ContentsRead(found))
            case sync.TakeContents(contents):
                self.give_contents(member, contents)
            case sync.ToldToWait(waits):
                member.told_to_wait += [wait.id for wait in waits]
            case sync.Rejected(code):
                member.rejected.append(code)
            case sync.CloseLink(code):
                member.closed.append(code)

    def _announce(self, member: Member) -> None:
        new, member.announced = member.announced, []
        if new:
            for peer in list(member.machines):
                self.event(member, peer, sync.Committed(new))
                if any(one.operation.kind == "access" for one in new):
                    self.event(member, peer, sync.AccessChanged())

    def give_contents(self, member: Member, contents: Iterable[tuple[OperationId, bytes]]) -> None:
        fresh = [(one, content) for one, content in contents if member.content(one) is None]
        member.contents.update(fresh)
        for peer in list(member.machines):
            self.event(member, peer, sync.ContentsStored([one for one, _ in fresh]))

    # --- frames -----------------------------------------------------------------------------------------------------

    def _put(self, sender: str, receiver: str, message: wire.Message) -> None:
        self.sent.append((sender, receiver, message))
        frames = self._wires.get((sender, receiver))
        if frames is None or self._happens(self.faults.lost):
            return
        frame = wire.encode(message)
        frames.append(frame)
        if self._happens(self.faults.doubled):
            frames.append(frame)
        if len(frames) > 1 and self._happens(self.faults.overtakes):
            frames[-1], frames[-2] = frames[-2], frames[-1]

    def _happens(self, of_hundred: int) -> bool:
        return self.chance.randrange(100) < of_hundred if of_hundred else False

    def deliver(self, count: int | None = None) -> bool:
        """Carry frames, from a random link each; whether there were any."""
        carried = 0
        while count is None or carried < count:
            waiting = [ends for ends, frames in self._wires.items() if frames]
            if not waiting:
                break
            sender, receiver = self.chance.choice(waiting)
            message = wire.decode_frame(self._wires[(sender, receiver)].popleft())
            member = self[receiver]
            self.event(member, sender, sync.Received(message, member.now))
            carried += 1
        return carried > 0

    def write(self, name: str, *operations: Operation) -> None:
        """Operations are committed on a peer, without a link."""
        member = self[name]
        outcome = member.admit(operations, None)
        assert [*outcome.missing, *outcome.withheld, *outcome.refused] == []
        self._announce(member)

    def settle(self) -> None:
        while self.deliver():
            pass

    def tick(self, seconds: int = 30) -> None:
        for member in self.members.values():
            member.now += seconds * 1_000_000
        for member in self.members.values():
            for peer in list(member.machines):
                self.event(member, peer, sync.Tick(member.now))
        self.settle()

    def until_equal(self) -> None:
        """Without faults from now on, everybody linked comes to hold the same."""
        self.faults = Faults()
        for _ in range(ROUNDS_MAX):
            self.settle()
            if self.equal():
                return
            self.tick()
        raise AssertionError("the peers do not come to hold the same")

    def equal(self) -> bool:
        held = [member.holds() for member in self.members.values()]
        return all(one == held[0] for one in held)

    # --- what was said ----------------------------------------------------------------------------------------------

    def forget(self) -> None:
        self.sent.clear()

    def said(self) -> list[tuple[str, str, str]]:
        """(sender, receiver, kind of message) in the order they were sent."""
        return [(sender, receiver, type(message).__name__) for sender, receiver, message in self.sent]

    def carried(self) -> Counter[str]:
        """How many operations each peer has sent."""
        found: Counter[str] = Counter()
        for sender, _, message in self.sent:
            if isinstance(message, wire.Operations):
                found[sender] += len(message)
        return found
