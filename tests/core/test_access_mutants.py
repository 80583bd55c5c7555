"""Each rule of access taken out, or made worse: the random histories must notice.

A mutant that survives means that the generators do not reach what the rule is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

import pytest

from roost.core.access import Access, AccessOperation, Group
from roost.core.graph import Graph, Position
from roost.core.liveness import Liveness
from tests.core.model import Peer
from tests.core.replay import AfterStep, judged, lost, replay
from tests.core.world import history

SEEDS = range(60)  # twice as many as the mutant that hides best needs
Patch = Callable[[pytest.MonkeyPatch], AfterStep | None]


def _covered(access: Access, revoke: AccessOperation, position: Position) -> bool:
    return access.frontier_of(revoke).get(position.stretch, -1) >= position.seq


def heights_instead_of_chains(patch: pytest.MonkeyPatch) -> None:
    """What the remover saw is taken for a number per log, whichever branch it was on."""

    def height(access: Access, revoke: AccessOperation, stretch: int) -> int:
        log = access._graph.stretches[stretch].log
        seen = access.frontier_of(revoke)
        return max(seen.get(number, -1) for number in access._graph.logs[log])

    def covers(access: Access, group: Group, position: Position) -> bool:
        return group.ok and all(
            height(access, revoke, position.stretch) >= position.seq or access._admitted(revoke, position)
            for revoke in group.revokes
        )

    def limit(access: Access, group: Group, stretch: int) -> int:
        if not group.ok or group.role == "read":
            return -1
        return min((height(access, revoke, stretch) for revoke in group.revokes), default=1 << 53)

    patch.setattr(Access, "_covers", covers)
    patch.setattr(Access, "limit", limit)


def any_admin_admits(patch: pytest.MonkeyPatch) -> None:
    def admitted(access: Access, revoke: AccessOperation, position: Position) -> bool:
        return any(
            admit.accepted and position in admit.admits and access._saw(admit, revoke.position)
            for admit in access._admitting.get(position.stretch, ())
        )

    patch.setattr(Access, "_admitted", admitted)


def an_admit_need_not_have_seen_the_removal(patch: pytest.MonkeyPatch) -> None:
    def admitted(access: Access, revoke: AccessOperation, position: Position) -> bool:
        return any(
            admit.accepted and position in admit.admits and admit.group.rank <= revoke.group.rank
            for admit in access._admitting.get(position.stretch, ())
        )

    patch.setattr(Access, "_admitted", admitted)


def nobody_admits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Access, "_admitted", lambda access, revoke, position: False)


def anybody_grants_again(patch: pytest.MonkeyPatch) -> None:
    def is_regrant(access: Access, group: Group, revoke: AccessOperation) -> bool:
        return group.proof is not None and access._saw(group.proof, revoke.position)

    patch.setattr(Access, "_is_regrant", is_regrant)


def nobody_grants_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Access, "_is_regrant", lambda access, group, revoke: False)


def a_revoke_is_not_its_own_proof(patch: pytest.MonkeyPatch) -> None:
    """Lowering a role, revoke and grant in one, leaves none."""
    real = Access._is_regrant
    patch.setattr(
        Access, "_is_regrant", lambda access, group, revoke: revoke is not group.proof and real(access, group, revoke)
    )


def equals_remove_each_other(patch: pytest.MonkeyPatch) -> None:
    def active(access: Access, group: Group) -> Iterator[AccessOperation]:
        for revoke in access._revoking.get(group.author, ()):
            if revoke.accepted and revoke.group.rank <= group.rank and not access._is_regrant(group, revoke):
                yield revoke

    patch.setattr(Access, "_active_revokes", active)


def juniors_remove_seniors(patch: pytest.MonkeyPatch) -> None:
    def active(access: Access, group: Group) -> Iterator[AccessOperation]:
        for revoke in access._revoking.get(group.author, ()):
            if revoke.accepted and not access._is_regrant(group, revoke):
                yield revoke

    patch.setattr(Access, "_active_revokes", active)


def a_void_revoke_removes(patch: pytest.MonkeyPatch) -> None:
    def active(access: Access, group: Group) -> Iterator[AccessOperation]:
        for revoke in access._revoking.get(group.author, ()):
            if revoke.group.rank < group.rank and not access._is_regrant(group, revoke):
                yield revoke

    patch.setattr(Access, "_active_revokes", active)


def a_void_grant_proves(patch: pytest.MonkeyPatch) -> None:
    class Credulous(Group):
        __slots__ = ()

        @property
        def ok(self) -> bool:
            return self.role is not None

        @ok.setter
        def ok(self, value: bool) -> None:
            pass

    patch.setattr("roost.core.access.Group", Credulous)


def the_creator_stays_the_owner(patch: pytest.MonkeyPatch) -> None:
    real = Access.__init__

    def init(access: Access, document: object, creator: object, owner: object, *rest: object) -> None:
        real(access, document, creator, creator, *rest)  # type: ignore[arg-type]

    patch.setattr(Access, "__init__", init)


def a_writer_removes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Group, "may", lambda group, kind: group.role in ("write", "admin"))


def admits_reach_the_store_late(patch: pytest.MonkeyPatch) -> None:
    """An admit changes verdicts here, and the rows are not told."""

    def judge(access: Access) -> list[Group]:
        groups = sorted(access.groups.values(), key=lambda group: group.rank)
        return [group for group in groups if access._judge_group(group)]

    patch.setattr(Access, "judge", judge)


def a_listed_access_operation_needs_no_admin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Access, "insufficient", lambda access, group, stretch: [])


def a_fork_continues_the_stretch(patch: pytest.MonkeyPatch) -> None:
    """An ancestor is whatever has a lower number in the same log."""
    real = Graph.extend

    def extend(graph: Graph, frontier: dict[int, int], position: Position, met: object = None) -> None:
        real(graph, frontier, position, met)  # type: ignore[arg-type]
        for number in graph.logs[graph.stretches[position.stretch].log]:
            last = graph.stretches[number].last
            frontier[number] = max(frontier.get(number, -1), min(last, position.seq))

    patch.setattr(Graph, "extend", extend)


def heads_under_a_void_child_stay(patch: pytest.MonkeyPatch) -> None:
    def cover(liveness: Liveness, position: Position) -> None:
        liveness._graph.extend(liveness.frontier, position)

    patch.setattr(Liveness, "_cover", cover)


def void_is_refused_on_arrival(patch: pytest.MonkeyPatch) -> AfterStep:
    def after_step(peer: Peer) -> Peer:
        kept = Peer(peer.arrived[0])
        void = {operation.id for operation in peer.arrived if not peer.accepts(operation)}
        kept.deliver([operation for operation in peer.arrived[1:] if operation.id not in void] + peer.waiting)
        return kept

    return after_step


def void_leaves_are_dropped(patch: pytest.MonkeyPatch) -> AfterStep:
    def after_step(peer: Peer) -> Peer:
        kept = Peer(peer.arrived[0])
        kept.deliver([operation for operation in peer.arrived[1:] if peer.is_live(operation)] + peer.waiting)
        return kept

    return after_step


MUTANTS: dict[str, Patch] = {
    patch.__name__: patch
    for patch in (
        heights_instead_of_chains,
        any_admin_admits,
        an_admit_need_not_have_seen_the_removal,
        nobody_admits,
        anybody_grants_again,
        nobody_grants_again,
        a_revoke_is_not_its_own_proof,
        equals_remove_each_other,
        juniors_remove_seniors,
        a_void_revoke_removes,
        a_void_grant_proves,
        the_creator_stays_the_owner,
        a_writer_removes,
        admits_reach_the_store_late,
        a_listed_access_operation_needs_no_admin,
        a_fork_continues_the_stretch,
        heads_under_a_void_child_stay,
        void_is_refused_on_arrival,
        void_leaves_are_dropped,
    )
}


def survives(name: str, seeds: Iterable[int]) -> int | None:
    """The first history that shows the mutant, or None. The histories themselves are made by the sound code."""
    for seed in seeds:
        known = history(seed)
        oracle, _ = judged(known.operations)
        with pytest.MonkeyPatch.context() as patch:
            after_step = MUTANTS[name](patch)
            try:
                peer = replay(known, oracle, Random(seed), after_step)
                assert not lost(peer, oracle)
            except (AssertionError, RecursionError):
                return seed
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    assert survives(name, SEEDS) is not None
