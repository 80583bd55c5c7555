"""The access rule by brute force: what PROTOCOL section 2 says, sentence by sentence, over plain sets of operations.

An oracle for tests, written to be compared with the text and not to be fast. It shares no code with ``roost.core``
beyond the operations themselves; sets of operations are integers, one bit each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roost.core.heads import AccessHead, GenesisHead
from roost.core.ids import OperationId, PeerKey
from roost.core.operation import Operation

ROLE = {"read": 0, "write": 1, "admin": 2}


@dataclass(frozen=True)
class Verdicts:
    """What follows from one set of operations."""

    accepted: frozenset[OperationId]
    live: frozenset[OperationId]
    heads: tuple[OperationId, ...]
    order: tuple[OperationId, ...]
    roles: dict[PeerKey, str]


class Oracle:
    """``operations`` come parents first; ``judge`` takes any of their causally closed subsets."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.number = {operation.id: number for number, operation in enumerate(operations)}
        self.past: list[int] = []
        for operation in operations:
            seen = 0
            for parent in operation.parents:
                seen |= self.past[self.number[parent]] | 1 << self.number[parent]
            self.past.append(seen)
        genesis = operations[0]
        assert isinstance(genesis.head, GenesisHead)
        self.creator, self.owner = genesis.author, genesis.head.owner
        self.proof = [self.number[operation.proof] for operation in operations]
        self.access = {n: op.head for n, op in enumerate(operations) if isinstance(op.head, AccessHead)}
        self.authority: list[tuple[int, str] | None] = []
        for number, operation in enumerate(operations):  # a proof comes before what it proves
            self.authority.append(self._authority(operation.author, self.proof[number]))
        self.admits_count = True  # False: as if nothing were admitted again, to count what is
        self._accepted: dict[int, bool] = {}
        self._set = 0

    def mask(self, identities: Sequence[OperationId]) -> int:
        return sum(1 << self.number[identity] for identity in identities)

    def members(self, mask: int) -> Iterator[int]:
        return (number for number in range(len(self.operations)) if mask >> number & 1)

    # --- the rule ---------------------------------------------------------------------------------------------------

    def _authority(self, author: PeerKey, proof: int) -> tuple[int, str] | None:
        """(rank, role) that a proof gives an author; the rank is that of the proof's depth and role."""
        if proof == 0:
            if author == self.owner:
                return 0, "admin"
            return (2, "admin") if author == self.creator else None
        for grant in self.access[proof].grants if proof in self.access else ():
            if grant.key == author:
                issued_under = self.authority[proof]
                if issued_under is not None:
                    return 2 * (issued_under[0] // 2 + 1) + (grant.role != "admin"), grant.role
        return None

    def _rank(self, number: int) -> int | None:
        authority = self.authority[number]
        return None if authority is None else authority[0]

    def _valid(self, number: int) -> bool:
        known = self._accepted.get(number)
        if known is None:
            known = self._accepted[number] = self._judge(number)
        return known

    def _judge(self, number: int) -> bool:
        if number == 0:
            return True
        operation, authority = self.operations[number], self.authority[number]
        if authority is None or ROLE[authority[1]] < (2 if operation.kind == "access" else 1):
            return False
        if not self._valid(self.proof[number]):
            return False
        return not any(
            not self._stays(number, revoke) and self._valid(revoke)
            for revoke in self._revokes(operation.author, authority[0])
            if not self._regrants(self.proof[number], revoke)
        )

    def _revokes(self, author: PeerKey, rank: int) -> Iterator[int]:
        """Removals of an author issued under a lower rank."""
        for revoke, head in self.access.items():
            if author in head.revokes and self._set >> revoke & 1:
                issued_under = self._rank(revoke)
                if issued_under is not None and issued_under < rank:
                    yield revoke

    def _regrants(self, proof: int, revoke: int) -> bool:
        if proof == 0 or not (revoke == proof or self.past[proof] >> revoke & 1):
            return False
        mine, other = self._rank(proof), self._rank(revoke)
        return mine is not None and other is not None and mine <= other

    def _stays(self, number: int, revoke: int) -> bool:
        return bool(self.past[revoke] >> number & 1) or any(
            self.admits_count
            and self.operations[number].id in head.admits
            and self._set >> admit & 1
            and self.past[admit] >> number & 1
            and self.past[admit] >> revoke & 1
            and self._no_junior(admit, revoke)
            and self._valid(admit)
            for admit, head in self.access.items()
        )

    def _no_junior(self, one: int, other: int) -> bool:
        mine, theirs = self._rank(one), self._rank(other)
        return mine is not None and theirs is not None and mine <= theirs

    # --- what follows from it ---------------------------------------------------------------------------------------

    def judge(self, mask: int) -> Verdicts:
        """Everything that follows from a causally closed set."""
        self._accepted, self._set = {}, mask
        accepted = [number for number in self.members(mask) if self._valid(number)]
        live = 0
        for number in accepted:
            live |= self.past[number] | 1 << number
        inner = 0
        for number in self.members(live):
            inner |= self.mask(self.operations[number].parents)
        ids = [operation.id for operation in self.operations]
        order = sorted((self.operations[number].time, ids[number]) for number in accepted)
        return Verdicts(
            frozenset(ids[number] for number in accepted),
            frozenset(ids[number] for number in self.members(live)),
            tuple(sorted(ids[number] for number in self.members(live & ~inner))),
            tuple(identity for _, identity in order),
            self._roles(),
        )

    def _roles(self) -> dict[PeerKey, str]:
        """The highest role of each key under which an operation on all heads would be accepted."""
        held: dict[PeerKey, str] = {}
        candidates = [(self.owner, 0), (self.creator, 0)]
        candidates += [
            (grant.key, proof) for proof, head in self.access.items() if self._set >> proof & 1 for grant in head.grants
        ]
        for raw, proof in candidates:
            key = PeerKey(raw)
            authority = self._authority(key, proof)
            if authority is None or not self._valid(proof):
                continue
            removed = any(
                self._valid(revoke) for revoke in self._revokes(key, authority[0]) if not self._regrants(proof, revoke)
            )
            if not removed and ROLE[authority[1]] >= ROLE.get(held.get(key, ""), -1):
                held[key] = authority[1]
        return held
