"""Who may do what: removal keeps what the remover had seen and voids the rest; only seniors remove juniors.

All operations of one author under one proof form a *group*: they share rank, role and the removals that apply to them,
so judging one more is O(1). A verdict refers to lower ranks only; judging in ascending rank therefore ends, and the
answer depends on the set of operations alone. Source: docs/protocol.md "Access"; the oracle in tests/core/oracle.py.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from roost.core.graph import Frontier, Graph, Position
from roost.core.heads import AccessHead
from roost.core.ids import DocumentId, OperationId, PeerKey

ROLES = {"read": 0, "write": 1, "admin": 2}
EVERYTHING = 1 << 53  # a limit above every seq
NEVER = 1 << 53  # the rank of those who have no authority at all

Parked: TypeAlias = dict[int, tuple[int, int]]  # stretch -> (first seq that this peer holds back, until when)


class Group:
    """One author under one proof. ``revokes`` are the accepted removals that it has to be covered against."""

    __slots__ = (
        "author",
        "depth",
        "number",
        "ok",
        "operations",
        "proof",
        "proof_id",
        "rank",
        "revokes",
        "role",
        "writes",
    )

    def __init__(
        self,
        number: int,
        author: PeerKey,
        proof_id: OperationId,
        proof: AccessOperation | None,
        depth: int,
        role: str | None,
    ) -> None:
        self.number = number
        self.author = author
        self.proof_id = proof_id
        self.proof = proof  # None: the genesis, or something that gives no authority
        self.depth = depth
        self.role = role
        self.rank = NEVER if role is None else 2 * depth + (role != "admin")
        self.writes = role in ("write", "admin")
        self.ok = False
        self.revokes: tuple[AccessOperation, ...] = ()
        self.operations: list[AccessOperation] = []

    def may(self, kind: str) -> bool:
        """Whether the role suffices for an operation of this kind; removals aside."""
        return self.role == "admin" if kind == "access" else self.writes


class AccessOperation:
    """An ``access`` operation in the set, accepted or not."""

    __slots__ = ("accepted", "admits", "frontier", "grants", "group", "id", "position", "revokes", "unknown")

    def __init__(
        self,
        identity: OperationId,
        position: Position,
        group: Group,
        head: AccessHead,
    ) -> None:
        self.id = identity
        self.position = position
        self.group = group
        self.grants = {PeerKey(grant.key): grant.role for grant in head.grants}
        self.revokes = frozenset(PeerKey(key) for key in head.revokes)
        self.unknown = head.unknown
        self.admits: frozenset[Position] = frozenset()  # those listed that lie among its ancestors
        self.accepted = False
        self.frontier: Frontier | None = None  # its ancestors; computed when first asked for


class Member(NamedTuple):
    """One grant as people see it."""

    key: PeerKey
    role: str
    by: PeerKey
    rank: int
    revoked: bool


class Access:
    """The access rule of one document, kept incrementally."""

    def __init__(
        self, document: DocumentId, creator: PeerKey, owner: PeerKey, graph: Graph, parked: Parked | None = None
    ) -> None:
        """``parked`` is what the document holds back: such access operations have no effect here either."""
        self._document = document
        self._graph = graph
        self._parked: Parked = {} if parked is None else parked
        self.creator = creator
        self.owner = owner
        self._next = 0
        self.groups: dict[tuple[PeerKey, OperationId], Group] = {}
        self.by_number: dict[int, Group] = {}
        self.operations: dict[OperationId, AccessOperation] = {}
        self._by_position: dict[Position, AccessOperation] = {}
        self._granting: dict[PeerKey, list[AccessOperation]] = {}
        self._revoking: dict[PeerKey, list[AccessOperation]] = {}
        self._admitting: dict[int, list[AccessOperation]] = {}  # by the stretch of a listed operation
        self._insufficient: dict[int, list[int]] = {}  # stretch -> seqs of access operations without an admin's proof
        self._working: set[AccessOperation] = set()  # the accepted admits, as of the last ``judge``
        self._walked: dict[int, AccessOperation] = {}  # stretch -> its access operation whose ancestors are known

    # --- growing ----------------------------------------------------------------------------------------------------

    def group(self, author: PeerKey, proof: OperationId, number: int | None = None) -> Group:
        """The group of ``author`` under ``proof``, made (and judged) on first sight."""
        found = self.groups.get((author, proof))
        if found is None:
            if number is None:
                number = self._next
            self._next = max(self._next, number + 1)
            found = self._make(author, proof, number)
            self.groups[(author, proof)] = self.by_number[number] = found
            self._judge_group(found)
        return found

    def _make(self, author: PeerKey, proof: OperationId, number: int) -> Group:
        if proof == OperationId(self._document):
            if author == self.owner:
                return Group(number, author, proof, None, 0, "admin")
            return Group(number, author, proof, None, 1, "admin" if author == self.creator else None)
        granting = self.operations.get(proof)
        if granting is None or author not in granting.grants:
            return Group(number, author, proof, None, 0, None)
        return Group(number, author, proof, granting, granting.group.depth + 1, granting.grants[author])

    def add(
        self, identity: OperationId, position: Position, group: Group, head: AccessHead, listed: Iterable[Position] = ()
    ) -> bool:
        """Take in an access operation; True if it may change verdicts on others, so that ``judge`` is due.

        ``listed`` are the places of those operations that it admits and that are in the set.
        """
        operation = AccessOperation(identity, position, group, head)
        self.operations[identity] = self._by_position[position] = operation
        group.operations.append(operation)
        for key in operation.grants:
            self._granting.setdefault(key, []).append(operation)
        for key in operation.revokes:
            self._revoking.setdefault(key, []).append(operation)
        operation.admits = frozenset(target for target in listed if self._saw(operation, target))
        for stretch in {target.stretch for target in operation.admits}:
            self._admitting.setdefault(stretch, []).append(operation)
        if not group.may("access"):
            insort(self._insufficient.setdefault(position.stretch, []), position.seq)
            return False
        operation.accepted = self._covers(group, position) and not self._holds_back(position)
        return operation.accepted and bool(operation.revokes or operation.admits)

    def judge(self) -> list[Group]:
        """Judge everything anew, in ascending rank; return the groups of which some verdict may have changed."""
        groups = sorted(self.groups.values(), key=lambda group: group.rank)
        changed = {group.number: group for group in groups if self._judge_group(group)}
        working = {admit for admits in self._admitting.values() for admit in admits if admit.accepted}
        if working != self._working:
            self._working = working
            changed.update({group.number: group for group in groups if group.revokes})
        return list(changed.values())

    def _judge_group(self, group: Group) -> bool:
        """Whether the group stands otherwise than before."""
        before = (group.ok, group.revokes)
        group.ok = group.role is not None and (group.proof is None or group.proof.accepted)
        group.revokes = tuple(self._active_revokes(group)) if group.ok else ()
        may = group.may("access")
        for operation in group.operations:
            operation.accepted = (
                may and self._covers(group, operation.position) and not self._holds_back(operation.position)
            )
        return before != (group.ok, group.revokes)

    def _holds_back(self, position: Position) -> bool:
        held = self._parked.get(position.stretch)
        return held is not None and position.seq >= held[0]

    def _active_revokes(self, group: Group) -> Iterator[AccessOperation]:
        for revoke in self._revoking.get(group.author, ()):
            if revoke.accepted and revoke.group.rank < group.rank and not self._is_regrant(group, revoke):
                yield revoke

    def _is_regrant(self, group: Group, revoke: AccessOperation) -> bool:
        """Whether the group's proof came with or after the removal, from someone at least as senior."""
        proof = group.proof
        if proof is None or proof.group.rank > revoke.group.rank:
            return False
        return revoke is proof or self._saw(proof, revoke.position)

    def _saw(self, operation: AccessOperation, position: Position) -> bool:
        return self.frontier_of(operation).get(position.stretch, -1) >= position.seq

    def frontier_of(self, operation: AccessOperation) -> Frontier:
        """The operation and its ancestors. A series of removals walks the history once, not once for each."""
        if operation.frontier is None:
            stretch, seq = operation.position
            walked = self._walked.get(stretch)
            below = walked is not None and walked.position.seq < seq
            frontier = dict(walked.frontier) if below and walked is not None and walked.frontier is not None else {}
            self._graph.extend(frontier, operation.position)
            operation.frontier = frontier
            if walked is None or below:
                self._walked[stretch] = operation
        return operation.frontier

    # --- verdicts ---------------------------------------------------------------------------------------------------

    def accepts(self, group: Group, kind: str, position: Position) -> bool:
        """The verdict on one operation."""
        if kind == "access":
            operation = self._by_position.get(position)
            return operation is not None and operation.accepted
        return group.may(kind) and self._covers(group, position)

    def _covers(self, group: Group, position: Position) -> bool:
        if not group.revokes:
            return group.ok
        return group.ok and all(
            self.frontier_of(revoke).get(position.stretch, -1) >= position.seq or self._admitted(revoke, position)
            for revoke in group.revokes
        )

    def _admitted(self, revoke: AccessOperation, position: Position) -> bool:
        return any(
            admit.accepted
            and position in admit.admits
            and admit.group.rank <= revoke.group.rank
            and self._saw(admit, revoke.position)
            for admit in self._admitting.get(position.stretch, ())
        )

    def limit(self, group: Group, stretch: int) -> int:
        """The highest seq of a stretch up to which the group's operations are accepted without an admit."""
        if not group.ok or group.role == "read":
            return -1
        return min((self.frontier_of(revoke).get(stretch, -1) for revoke in group.revokes), default=EVERYTHING)

    def admitted_above(self, group: Group, stretch: int, limit: int) -> list[int]:
        """Seqs above the limit that an admit accepts again, ascending."""
        if not group.ok or group.role == "read" or stretch not in self._admitting:
            return []
        listed = {
            target.seq for admit in self._admitting[stretch] for target in admit.admits if target.stretch == stretch
        }
        listed.difference_update(self.insufficient(group, stretch))
        return sorted(seq for seq in listed if seq > limit and self._covers(group, Position(stretch, seq)))

    def insufficient(self, group: Group, stretch: int) -> list[int]:
        """Seqs on a stretch of this group's access operations that are void for want of the admin role."""
        return [] if group.role == "admin" else self._insufficient.get(stretch, [])

    # --- who holds what ---------------------------------------------------------------------------------------------

    def held(self, key: PeerKey) -> Iterator[tuple[OperationId, Group]]:
        """(proof, group) of every authority under which an operation of ``key`` on all heads would be accepted."""
        if key in (self.owner, self.creator):
            group = self.group(key, OperationId(self._document))
            if group.ok and not group.revokes:
                yield OperationId(self._document), group
        for operation in self._granting.get(key, ()):
            if operation.accepted:
                group = self.group(key, operation.id)
                if group.ok and not group.revokes:
                    yield operation.id, group

    def role(self, key: PeerKey) -> str | None:
        """The highest role that a key holds now."""
        roles = [group.role for _, group in self.held(key) if group.role is not None]
        return max(roles, key=ROLES.__getitem__, default=None)

    def may_read(self, key: PeerKey) -> bool:
        return self.role(key) is not None

    def was_removed(self, key: PeerKey) -> bool:
        """Whether an accepted revoke names the key: an invite never grants to it again by itself."""
        return any(revoke.accepted for revoke in self._revoking.get(key, ()))

    def members(self) -> list[Member]:
        """Every grant that counts, the owner's and the creator's own included."""
        found = [Member(self.owner, "owner", self.owner, 0, False)]
        keys: list[PeerKey] = [key for key in (self.creator,) if key != self.owner]
        for key in keys:
            group = self.group(key, OperationId(self._document))
            found.append(Member(key, "admin", self.owner, group.rank, bool(group.revokes)))
        for key, granting in self._granting.items():
            for operation in granting:
                if operation.accepted:
                    group = self.group(key, operation.id)
                    found.append(
                        Member(key, operation.grants[key], operation.group.author, group.rank, bool(group.revokes))
                    )
        return found
