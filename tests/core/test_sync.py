"""Conversations of two or three peers about one document, frame by frame, over links that may lose and double them."""

from __future__ import annotations

from random import Random

import pytest

from roost.core import canonical, sync, wire
from roost.core.sending import CHUNK_BYTES, WINDOW
from tests.core.model import Scene, grant, verbs
from tests.core.sync_story import WRITERS, Story, batches, ids, ids_in, quiet, two
from tests.core.sync_world import Faults, World

# --- the ordinary case ------------------------------------------------------------------------------------------------


def test_equal_peers_exchange_one_digest_each_way_and_are_silent() -> None:
    story = Story()
    log = story.log("ann", 3)
    world = two(story, log, log)
    world.settle()
    world.forget()

    for _ in range(3):
        world.tick()
        assert world.said() == [("ann", "bob", "Digest"), ("bob", "ann", "Digest")]
        world.forget()


def test_each_side_gets_what_it_lacks_and_nothing_else_travels() -> None:
    story = Story()
    common, mine, theirs = story.log("cid", 4), story.log("ann", 3), story.log("bob", 2)
    world = two(story, [*common, *mine], [*common, *theirs])
    world.settle()
    assert world.equal()
    assert world.carried() == {"ann": 3, "bob": 2}


def test_who_is_behind_in_a_log_gets_the_rest_of_it() -> None:
    story = Story()
    log = story.log("ann", 10)
    for mine, theirs in ((log[:4], log), (log, log[:4])):
        world = two(story, mine, theirs)
        world.settle()
        assert world.equal()
        assert sum(world.carried().values()) == 6


def test_operations_travel_in_the_total_order_over_all_logs() -> None:
    story = Story()
    logs = {name: story.write(name, proof=story.granted) for name in WRITERS}
    for turn in range(40):
        name = WRITERS[turn % 4]
        logs[name] = story.write(name, after=[logs[WRITERS[(turn + 1) % 4]]])
    world = two(story, story.operations, [])
    world.settle()
    assert world.equal()
    sent = [one for batch in batches(world, "ann") for one in ids_in(batch)]
    times = {one.id: (one.time, one.id) for one in story.operations}
    assert sent == sorted(sent, key=times.__getitem__)


def test_a_new_operation_goes_out_at_once_and_is_acknowledged() -> None:
    story = Story()
    log = story.log("ann", 2)
    world = two(story, log[:1], log[:1])
    world.settle()
    world.forget()

    world.write("ann", log[1])

    assert world.said() == [("ann", "bob", "Operations")]
    world.settle()
    assert world.said() == [("ann", "bob", "Operations"), ("bob", "ann", "Acknowledge")]
    assert world.equal()


def test_an_operation_of_another_link_is_passed_on_at_once_and_not_back() -> None:
    story = Story()
    log = story.log("ann", 2)
    world = story.world({"ann": log[:1], "bob": log[:1], "cid": log[:1]}, ("ann", "bob"), ("bob", "cid"))
    world.settle()
    world.forget()
    world.write("ann", log[1])
    world.settle()
    assert world.equal()
    assert world.carried() == {"ann": 1, "bob": 1}
    assert [said[2] for said in world.said()].count("Digest") == 0


def test_what_is_written_during_the_first_comparison_is_not_lost() -> None:
    story = Story()
    log = story.log("ann", 8)
    for delivered in range(8):
        world = two(story, log[:2], [], seed=delivered)
        for one in log[2:]:
            world.write("ann", one)
            world.deliver(delivered)
        world.settle()
        assert world.equal(), "without waiting for a tick"


@pytest.mark.parametrize("seed", range(8))
def test_what_comes_during_a_comparison_is_not_sent_back(seed: int) -> None:
    story = Story()
    log = story.long("ann", [bytes(60_000)] * 60)
    world = two(story, [], log, seed=seed)
    while world.deliver(1):
        if world.chance.random() < 0.3:
            world.event(world["ann"], "bob", sync.CompareNow())
    world.settle()

    assert world.equal()
    assert set(world.carried()) == {"bob"}


@pytest.mark.parametrize("name", ["ann", "bob"])
@pytest.mark.parametrize("has_more", ["ann", "bob"])
@pytest.mark.parametrize("count", [4, 100])
def test_a_comparison_that_somebody_waits_for_ends_when_both_are_seen_equal(
    name: str, has_more: str, count: int
) -> None:
    story = Story()
    log = story.log("ann", count)
    world = two(story, log[:2], log[:2])
    world.settle()
    world.write(has_more, *log[2:])
    other = "bob" if name == "ann" else "ann"
    world.event(world[name], other, sync.CompareNow())
    world.settle()
    told = [one.digest for _, to, one in world.sent if to == name and isinstance(one, wire.Digest)]
    assert told[-1] == world[name].holdings.digest() == world[other].holdings.digest()


# --- forked logs ------------------------------------------------------------------------------------------------------


