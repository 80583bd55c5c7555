"""How one peer writes into a document: which log, which predecessor, what it has seen, under which authority, when.

Source: docs/protocol.md "Operation" (log, deps, proof, time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from roost.core.access import ROLES, Group
from roost.core.document import Document
from roost.core.errors import NotAnAdmin, NotAWriter, TooLarge
from roost.core.graph import LogKey
from roost.core.ids import LogId, OperationId, PeerKey
from roost.core.index import Known
from roost.core.operation import DEPS_MAX


class Draft(Struct, frozen=True):
    """Everything of a header that depends on the document."""

    seq: int
    backlink: OperationId | None
    deps: tuple[OperationId, ...]
    proof: OperationId
    time: int


class Author:
    """The writing end of one key in one document, on this data directory's own log."""

    def __init__(self, document: Document, me: PeerKey, log: LogId) -> None:
        self._document = document
        self._me = me
        self.log = log
        self._tip: tuple[OperationId, Known] | None = None
        self._find_tip()

    def _find_tip(self) -> None:
        key = LogKey(self._me, self.log)
        tips = self._document.graph.tips(key)
        self._tip = None
        if len(tips) == 1:
            identity = self._document.id_at(tips[0])
            self._tip = (identity, self._document.known(identity))

    def wants_new_log(self) -> bool:
        """Whether the log may not be continued: its tip is void or parked, or somebody else wrote in it too."""
        if self._document.graph.forked(LogKey(self._me, self.log)):
            return True
        return self._tip is not None and not self._document.accepted(self._tip[1])

    def take_log(self, log: LogId) -> None:
        """Continue in a new, empty log."""
        self.log = log
        self._tip = None

    def wrote(self, identity: OperationId) -> None:
        """The operation that was just drafted is in the document."""
        self._tip = (identity, self._document.known(identity))

    def drafts(self, kind: str, now: int, also: Sequence[OperationId] = ()) -> Iterator[tuple[str, Draft]]:
        """(kind, draft) of the joins that must come first, then of the operation; each is written before the next.

        ``also`` are void operations that an admit puts among its ancestors. now is microseconds of the wall clock, or 0
        if it is not to be trusted. Raises NotAWriter or NotAnAdmin.
        """
        proof = self._proof(kind)
        deps = self._deps(proof)
        if len(deps) > DEPS_MAX or also:  # sorted once, and not for each join: a removed key may leave any number
            deps = tuple(sorted(deps, key=lambda head: (head != proof, self._document.known(head).time, head)))
        while len(deps) + len(void := self._unseen(also, deps)) > DEPS_MAX:
            if len(deps) <= 2:
                raise TooLarge(f"an admit lists at most {DEPS_MAX - 2} operations that nobody built on")
            joined = DEPS_MAX if deps[0] == proof else DEPS_MAX - 1
            yield "join", self._draft(deps[:joined], proof, now)
            deps = deps[joined:]  # the join is the predecessor now, under this proof: no dep itself
        yield kind, self._draft(deps + void, proof, now)

    def _unseen(self, also: Sequence[OperationId], deps: tuple[OperationId, ...]) -> tuple[OperationId, ...]:
        """Those of the void operations that are still to be named: neither live by now nor among deps."""
        return tuple(one for one in also if one not in deps and not self._document.is_live(one))

    def _draft(self, deps: tuple[OperationId, ...], proof: OperationId, now: int) -> Draft:
        latest = max((self._document.known(dep).time for dep in deps), default=-1)
        seq, backlink = 0, None
        if self._tip is not None:
            backlink, known = self._tip
            seq, latest = known.position.seq + 1, max(latest, known.time)
        return Draft(seq, backlink, tuple(sorted(deps)), proof, max(now, latest + 1))

    def _deps(self, proof: OperationId) -> tuple[OperationId, ...]:
        backlink = None if self._tip is None else self._tip[0]
        deps = {head for head in self._document.liveness.heads.values() if head != backlink}
        if (self._tip is None or self._group(self._tip[1]).proof_id != proof) and proof != backlink:
            deps.add(proof)
        return tuple(deps)

    def _group(self, known: Known) -> Group:
        return self._document.access.by_number[known.group]

    def _proof(self, kind: str) -> OperationId:
        """The authority to act under: the log's own if it still counts, else the strongest, then the oldest."""
        needed = "admin" if kind == "access" else "write"
        best: tuple[int, int, OperationId] | None = None
        current = None if self._tip is None else self._group(self._tip[1]).proof_id
        for proof, group in self._document.access.held(self._me):
            if group.role is None or ROLES[group.role] < ROLES[needed]:
                continue
            if proof == current and kind != "access":
                return proof
            if best is None or (group.rank, self._place(proof), proof) < (best[0], best[1], best[2]):
                best = (group.rank, self._place(proof), proof)
        if best is None:
            raise NotAnAdmin if needed == "admin" else NotAWriter
        return best[2]

    def _place(self, proof: OperationId) -> int:
        return self._document.known(proof).time
