"""What the state is made of, by hand-written cases. Random histories: test_state_properties.py."""

from __future__ import annotations

from hashlib import sha256
from itertools import permutations

import pytest
from automerge import core as automerge

from roost.core import state as state_module
from roost.core.errors import StateFailed
from roost.core.heads import Delete, Edit, Put, Splice
from roost.core.history import MADE_BYTES, seal
from tests.core.edit_world import Act, Facts, Peer, act, deliver, first_document, log_of

ANN, BOB, CID = log_of("ann"), log_of("bob"), log_of("cid")
NOTHING = Facts()


def put(key: str, value: str | int | float | bool | None, before: Act | None = None, time: int = 1) -> Act:
    return act(ANN, before, (), time, (Put("meta", key),), (value,))


def text(characters: str, index: int = 0, remove: int = 0, before: Act | None = None, time: int = 1) -> Act:
    return act(ANN, before, (), time, (Splice("notes", index, remove, len(characters)),), (characters,))


def peer_with(*acts: Act, facts: Facts = NOTHING, kind: str = "session") -> Peer:
    peer = Peer(kind)
    peer.receive(acts, facts)
    return peer


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("session", "173a538f9e6db643c5ffdd73f590d2bf7300b713726ee9fc07eec83ded50b52f"),
        ("agent", "8b206ac350f1cbc253a03098bee9883d5ad5d6deef466c38ba377387e5844b33"),
        ("memory", "6798360a7ab9378d58d10e43975571a42ea8d6812a24a08fdf4f5f421fade59e"),
    ],
)
def test_a_new_document_holds_the_containers_of_its_kind_under_the_formats_head(kind: str, head: str) -> None:
    assert peer_with(kind=kind).state.view().heads == (head,)


def test_a_kind_that_is_not_known_has_an_empty_state() -> None:
    view = peer_with(put("name", "demo"), kind="later").state.view()
    assert (view.maps, view.texts, view.heads) == ({}, {}, ())


@pytest.mark.parametrize("value", ["text\0 😀", "", -5, (1 << 63) - 1, -(1 << 63), 2.5, -0.0, True, False, None])
def test_a_value_comes_back_with_its_type(value: str | int | float | bool | None) -> None:
    found = peer_with(put("key/with/parts", value)).state.view().maps["meta"]["key/with/parts"]
    assert (found, type(found)) == (value, type(value))


def test_a_deleted_key_is_gone_and_deleting_what_is_not_there_changes_nothing() -> None:
    first = put("name", "demo")
    second = act(ANN, first, (), 2, (Delete("meta", "name"), Delete("meta", "other")), (None, None))
    peer = peer_with(first, second)
    assert peer.state.view().maps["meta"] == {}

    heads = peer.state.view().heads
    peer.receive([act(ANN, second, (), 3, (Delete("meta", "other"),), (None,))], NOTHING)
    assert peer.state.view().heads == heads


def test_positions_count_code_points_in_the_text_that_the_items_before_leave() -> None:
    edits: tuple[Edit, ...] = (Splice("notes", 0, 0, 3), Splice("notes", 1, 1, 1), Splice("notes", 3, 0, 1))
    peer = peer_with(act(ANN, None, (), 1, edits, ("a😀b", "é", "!")))
    assert peer.state.view().texts["notes"] == "aéb!"


@pytest.mark.parametrize(
    ("edit", "value"),
    [
        (Splice("notes", 4, 0, 1), "x"),
        (Splice("notes", 2, 2, 0), ""),
        (Splice("notes", (1 << 53) - 1, (1 << 53) - 1, 0), ""),
        (Splice("elsewhere", 0, 0, 1), "x"),
        (Splice("meta", 0, 0, 1), "x"),
        (Put("notes", "key"), 1),
        (Put("elsewhere", "key"), 1),
    ],
)
def test_one_item_without_a_place_leaves_the_whole_operation_without_effect(edit: Edit, value: str | int) -> None:
    first = text("abc")
    peer = peer_with(first)
    heads = peer.state.view().heads

    wrong = act(ANN, first, (), 2, (Put("meta", "name"), edit), ("demo", value))
    peer.receive([wrong, put("topic", "still writing", wrong, 3)], NOTHING)

    view = peer.state.view()
    assert (view.maps["meta"], view.texts["notes"]) == ({"topic": "still writing"}, "abc")
    assert len(peer.cache[wrong.id]) == MADE_BYTES
    assert view.heads != heads


