"""Peers without disk or network, and hands that write real signed operations, honest ones and others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from roost.core import canonical
from roost.core import operation as operations
from roost.core.author import Author, Draft
from roost.core.document import Changes, Document, Received
from roost.core.graph import Position
from roost.core.heads import AccessHead, GenesisHead, Grant, RedactHead, Role, encode_access, encode_head
from roost.core.ids import LogId, OperationId, PeerKey
from roost.core.index import Known
from roost.core.keys import SigningKey
from roost.core.operation import Operation
from roost.core.outcome import GroupRow, NewOperation, StretchRow

NOW = 1_800_000_000_000_000  # microseconds; every clock of these tests, unless a test says otherwise
BIRTH = NOW - 3600 * 1_000_000


@lru_cache(maxsize=256)
def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(name.encode()).digest())


def public(name: str) -> PeerKey:
    return key_of(name).public


@lru_cache(maxsize=4096)
def log_of(name: str) -> LogId:
    return LogId(sha256(name.encode()).digest()[:8])


@lru_cache(maxsize=8)
def head_of(kind: str) -> bytes:
    """A valid head of a kind whose meaning does not matter to the test."""
    fields: dict[str, dict[str, bytes | int | str | list[bytes] | None]] = {
        "entry": {"at": 1, "branch": None, "parent": None, "type": "message"},
        "claim": {"agent": b"a" * 32, "epoch": 1, "previous": None, "reason": "", "standby": []},
    }
    return canonical.pack(fields.get(kind, {}))


def grant(name: str, role: Role) -> Grant:
    return Grant(public(name), role)


def verbs(
    *grants: Grant, revoke: Iterable[str] = (), admit: Iterable[Operation | OperationId] = ()
) -> bytes:  # fmt: skip
    """The head of an access operation; people by name."""
    listed = tuple(item if isinstance(item, bytes) else item.id for item in admit)
    return encode_access(grants, tuple(public(name) for name in revoke), listed)


def redact(target: Operation) -> bytes:
    return encode_head(RedactHead(target.id))


def genesis(creator: str, owner: str | None = None, *, mode: str = "persistent", nonce: bytes = bytes(16)) -> Operation:
    head = GenesisHead("session", mode, public(owner or creator), BIRTH, nonce)
    return operations.create(
        key_of(creator), document=None, log=log_of("genesis"), seq=0, backlink=None, deps=(), proof=None,
        kind="genesis", time=BIRTH, head_bytes=encode_head(head),
    )  # fmt: skip


class MemoryIndex:
    """The look-ups of ``roost.core.index`` over dicts."""

    def __init__(self) -> None:
        self.operations: dict[OperationId, NewOperation] = {}
        self.accepted: dict[OperationId, bool] = {}
        self._ids: dict[Position, OperationId] = {}
        self._merges: dict[int, list[tuple[int, tuple[Position, ...]]]] = {}
        self._redactions: dict[OperationId, list[OperationId]] = {}

    def insert(self, new: NewOperation) -> None:
        operation = new.operation
        assert operation.id not in self.operations, "stored twice"
        assert new.position not in self._ids, "two operations in one place"
        self.operations[operation.id] = new
        self.accepted[operation.id] = new.accepted
        self._ids[new.position] = operation.id
        if new.deps:
            self._merges.setdefault(new.position.stretch, []).append((new.position.seq, new.deps))
        if isinstance(operation.head, RedactHead):
            self._redactions.setdefault(OperationId(operation.head.target), []).append(operation.id)

    def find(self, operation: OperationId) -> Known | None:
        new = self.operations.get(operation)
        if new is None:
            return None
        return Known(new.position, new.operation.time, new.group, new.operation.kind, new.operation.author)

    def id_at(self, position: Position) -> OperationId:
        return self._ids[position]

    def merges(self, stretch: int) -> Iterable[tuple[int, tuple[Position, ...]]]:
        return sorted(self._merges.get(stretch, ()))

    def redactions_of(self, target: OperationId) -> Sequence[OperationId]:
        return self._redactions.get(target, [])


class Peer:
    """One document on one peer: the real core on rows kept in dicts, as a store must apply them.

    What lacks parents waits and is given in again; nothing is dropped.
    """

    def __init__(self, first: Operation, now: int = NOW) -> None:
        self.now = now
        self.index = MemoryIndex()
        self.stretches: dict[int, StretchRow] = {}
        self.groups: dict[int, GroupRow] = {}
        self.heads: tuple[OperationId, ...] = ()
        self.waiting: list[Operation] = []
        self.arrived: list[Operation] = []
        self._genesis = first
        self.document = Document(first, self.index)
        self.deliver([first])

    def deliver(self, batch: Sequence[Operation], *, local: bool = False) -> Received:
        """Receive a batch, commit what comes of it, and go on with what waited for it."""
        received = self.document.receive(batch, now=self.now, local=local)
        self.waiting.extend(operation for operation, _ in received.missing)
        self.commit(received.operations, self.document.changes())
        while self.waiting and received.operations:
            waited, self.waiting = self.waiting, []
            again = self.document.receive(waited, now=self.now, local=False)
            self.waiting = [operation for operation, _ in again.missing]
            received.refused.extend(again.refused)
            self.commit(again.operations, self.document.changes())
            if not again.operations:
                break
        return received

    def commit(self, new: Iterable[NewOperation], changes: Changes) -> None:
        for item in new:
            self.index.insert(item)
            self.arrived.append(item.operation)
        self.stretches.update((row.number, row) for row in changes.stretches)
        self.groups.update((row.number, row) for row in changes.groups)
        for verdict in changes.verdicts:
            for stored in self.index.operations.values():
                if stored.position.stretch == verdict.stretch and stored.group == verdict.group:
                    seq = stored.position.seq
                    within = seq <= verdict.limit or seq in verdict.admitted
                    self.index.accepted[stored.operation.id] = within and seq not in verdict.but_not
        self.heads = changes.heads
        self.document.stored()

    def reopen(self) -> None:
        """Forget the document and open it again from what is stored."""
        access = [new for new in self.index.operations.values() if isinstance(new.operation.head, AccessHead)]
        access.sort(key=lambda new: (new.operation.time, new.operation.id))
        redacts = any(isinstance(new.operation.head, RedactHead) for new in self.index.operations.values())
        self.document = Document.restore(
            self._genesis, self.index, self.stretches.values(), self.groups.values(), access, self.heads, redacts
        )

    def park(self, operation: Operation, until: int) -> None:
        self.document.park(self.position(operation), until)
        self.commit([], self.document.changes())

    def unpark(self, now: int) -> None:
        self.document.unpark(now)
        self.commit([], self.document.changes())

    def accepts(self, operation: Operation) -> bool:
        return self.document.accepted(self.document.known(operation.id))

    def position(self, operation: Operation) -> Position:
        return self.document.known(operation.id).position

    def is_live(self, operation: Operation) -> bool:
        position = self.position(operation)
        return self.document.liveness.frontier.get(position.stretch, -1) >= position.seq


class Scene:
    """Operations written one by one, by people with names, each on exactly the parents that the test names."""

    def __init__(self, creator: str = "owner", owner: str | None = None) -> None:
        self.genesis = genesis(creator, owner)
        self.operations = [self.genesis]
        self._by_id = {self.genesis.id: self.genesis}
        self._tips: dict[tuple[str, str], Operation] = {}
        self._count = 0

    def write(
        self,
        author: str,
        head: bytes | None = None,
        *,
        kind: str | None = None,
        log: str = "1",
        back: Operation | None = None,
        after: Iterable[Operation] = (),
        proof: Operation | None = None,
        time: int | None = None,
    ) -> Operation:
        """Write after the log's tip (or ``back``), the operations named, and the proof.

        Without a proof: that of the predecessor, or the genesis. Without a head: an entry; with one: access.
        """
        kind = kind or ("entry" if head is None else "access")
        back = back or self._tips.get((author, log))
        if proof is None:
            proof = self.genesis if back is None else self._by_id[back.proof]
        deps = {operation.id for operation in after}
        if (back is None or back.proof != proof.id) and not (back and proof is self.genesis):
            deps.add(proof.id)
        deps -= {back.id} if back else set()
        parents = [self._by_id[identity] for identity in deps] + ([back] if back else [])
        self._count += 1
        made = operations.create(
            key_of(author),
            document=self.genesis.document,
            log=log_of(f"{author} {log}"),
            seq=back.seq + 1 if back else 0,
            backlink=back.id if back else None,
            deps=tuple(deps),
            proof=proof.id,
            kind=kind,
            time=time or 1 + max(parent.time for parent in parents),
            head_bytes=head_of(kind) if head is None else head,
            content=self._count.to_bytes(4, "big") if kind in ("entry", "edit") else b"",
        )
        self._tips[(author, log)] = self._by_id[made.id] = made
        self.operations.append(made)
        return made

    def peer(self, only: Iterable[Operation] | None = None) -> Peer:
        """A peer that received everything, or only this."""
        peer = Peer(self.genesis)
        received = peer.deliver([op for op in (self.operations if only is None else only) if op is not self.genesis])
        assert received.refused == []
        assert peer.waiting == []
        return peer


def sign(name: str, document: Operation, log: LogId, kind: str, draft: Draft, head: bytes, content: bytes) -> Operation:
    """Sign what an ``Author`` drafted."""
    return operations.create(
        key_of(name), document=document.document, log=log, seq=draft.seq, backlink=draft.backlink, deps=draft.deps,
        proof=draft.proof, kind=kind, time=draft.time, head_bytes=head, content=content,
    )  # fmt: skip


class Honest:
    """A member who follows the rules: builds on its accepted heads, joins when there are many, takes new logs."""

    def __init__(self, name: str, first: Operation) -> None:
        self.name = name
        self.peer = Peer(first)
        self._logs = 0
        self._author: Author | None = None
        self._made = 0

    def _writer(self) -> Author:
        if self._author is None or self._author.wants_new_log():
            self._logs += 1
            self._author = Author(self.peer.document, public(self.name), log_of(f"{self.name} honest {self._logs}"))
        return self._author

    def write(self, kind: str, head: bytes, clock: int, admitting: Sequence[Operation] = ()) -> list[Operation]:
        """Write one operation, after the joins that it needs. ``admitting`` are void ones that an admit builds on."""
        author = self._writer()
        written: list[Operation] = []
        for drafted, draft in author.drafts(kind, clock):
            joining = drafted == "join"
            if admitting and not joining:
                draft = self._on_void(draft, admitting)
            self._made += 1
            content = self._made.to_bytes(4, "big") if drafted == "entry" else b""
            made = sign(
                self.name,
                self.peer.arrived[0],
                author.log,
                drafted,
                draft,
                head_of("join") if joining else head,
                content,
            )
            received = self.peer.deliver([made], local=True)
            assert [new.operation for new in received.operations] == [made], "an honest operation is admitted"
            author.wrote(made.id)
            written.append(made)
        return written

    def _on_void(self, draft: Draft, admitting: Sequence[Operation]) -> Draft:
        wanted = {operation.id for operation in admitting} - {draft.backlink}
        deps = tuple(sorted({*draft.deps, *wanted}))
        time = max(draft.time, *(1 + operation.time for operation in admitting))
        return Draft(draft.seq, draft.backlink, deps, draft.proof, time)

    def pull(self, other: Peer) -> None:
        known = self.peer.index.operations
        self.peer.deliver([operation for operation in other.arrived if operation.id not in known])

    def reopen(self) -> None:
        self.peer.reopen()
        if self._author is not None:
            self._author = Author(self.peer.document, public(self.name), self._author.log)