def test_a_branch_that_leaves_below_the_last_common_operation_is_reached() -> None:
    """P a0 a1 a2 b1, Q a0 a1 c2: compared above the last common one, b1 never came."""
    story = Story()
    a0, a1, a2 = story.log("mal", 3)
    (b1,) = story.log("mal", 1, back=a0)
    (c2,) = story.log("mal", 1, back=a1)
    for mine, theirs in (([a0, a1, a2, b1], [a0, a1, c2]), ([a0, a1, c2], [a0, a1, a2, b1])):
        world = two(story, mine, theirs)
        world.settle()
        assert world.equal()
        assert sorted(world.carried().values()) == [1, 2]


def test_a_cloned_log_is_united_on_both_sides() -> None:
    """P a0..a5, Q a0..a2 b3..b9: compared by heights, Q never got a3..a5."""
    story = Story()
    trunk = story.log("mal", 6)
    clone = [*trunk[:3], *story.log("mal", 7, back=trunk[2])]
    for mine, theirs in ((trunk, clone), (clone, trunk)):
        world = two(story, mine, theirs)
        world.settle()
        assert world.equal()
        assert sorted(world.carried().values()) == [3, 7]


def test_twins_of_equal_seq_are_both_held_by_both() -> None:
    story = Story()
    for at_zero in (True, False):
        before = None if at_zero else story.log("mal", 1, log=f"{at_zero}")[0]
        log = f"twin {at_zero}"
        left = story.write("mal", log=log if at_zero else f"{at_zero}", back=before, proof=story.granted)
        story.forget_tip("mal", log if at_zero else f"{at_zero}")
        right = story.write("mal", log=log if at_zero else f"{at_zero}", back=before, proof=story.granted)
        below = [before] if before else []
        assert left.seq == right.seq
        assert (left.author, left.log, left.backlink) == (right.author, right.log, right.backlink)
        world = two(story, [*below, left], [*below, right])
        world.settle()
        assert world.equal()
        assert world.carried() == {"ann": 1, "bob": 1}


def test_a_long_fork_is_located_with_few_ids() -> None:
    story = Story()
    trunk = story.log("mal", 400)
    clone = [*trunk[:250], *story.log("mal", 120, back=trunk[249])]
    world = two(story, trunk, clone)
    world.settle()
    assert world.equal()
    assert world.carried() == {"ann": 150, "bob": 120}
    named = [one for _, _, message in world.sent if isinstance(message, wire.Compare) for one in message.locate]
    assert sum(len(one.ids) for one in named) <= 10


def test_three_peers_with_a_branch_each_all_get_all() -> None:
    story = Story()
    trunk = story.log("mal", 5)
    branches = [story.log("mal", 3 + at, back=trunk[at]) for at in range(3)]
    names = ("ann", "bob", "cid")
    holds = {name: [*trunk[: at + 1], *branches[at]] for at, name in enumerate(names)}
    world = story.world(holds, ("ann", "bob"), ("bob", "cid"), ("cid", "ann"))
    world.settle()
    assert world.equal()
    assert len(world["ann"].holds()) == len(ids([*story.start, *trunk[:3], *branches[0], *branches[1], *branches[2]]))


def test_a_fork_of_one_log_and_plain_differences_of_others_are_found_in_one_round() -> None:
    story = Story()
    trunk = story.log("mal", 4)
    fork = story.log("mal", 2, back=trunk[1])
    ahead, behind = story.log("ann", 5), story.log("bob", 5)
    world = two(story, [*trunk, *ahead, *behind[:2]], [*trunk[:2], *fork, *ahead[:2], *behind])
    world.settle()
    assert world.equal()
    assert world.carried() == {"ann": 2 + 3, "bob": 2 + 3}


# --- many logs --------------------------------------------------------------------------------------------------------


def test_with_many_logs_only_the_authors_that_differ_are_told() -> None:
    names = [f"author {number}" for number in range(100)]
    story = Story(*(grant(name, "write") for name in names))
    entries = [story.write(name, proof=story.granted) for name in names]
    world = two(story, entries[:98], entries[2:])
    world.settle()
    assert world.equal()
    assert world.carried() == {"ann": 2, "bob": 2}
    told = [message.logs for _, _, message in world.sent if isinstance(message, wire.Have)]
    assert max(len(logs) for logs in told) == 2


# --- loss, doubling, reordering, reconnecting -------------------------------------------------------------------------


def test_a_transfer_goes_on_after_a_reconnect_where_it_was() -> None:
    story = Story()
    log = story.long("ann", [Random(number).randbytes(100 << 10) for number in range(40)])
    world = two(story, log, [])
    while len(world["bob"].holds()) < 20:
        world.deliver(1)
    world.cut("ann", "bob")
    held = len(world["bob"].holds())
    world.forget()

    world.link("ann", "bob")
    world.settle()

    assert world.equal()
    assert world.carried()["ann"] == len(log) + 2 - held