def test_lengths_that_no_body_can_carry_cost_nothing() -> None:
    huge = act(ANN, None, (), 1, [Splice("notes", 0, 0, 1 << 16)] * 64, [""] * 64)
    peer = peer_with(huge, facts=Facts(unreadable={huge.id}))
    assert peer.state.view().texts["notes"] == ""


def test_what_cannot_be_read_counts_as_blocks_and_as_null_until_it_can() -> None:
    edits: tuple[Edit, ...] = (Put("meta", "name"), Splice("notes", 0, 0, 3), Delete("meta", "topic"))
    hidden = act(ANN, None, (), 1, edits, ("demo", "a😀b", None))
    later = text("!", 3, 0, hidden, 2)
    peer = peer_with(hidden, later, facts=Facts(unreadable={hidden.id}))
    view = peer.state.view()
    assert (view.maps["meta"], view.texts["notes"]) == ({"name": None}, "\u2588\u2588\u2588!")

    progress = peer.receive([], NOTHING)

    assert peer.state.view().texts["notes"] == "a😀b!"
    assert progress.forgotten == progress.made.keys() == {hidden.id, later.id}
    assert outcome(peer) == outcome(peer_with(hidden, later))


def test_a_late_removal_and_its_undoing_make_no_change_again() -> None:
    acts = [put(f"key {number}", number, time=1) for number in range(1)]
    by_bob = act(BOB, None, acts, 5, (Put("meta", "name"),), ("bob was here",))
    peer = peer_with(*acts, by_bob)
    before = outcome(peer)

    removal = peer.receive([], Facts(void={by_bob.id}))
    assert "name" not in peer.state.view().maps["meta"]
    undoing = peer.receive([], NOTHING)

    assert not any([removal.made, removal.forgotten, undoing.made, undoing.forgotten])
    assert outcome(peer) == before


def test_what_a_removed_key_wrote_before_others_built_on_it_stays() -> None:
    by_bob = act(BOB, None, (), 1, (Splice("notes", 0, 0, 3),), ("ink",))
    built_on = act(ANN, None, [by_bob], 2, (Splice("notes", 3, 0, 1),), ("!",))
    peer = peer_with(by_bob, built_on, facts=Facts(void={by_bob.id}))
    assert peer.state.view().texts["notes"] == "ink!"


def test_concurrent_edits_of_two_keys_and_one_text_by_three_peers_all_stay_in_all_orders() -> None:
    base = text("base ", time=1)
    chains = []
    for log, key in ((ANN, "name"), (BOB, "topic"), (CID, "name")):
        before = base if log is ANN else None
        deps = [] if log is ANN else [base]
        named = act(log, before, deps, 2, (Put("meta", key),), (key,))
        chains.append((named, act(log, named, (), 3, (Splice("notes", 5, 0, 3),), (log.log.hex()[:3],))))

    peer, results = peer_with(base), []
    for order in permutations([0, 0, 1, 1, 2, 2]):
        steps = [iter(chain) for chain in chains]
        peer = peer_with(base)
        for number in order:
            peer.receive([next(steps[number])], NOTHING)
        results.append(outcome(peer))

    view = peer.state.view()
    assert view.maps["meta"] == {"name": "name", "topic": "topic"}
    assert all(log.log.hex()[:3] in view.texts["notes"] for log in (ANN, BOB, CID))
    assert len(view.texts["notes"]) == 14
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("first", [0, 1])
def test_both_branches_of_a_forked_log_stay_whichever_comes_first(first: int) -> None:
    base = text("base", time=1)
    branches = [text("left ", before=base, time=2), text("right ", before=base, time=3)]
    peer = peer_with(base, branches[first])
    peer.receive([branches[1 - first]], NOTHING)
    assert sorted(peer.state.view().texts["notes"].split()) == ["base", "left", "right"]
    assert outcome(peer) == outcome(peer_with(base, *branches))


