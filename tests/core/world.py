"""Random histories: honest members who build on what they accept, and Byzantine ones who do not.

The Byzantine ones backdate onto old heads, fork their logs, cite proofs that are none, grant and admit from the past,
and write chains that they show to one honest peer only before they are gone. One seed gives one history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from roost.core import operation as operations
from roost.core.errors import NotAnAdmin, NotAWriter
from roost.core.heads import AccessHead, Role
from roost.core.ids import OperationId
from roost.core.operation import Operation
from tests.core.model import BIRTH, Honest, Peer, genesis, grant, head_of, key_of, log_of, redact, verbs

HONEST = ("ann", "bob", "cid", "dee")
BYZANTINE = ("mal", "nyx", "oz")
RECOVERY = "kept off the device"
ROLES: tuple[Role, ...] = ("read", "write", "write", "admin", "admin", "admin")
DEPS_MAX = 32


@dataclass(frozen=True)
class History:
    """All operations, parents first; every one of them was given to an honest member."""

    seed: int
    operations: tuple[Operation, ...]

    @property
    def genesis(self) -> Operation:
        return self.operations[0]


class World:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.seed = seed
        creator = self.chance.choice([*HONEST, *BYZANTINE])
        owner = self.chance.choice([creator, creator, RECOVERY, "ann"])
        self.people = sorted({*HONEST, *BYZANTINE, owner})
        self.clock = BIRTH + 1_000_000
        first = genesis(creator, owner)
        self.operations: dict[OperationId, Operation] = {first.id: first}
        self.honest = {name: Honest(name, first) for name in sorted({*HONEST, owner} - set(BYZANTINE))}
        self._logs = 0
        self._contents = 0
        self._welcome(creator)
        if owner != creator:
            self._welcome(owner)

    def history(self, acts: int) -> History:
        for _ in range(acts):
            self.clock += self.chance.randrange(1, 1_000)
            draw = self.chance.random()
            if draw < 0.3:
                self._meet()
            elif draw < 0.72:
                self._honest_act(self.chance.choice(sorted(self.honest)))
            else:
                self._byzantine_act(self.chance.choice(BYZANTINE))
        return History(self.seed, tuple(self.operations.values()))

    # --- honest members ---------------------------------------------------------------------------------------------

    def _welcome(self, name: str) -> None:
        """The first grants, by who may give them; all have seen them."""
        guests = self.chance.sample(self.people, self.chance.randrange(3, len(self.people)))
        head = verbs(*(grant(guest, self.chance.choice(ROLES)) for guest in guests if guest != name))
        if name in self.honest:
            self._take(name, self.honest[name].write("access", head, self.clock))
        else:
            self._give([self._craft(name, "access", head, None, list(self.operations.values())[-1:], None)])
        for member in self.honest.values():
            member.peer.deliver(
                [made for made in self.operations.values() if made.id not in member.peer.index.operations]
            )

    def _take(self, name: str, written: Iterable[Operation]) -> None:
        self.operations.update((made.id, made) for made in written)

    def _meet(self) -> None:
        one, other = self.chance.sample(sorted(self.honest), 2)
        self.honest[one].pull(self.honest[other].peer)
        if self.chance.random() < 0.2:
            self.honest[one].reopen()

    def _honest_act(self, name: str) -> None:
        member = self.honest[name]
        kind, head = "entry", head_of("entry")
        admitting: list[Operation] = []
        draw = self.chance.random()
        if draw < 0.5:
            kind = "access"
            head, admitting = self._honest_verbs(name, draw)
        elif draw < 0.6:
            kind, head = self.chance.choice([("claim", head_of("claim")), ("redact", redact(self._some(member)))])
        try:
            self._take(name, member.write(kind, head, self.clock, admitting))
        except NotAnAdmin:
            self._honest_entry(name)
        except NotAWriter:
            pass

    def _honest_entry(self, name: str) -> None:
        with suppress(NotAWriter):
            self._take(name, self.honest[name].write("entry", head_of("entry"), self.clock))

    def _honest_verbs(self, name: str, draw: float) -> tuple[bytes, list[Operation]]:
        others = [person for person in self.people if person != name]
        whom = self.chance.choice(others)
        void = _removed(self.honest[name].peer)
        if void and self.chance.random() < 0.4:
            chosen = self.chance.sample(void, min(len(void), self.chance.randrange(1, 6)))
            return verbs(admit=chosen), chosen
        if draw < 0.2:
            return verbs(grant(whom, self.chance.choice(ROLES))), []
        if draw < 0.36:
            return verbs(revoke=[whom]), []
        if draw < 0.45:
            return verbs(grant(whom, self.chance.choice(ROLES)), revoke=[whom]), []  # a lowering, or a raising
        return verbs(revoke=self.chance.sample(others, 2)), []

    def _some(self, member: Honest) -> Operation:
        return self.chance.choice(member.peer.arrived)

    # --- Byzantine members ------------------------------------------------------------------------------------------

    def _byzantine_act(self, name: str) -> None:
        """A chain on whatever the author knows, shown to one honest peer."""
        known = [made for made in self.operations.values() if made.author == key_of(name).public]
        known += self.chance.choice(list(self.honest.values())).peer.arrived
        made: list[Operation] = []
        for _ in range(self.chance.choice([1, 1, 2, 2, 3, 5])):
            before = made[-1] if made and self.chance.random() < 0.7 else self._place(name, known)
            after = self.chance.sample(known, min(len(known), self.chance.choice([0, 1, 1, 2])))
            kind, head = self._byzantine_content(name, known)
            made.append(self._craft(name, kind, head, before, after, self._proof(name, before, known)))
            known.append(made[-1])
        self._give(made)

    def _place(self, name: str, known: Sequence[Operation]) -> Operation | None:
        """A predecessor of the author's own, often one that has a successor already; or none: a new log."""
        own = [made for made in known if made.author == key_of(name).public and made.kind != "genesis"]
        if not own or self.chance.random() < 0.3:
            return None
        return self.chance.choice([own[-1], self.chance.choice(own)])

    def _proof(self, name: str, before: Operation | None, known: Sequence[Operation]) -> Operation | None:
        """None: the predecessor's, or the genesis; else mostly a grant that names the author, sometimes anything."""
        draw = self.chance.random()
        if before is not None and draw < 0.4:
            return None
        if draw < 0.93:
            me = key_of(name).public
            grants = [made for made in known if isinstance(made.head, AccessHead) and _names(made.head, me)]
            return self.chance.choice(grants) if grants else None
        return self.chance.choice(known)

    def _byzantine_content(self, name: str, known: Sequence[Operation]) -> tuple[str, bytes]:
        draw = self.chance.random()
        if draw < 0.4:
            return "entry", head_of("entry")
        if draw < 0.48:
            return self.chance.choice(["join", "claim", "whisper"]), head_of("claim")
        if draw < 0.53:
            return "redact", redact(self.chance.choice(known))
        grants = self.chance.sample(self.people, self.chance.choice([0, 0, 1, 1, 2]))
        removed = self.chance.sample(self.people, self.chance.choice([0, 0, 1, 1, 2]))
        admitted = self.chance.sample(known, min(len(known), self.chance.choice([0, 0, 0, 3, 6])))
        if not (grants or removed or admitted):
            removed = [self.chance.choice(self.people)]
        return "access", verbs(
            *(grant(person, self.chance.choice(ROLES)) for person in grants), revoke=removed, admit=admitted
        )

    def _craft(
        self, name: str, kind: str, head: bytes, before: Operation | None, after: Sequence[Operation],
        proof: Operation | None,
    ) -> Operation:  # fmt: skip
        first = next(iter(self.operations.values()))
        backlink = None if before is None else before.id
        if proof is None:
            cited = first.id if before is None else before.proof
        else:
            cited = proof.id if proof.id != backlink else first.id
        deps = {operation.id for operation in after} - {backlink}
        inherited = {first.id} if before is None else {first.id, before.proof}
        if cited not in inherited:
            deps.add(cited)
        if before is None and not deps:
            deps.add(first.id)
        parents = [*after, *([before] if before else []), *([proof] if proof else []), first]
        latest = max(parent.time for parent in parents)
        self._contents += 1
        if before is None:
            self._logs += 1
        return operations.create(
            key_of(name), document=first.document,
            log=log_of(f"{name} byzantine {self.seed} {self._logs}") if before is None else before.log,
            seq=0 if before is None else before.seq + 1, backlink=backlink, deps=tuple(deps), proof=cited, kind=kind,
            time=latest + self.chance.randrange(1, 500), head_bytes=head,
            content=self._contents.to_bytes(4, "big") if kind == "entry" else b"",
        )  # fmt: skip

    def _give(self, made: Sequence[Operation]) -> None:
        """Hand a chain, and what it rests on, to one honest peer."""
        self.operations.update((operation.id, operation) for operation in made)
        peer = self.chance.choice(list(self.honest.values())).peer
        wanted = [operation.id for operation in made]
        missing: set[OperationId] = set()
        while wanted:
            identity = wanted.pop()
            if identity not in missing and identity not in peer.index.operations:
                missing.add(identity)
                wanted.extend(self.operations[identity].parents)
        peer.deliver([operation for identity, operation in self.operations.items() if identity in missing])


def _removed(peer: Peer) -> list[Operation]:
    """Void operations that a removal took away, not a lack of authority: those that an admit can bring back."""
    access = peer.document.access
    known = ((made, access.by_number[peer.document.known(made.id).group]) for made in peer.arrived)
    return [made for made, group in known if group.ok and group.revokes and not peer.accepts(made)]


def _names(head: AccessHead, key: bytes) -> bool:
    return any(granted.key == key for granted in head.grants)


@lru_cache(maxsize=512)
def history(seed: int) -> History:
    """A history of 15 to 60 acts."""
    return World(seed).history(15 + seed % 46)