def test_a_lost_frame_is_made_good_within_two_ticks() -> None:
    story = Story()
    log = story.log("ann", 3)
    world = two(story, log[:1], log[:1])
    world.settle()
    world.faults = Faults(lost=100)
    world.write("ann", log[1])
    world.faults = Faults()
    world.write("ann", log[2])
    world.settle()
    assert log[2].id not in world["bob"].holds(), "it waits for its predecessor"

    world.tick()
    world.tick()

    assert world.equal()


@pytest.mark.parametrize("seed", range(8))
def test_lost_doubled_and_reordered_frames_cost_time_and_nothing_else(seed: int) -> None:
    story = Story()
    trunk = story.log("mal", 6)
    fork = story.log("mal", 7, back=trunk[2])
    talk = story.log("ann", 40)
    world = story.world(
        {"ann": [*trunk, *talk[:10]], "bob": [*trunk[:3], *fork], "cid": talk[:30]},
        ("ann", "bob"), ("bob", "cid"),
        seed=seed,
    )  # fmt: skip
    world.faults = Faults(lost=20, doubled=20, overtakes=20)
    for number, one in enumerate(talk[10:]):
        world.write("ann", one)
        world.deliver(5)
        if number % 6 == 5:
            world.tick()
        if number % 10 == 9:
            world.link("bob", "ann")
    world.until_equal()
    quiet(world)


# --- flow -------------------------------------------------------------------------------------------------------------


def test_a_long_transfer_keeps_a_bounded_window_ahead_of_the_acknowledgements() -> None:
    story = Story()
    log = story.long("ann", [Random(number).randbytes(100 << 10) for number in range(60)])
    world = two(story, log, [])
    ahead = longest = 0
    seen = 0
    while world.deliver(1):
        for sender, _, message in world.sent[seen:]:
            ahead += isinstance(message, wire.Operations) and sender == "ann"
            ahead -= isinstance(message, wire.Acknowledge) and sender == "bob"
        seen = len(world.sent)
        longest = max(longest, ahead)
    assert world.equal()
    assert longest <= WINDOW
    sizes = [sum(len(content or b"") for content in batch.contents) for batch in batches(world, "ann")]
    assert max(sizes) <= CHUNK_BYTES


def test_a_slow_peer_makes_new_operations_wait_in_the_store_and_gets_them_all_later() -> None:
    story = Story()
    log = story.log("ann", 400)
    world = two(story, log[:1], log[:1])
    world.settle()
    world.forget()
    for one in log[1:]:
        world.write("ann", one)  # nothing is delivered meanwhile
    assert world.carried()["ann"] < len(log) - 1
    world.settle()
    assert world.equal()
    assert world.carried()["ann"] == len(log) - 1


def test_many_operations_at_once_go_over_each_of_three_links_at_most_once() -> None:
    story = Story()
    log = story.log("ann", 300)
    world = story.world({"ann": [], "bob": [], "cid": []}, ("ann", "bob"), ("bob", "cid"), ("cid", "ann"))
    world.settle()
    world.forget()
    world.write("ann", *log)
    world.settle()
    assert world.equal()
    assert sum(world.carried().values()) <= 3 * len(log)


def test_many_operations_at_once_are_relayed_along_a_chain_without_waiting_for_a_tick() -> None:
    story = Story()
    log = story.log("ann", 200)
    world = story.world({"ann": [], "bob": [], "cid": []}, ("bob", "ann"), ("cid", "bob"))
    world.settle()
    world.forget()
    world.write("ann", *log)
    world.settle()
    assert world.equal()
    assert world.carried() == {"ann": len(log), "bob": len(log)}


# --- joining ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dials", [True, False])
def test_who_does_not_hold_the_document_yet_gets_all_of_it_from_the_peer_that_the_ticket_names(dials: bool) -> None:
    story = Story()
    world = story.world({"ann": story.log("ann", 100)})
    joiner = world.join("bob", ticket="ann")
    world.link(*(("bob", "ann") if dials else ("ann", "bob")))
    world.settle()
    assert joiner.holds() == world["ann"].holds()
    quiet(world)


def test_a_joiner_trusts_the_ticket_s_peer_until_its_own_grant_is_there() -> None:
    """Ann, who serves, was granted late: the first frames do not show yet that she holds a role."""
    scene = Scene("owner")
    early = [scene.write("owner", kind="entry", head=large_head()) for _ in range(40)]
    late = [scene.write("owner", verbs(grant("ann", "admin")))]
    late.append(scene.write("ann", verbs(grant("bob", "read")), proof=late[0]))
    world = World(scene.genesis.document, "ann")
    world.write("ann", scene.genesis, *early, *late)
    world.join("bob", ticket="ann")
    world.link("bob", "ann")
    world.settle()
    assert len(batches(world, "ann")) > 1
    assert world.equal()
    quiet(world)


def large_head() -> bytes:
    """A valid head of 12 KiB; fields that are not known are kept and ignored."""
    return canonical.pack({"at": 1, "branch": None, "later": "x" * 12_000, "parent": None, "type": "message"})
