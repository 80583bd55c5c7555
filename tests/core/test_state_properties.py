"""Any order of arrival, any change of facts on the way: the same Automerge document, and that of the oracle.

The mutants at the end put the mistakes of a first implementation back in, and must be noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.errors import RoostError
from roost.core.graph import Position
from roost.core.history import MADE_BYTES, History, KnownEdit, Order
from roost.core.ids import OperationId
from roost.core.state import State
from tests.core.edit_world import Act, Facts, Peer, Writers, oracle, shuffled

SEEDS = range(120)
MUTANT_SEEDS = range(200)  # the rarest mistake shows in one of a hundred


def replayed(acts: list[Act], facts: Facts, chance: Random, cached: dict[OperationId, bytes] | None = None) -> Peer:
    """A peer that got the operations in a random order, in parts, under other facts at first."""
    peer = Peer(cached=cached)
    order = shuffled(acts, chance)
    while order:
        count = chance.choice((1, 3, 10, len(order)))
        part, order = order[:count], order[count:]
        now = facts if chance.random() < 0.3 else Facts.draw(acts, chance)
        peer.receive(part, now, chance.choice((None, None, 2)))
        if chance.random() < 0.2:
            peer.state.view()
    peer.receive([], facts)
    return peer


def outcome(peer: Peer) -> tuple[object, bytes]:
    return peer.state.view(), peer.state.save()


def disagrees(seed: int) -> bool:
    """Whether peers that hold the same set end with different states, or with another than the oracle's."""
    chance = Random(seed)
    acts = Writers(seed).history(chance.randrange(4, 30))
    facts = Facts.draw(acts, chance)
    heads = tuple(sorted(head.hex() for head in oracle(acts, facts).get_heads()))
    found = []
    for _ in range(3):
        peer = replayed(acts, facts, chance)
        found.append(outcome(peer))
        if peer.state.view().heads != heads:
            return True
    return found[0] != found[1] or found[0] != found[2]


@pytest.mark.parametrize("first", SEEDS[::20])
def test_peers_with_the_same_set_hold_the_oracles_document(first: int) -> None:
    assert [seed for seed in SEEDS[first : first + 20] if disagrees(seed)] == []


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
def test_an_incremental_replay_equals_a_fresh_one(seed: int) -> None:
    chance = Random(seed)
    acts = Writers(seed).history(20)
    facts = Facts.draw(acts, chance)
    fresh = Peer()
    fresh.receive(acts, facts)
    assert outcome(replayed(acts, facts, chance)) == outcome(fresh)


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
def test_a_cache_of_the_same_facts_is_used_as_it_is(seed: int) -> None:
    chance = Random(seed)
    acts = Writers(seed).history(20)
    facts = Facts.draw(acts, chance)
    before = replayed(acts, facts, chance)
    after = Peer(cached=before.cache)
    progress = after.receive(shuffled(acts, chance), facts)
    assert not progress.made
    assert outcome(after) == outcome(before)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
def test_a_cache_of_older_facts_or_with_holes_does_no_harm(seed: int) -> None:
    chance = Random(seed)
    acts = Writers(seed).history(20)
    old, new = Facts.draw(acts, chance), Facts.draw(acts, chance)
    cache = replayed(acts[: chance.randrange(5, 20)], old, chance).cache
    kept = {identity: change for identity, change in cache.items() if chance.random() < 0.9}
    fresh = Peer()
    fresh.receive(acts, new)
    assert outcome(replayed(acts, new, chance, kept)) == outcome(fresh)
    at_once = Peer(cached=kept)
    at_once.receive(shuffled(acts, chance), new)
    assert outcome(at_once) == outcome(fresh)
    assert at_once.cache.items() >= fresh.cache.items()  # what was live at first keeps its change


@given(st.integers(0, 1 << 32))
@settings(max_examples=30, deadline=None, database=None, derandomize=True)
def test_work_done_in_small_steps_gives_the_same(seed: int) -> None:
    acts, facts = Writers(seed).history(20), Facts()
    whole, stepped = Peer(), Peer()
    whole.receive(acts, facts)
    for one in acts:
        stepped.place(one)
    stepped.state.note(stepped.live(facts), [stepped.record(one, facts) for one in acts if one.edits])
    while not stepped.work(2).settled:
        pass
    assert outcome(stepped) == outcome(whole)
    assert stepped.cache == whole.cache


def test_the_histories_hold_what_the_rules_are_about() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        chance = Random(seed)
        acts = Writers(seed).history(chance.randrange(4, 30))
        facts = Facts.draw(acts, chance)
        places = Counter((one.log, one.seq) for one in acts)
        seen["edits"] += sum(1 for one in acts if one.edits)
        seen["forks"] += sum(count - 1 for count in places.values())
        seen["void"] += len(facts.void)
        seen["unreadable"] += len(facts.unreadable)
        seen["merges"] += sum(1 for one in acts if one.backlink and one.deps)
        peer = Peer()
        peer.receive(acts, facts)
        seen["without effect"] += sum(1 for made in peer.cache.values() if len(made) == MADE_BYTES)
    assert seen["edits"] > 1000, seen
    assert all(seen[name] > 100 for name in ("forks", "void", "unreadable", "merges", "without effect")), seen


# --- mutants ----------------------------------------------------------------------------------------------------------


def cache_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "forget_from", lambda self, cut: False)


def only_the_edit_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = History.forget_from

    def forget(self: History, cut: Order | None) -> bool:
        if cut is None:
            return whole(self, cut)
        for line in self.lines.values():
            for edit in line.edits:
                if edit.order == cut:
                    edit.made = None
        return True

    monkeypatch.setattr(History, "forget_from", forget)


def actor_fixed_on_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "_marks_changed", lambda self, log: False)


def no_branch_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roost.core.graph.Graph.last_sibling", lambda self, position, live: None)


def void_siblings_count(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = History.facts

    def all_live(self: History, edit: KnownEdit) -> bytes:
        live, self._live = self._live, {number: found.last for number, found in self._graph.stretches.items()}
        try:
            return facts(self, edit)
        finally:
            self._live = live

    monkeypatch.setattr(History, "facts", all_live)


def replicas_hold_all_that_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = State._catch_up

    def catch_up(self: State, replica: object, position: Position) -> None:
        for number, line in self._history.lines.items():
            if number != position.stretch and line.seqs:
                self._graph.extend(replica.frontier, Position(number, line.seqs[-1]))  # type: ignore[attr-defined]
        exact(self, replica, position)  # type: ignore[arg-type]

    monkeypatch.setattr(State, "_catch_up", catch_up)


def void_edits_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    move = History._move

    def stay(self: History, fresh: list[KnownEdit]) -> bool:
        move(self, fresh)
        return False

    monkeypatch.setattr(History, "_move", stay)


@pytest.mark.parametrize(
    "mutant",
    [
        cache_for_ever,
        only_the_edit_is_made_again,
        actor_fixed_on_arrival,
        no_branch_actors,
        void_siblings_count,
        replicas_hold_all_that_came_before,
        void_edits_stay,
    ],
)
def test_a_mutant_is_noticed(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)

    def fails(seed: int) -> bool:
        try:
            return disagrees(seed)
        except (RoostError, AssertionError, KeyError):
            return True

    assert any(fails(seed) for seed in MUTANT_SEEDS)