def test_a_void_branch_of_a_forked_log_leaves_no_trace() -> None:
    base = text("base", time=1)
    left, right = text("left ", before=base, time=2), text("right ", before=base, time=3)
    peer = peer_with(base, left, right, facts=Facts(void={right.id}))
    assert outcome(peer) == outcome(peer_with(base, left))


def test_a_damaged_cache_is_made_again() -> None:
    acts = [put("name", "demo")]
    acts.append(put("topic", "words", acts[0], 2))
    good = peer_with(*acts)
    damaged = {identity: made[:-1] + bytes([made[-1] ^ 1]) for identity, made in good.cache.items()}

    peer = Peer(cached=damaged)
    peer.receive(acts, NOTHING)

    assert outcome(peer) == outcome(good)
    peer.work()
    assert peer.cache == good.cache


def test_a_change_cached_for_another_operation_is_given_up() -> None:
    peer = Peer(cached={put("gone", 1).id: b"\1" + b"a" * 16})
    assert peer.receive([put("name", "demo")], NOTHING).forgotten == {put("gone", 1).id}


def test_replicas_that_were_let_go_are_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[Act] = []
    tips: dict[bytes, Act] = {}
    for number in range(30):
        log = (ANN, BOB, CID)[number % 3]
        deps = [tip for tip in tips.values() if tip.log != log][: number % 2]
        tips[log.log] = act(log, tips.get(log.log), deps, number, (Splice("notes", 0, 0, 2),), (f"{number:2}",))
        acts.append(tips[log.log])
    whole = peer_with(*acts)
    monkeypatch.setattr(state_module, "REPLICAS_MAX", 1)
    assert outcome(peer_with(*acts)) == outcome(whole)


def test_a_saved_state_loads_in_automerge_with_the_same_heads() -> None:
    peer = peer_with(put("name", "demo"))
    loaded = automerge.Document.load(peer.state.save())
    assert tuple(head.hex() for head in loaded.get_heads()) == peer.state.view().heads


def test_a_cached_change_on_which_the_engine_panics_is_made_again() -> None:
    one = put("count", 1)
    good = peer_with(one)
    hostile = as_counter(good.cache[one.id][MADE_BYTES:])
    peer = Peer(cached={one.id: seal(good.cache[one.id][4:MADE_BYTES], hostile)})
    peer.receive([one], NOTHING)

    assert outcome(peer) == outcome(good)
    peer.work()
    assert peer.cache == good.cache


def test_a_panic_of_the_engine_is_a_typed_failure() -> None:
    one = put("count", 1)
    hostile = as_counter(peer_with(one).cache[one.id][MADE_BYTES:])
    first, _ = first_document()
    deliver(first, [hostile])
    meta = first.get(automerge.ROOT, "meta")
    assert meta is not None
    with pytest.raises(StateFailed), state_module._border():
        first.get(meta[1], "count")


def as_counter(change: bytes) -> bytes:
    """A change that puts the integer 1, with its type altered to one at which the engine panics."""
    integer, counter = b"\x14\x01", b"\x18\x01"  # length 1, type 4 or 8; then the value
    assert change.count(integer) == 1
    body = change[8:].replace(integer, counter)
    return change[:4] + sha256(body).digest()[:4] + body


def test_a_mistake_of_ours_is_not_taken_for_a_failure_of_the_engine() -> None:
    with pytest.raises(KeyError), state_module._border():
        raise KeyError


def outcome(peer: Peer) -> tuple[object, bytes]:
    return peer.state.view(), peer.state.save()
