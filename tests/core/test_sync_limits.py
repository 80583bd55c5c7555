"""What a peer holds back, waits for, owes and does not tell; and what comes of frames that no honest peer sends."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from roost.core import sync, wire
from roost.core.errors import NotAReader
from roost.core.have import LogTips, Tip
from roost.core.ids import OperationId
from roost.core.operation import Operation, create, verify
from roost.core.parked import PARKED_MAX
from roost.core.sync import FAULTS_MAX
from tests.core.model import NOW, genesis, grant, key_of, public, redact, verbs
from tests.core.sync_story import Story, batches, ids, ids_in, quiet, two
from tests.core.sync_world import World

HOUR = 3600 * 1_000_000


# --- held back --------------------------------------------------------------------------------------------------------


def test_what_jumps_ahead_is_withheld_with_its_descendants_and_not_sent_again_in_40_rounds() -> None:
    """A sender with a fast clock offered the same operations in every round."""
    story = Story()
    jumps = story.write("ann", proof=story.granted, time=NOW + 30 * HOUR)
    after = story.write("bob", after=[jumps], proof=story.granted)
    honest = story.write("cid", proof=story.granted)
    world = two(story, [], [])
    world.settle()
    world["ann"].now = NOW + 30 * HOUR
    world.write("ann", jumps)
    world.write("ann", after, honest)
    world.settle()
    assert world["ann"].told_to_wait == [jumps.id]
    assert world["bob"].holds() == ids([*story.start, honest])
    world.forget()

    for _ in range(40):
        world.tick()
    assert world.carried() == {}

    for member in world.members.values():
        member.now += 7 * HOUR
    world.tick()
    world.tick()
    assert world.equal()


def test_what_descends_from_something_withheld_is_held_back_whenever_it_is_written() -> None:
    story = Story()
    jumps = story.write("ann", proof=story.granted, time=NOW + 30 * HOUR)
    world = two(story, [], [])
    world.settle()
    world["ann"].now = NOW + 30 * HOUR
    world.write("ann", jumps)
    world.settle()
    world.forget()
    world.write("ann", story.write("ann"), story.write("bob", after=[jumps], proof=story.granted))
    world.settle()
    assert world.carried() == {}


def test_what_is_refused_is_never_sent_again_on_that_link_and_what_does_not_descend_from_it_is() -> None:
    story = Story()
    bad, child = story.log("ann", 2)
    dependent = story.write("bob", after=[child], proof=story.granted)
    world = two(story, [bad, child, dependent], [])
    world["bob"].refuses.add(bad.id)
    world.settle()
    world.forget()
    for _ in range(20):
        world.tick()
    world.write("ann", story.write("cid", proof=story.granted))
    world.settle()
    assert world.carried() == {"ann": 1}
    assert world["bob"].holds() == ids([*story.start, story.operations[-1]])


# --- parked -----------------------------------------------------------------------------------------------------------


def push(world: World, *operations: Operation) -> None:
    """Ann sends bob a batch that her own peer would not."""
    message = wire.Operations.of(world["bob"].id, 999, operations)
    world.event(world["bob"], "ann", sync.Received(message, NOW))


def test_a_child_before_its_parent_waits_and_is_taken_when_the_parent_comes_over_any_link() -> None:
    story = Story()
    log = story.log("cid", 3)
    world = story.world({"ann": [], "bob": [], "cid": []}, ("ann", "bob"), ("cid", "bob"))
    world.settle()
    push(world, log[1], log[2])
    assert world["bob"].machines["ann"].parked == 2
    assert world["bob"].holds() == ids(story.start)

    world.write("cid", log[0])
    world.settle()

    assert ids(log) <= world["bob"].holds()
    assert world["bob"].machines["ann"].parked == 0


def test_a_missing_parent_that_was_lost_on_the_way_is_found_at_the_next_tick() -> None:
    story = Story()
    log = story.log("ann", 3)
    world = two(story, log[:1], log[:1])
    world.settle()
    push(world, log[2])
    assert world["bob"].machines["ann"].parked == 1
    world["ann"].machines.pop("bob").close()
    world.write("ann", *log[1:])
    world.link("ann", "bob")
    world.settle()
    assert world.equal()


def test_what_is_parked_is_in_no_have_and_bounded() -> None:
    story = Story()
    log = story.log("cid", PARKED_MAX + 50)
    world = two(story, [], [])
    world.settle()
    digest = world["bob"].holdings.digest()
    push(world, *log[1:])
    assert world["bob"].machines["ann"].parked == PARKED_MAX
    assert world["bob"].spaces["ann"].operations == PARKED_MAX
    assert world["bob"].holdings.digest() == digest


# --- authenticity -----------------------------------------------------------------------------------------------------


def test_a_falsely_signed_operation_is_parked_until_its_author_follows_it_and_then_travels_on() -> None:
    """Who got x alone refused it and parked y for ever; who got both in one frame had both."""
    story = Story()
    x, y = story.log("mal", 2)
    false = replace(x, signature=bytes(64))
    world = story.world({"ann": [], "bob": [], "cid": []}, ("ann", "bob"), ("bob", "cid"))
    world.settle()

    push(world, false)
    assert world["bob"].holds() == ids(story.start)
    assert world["bob"].machines["ann"].parked == 1
    push(world, y)

    assert ids([x, y]) <= world["bob"].holds()
    stored = {new.operation.id: new for new in world["bob"].index.operations.values()}
    assert (stored[x.id].verified, stored[y.id].verified) == (False, True)
    world.until_equal()
    quiet(world)


def test_a_forged_operation_is_stored_nowhere_and_the_true_one_is_taken_when_it_comes() -> None:
    story = Story()
    (said,) = story.log("ann", 1)
    world = two(story, [], [])
    world.settle()
    push(world, replace(said, signature=bytes(64)))
    assert world["bob"].holds() == ids(story.start)
    world.write("ann", said)
    world.settle()
    assert world.equal()


def test_a_relay_cuts_a_log_only_where_it_has_verified_the_signature_itself() -> None:
    story = Story()
    log = story.long("mal", [bytes(20_000)] * 30)
    false = [replace(one, signature=bytes(64)) if number % 10 != 9 else one for number, one in enumerate(log)]
    world = story.world({"ann": [], "bob": [], "cid": []}, ("ann", "bob"))
    world.settle()
    for at in range(0, 30, 10):
        push(world, *false[at : at + 10])
    assert ids(log) <= world["bob"].holds()

    world.link("cid", "bob")
    world.settle()

    assert world["cid"].holds() == world["bob"].holds()
    sent = batches(world, "bob")
    assert len(sent) > 1
    by_id = {one.id: one for one in [*false, *story.start]}
    for batch in sent:
        verify(by_id[ids_in(batch)[-1]])


# --- contents ---------------------------------------------------------------------------------------------------------


def lacking(story: Story, said: Operation) -> World:
    """Ann and bob hold an entry without its content; cid holds all."""
    world = story.world({"ann": [], "bob": [], "cid": [said]}, ("ann", "bob"))
    bare = said.without_content()
    world.write("ann", bare)
    world.settle()
    assert world["bob"].content(said.id) is None
    return world


def test_an_absent_content_is_asked_for_once_and_owed_while_the_link_lives() -> None:
    story = Story()
    (said,) = story.log("cid", 1)
    world = lacking(story, said)
    for _ in range(3):
        world.tick()
    asked = [(sender, kind) for sender, _, kind in world.said() if kind == "WantContents"]
    assert sorted(asked) == [("ann", "WantContents"), ("bob", "WantContents")]

    world.link("ann", "cid")
    world.settle()

    assert world["ann"].content(said.id) == said.content
    assert world["bob"].content(said.id) == said.content


def test_an_erased_content_is_neither_given_nor_asked_for() -> None:
    story = Story()
    (said,) = story.log("cid", 1)
    erasing = story.write("cid", redact(said), kind="redact")
    world = story.world({"ann": [], "bob": []}, ("ann", "bob"))
    world.settle()
    world["ann"].erased.add(said.id)
    world["bob"].erased.add(said.id)
    world.write("ann", said.without_content(absence=erasing.id))
    world.settle()
    assert said.id in world["bob"].holds()
    assert "WantContents" not in {kind for _, _, kind in world.said()}

    world.event(world["ann"], "bob", sync.Received(wire.WantContents(world["ann"].id, (said.id,)), NOW))
    assert "Contents" not in {kind for _, _, kind in world.said()}


def test_contents_that_nobody_asked_for_are_thrown_away() -> None:
    story = Story()
    world = two(story, [], [])
    world.settle()
    message = wire.Contents(world["bob"].id, ((OperationId(b"x" * 32), b"surprise"),))
    assert world["bob"].machines["ann"].handle(sync.Received(message, NOW)) == []


# --- access -----------------------------------------------------------------------------------------------------------


def sent_to(world: World, name: str) -> list[wire.Message]:
    return [message for _, receiver, message in world.sent if receiver == name]


def test_who_holds_no_role_is_told_nothing_and_nothing_is_taken_from_them() -> None:
    story = Story()
    log = story.log("ann", 2)
    world = story.world({"ann": log[:1]})
    stranger = world.join("eve", ticket="ann")
    world.link("eve", "ann")
    world.settle()
    world.write("ann", log[1])
    world.event(world["ann"], "eve", sync.Received(wire.Operations.of(stranger.id, 1, story.log("mal", 1)), NOW))
    world.settle()
    for _ in range(3):
        world.tick()

    assert {type(message) for message in sent_to(world, "eve")} == {wire.Error}
    assert world["ann"].holds() == ids([*story.start, *log])
    assert set(stranger.rejected) == {NotAReader.code}
    assert stranger.holds() == set()


def test_every_question_of_a_stranger_gets_the_same_answer() -> None:
    story = Story()
    world = story.world({"ann": story.log("ann", 2)})
    stranger = world.join("eve", ticket="ann")
    world.link("eve", "ann")
    world.forget()
    tip = LogTips(public("ann"), story.operations[-1].log, (Tip(1, story.operations[-1].id),))
    for message in (
        wire.Digest(stranger.id, 1, 0, bytes(32)),
        wire.Have(stranger.id, 1, 1, 0, 1, (tip,)),
        wire.Compare(stranger.id, 1, 2, 0, 1, (tip,)),
        wire.WantContents(stranger.id, (story.operations[-1].id,)),
        wire.Operations.of(stranger.id, 1, []),
        wire.Contents(stranger.id, ()),
    ):
        world.event(world["ann"], "eve", sync.Received(message, NOW))
    assert sent_to(world, "eve") == [wire.Error(stranger.id, NotAReader.code, "")] * 6


def test_a_removed_reader_gets_no_further_frame() -> None:
    story = Story()
    log = story.log("ann", 2)
    world = two(story, log[:1], log[:1])
    world.settle()
    world.forget()

    world.write("ann", story.write("owner", verbs(revoke=["bob"])))
    world.write("ann", log[1])
    for _ in range(3):
        world.tick()

    assert not [one for one in sent_to(world, "bob") if not isinstance(one, wire.Error)]
    assert log[1].id not in world["bob"].holds()


def test_a_reader_removed_in_the_middle_of_a_transfer_gets_no_further_piece() -> None:
    story = Story()
    log = story.long("ann", [bytes([number]) * 100_000 for number in range(40)])
    world = two(story, log, [])
    while len(batches(world, "ann")) < 5:
        world.deliver(1)
    world.write("ann", story.write("owner", verbs(revoke=["bob"])))
    sent = len(batches(world, "ann"))
    world.settle()
    world.tick()
    assert len(batches(world, "ann")) == sent
    assert len(world["bob"].holds()) < len(log)


def test_sharing_begins_as_soon_as_a_role_is_granted() -> None:
    story = Story()
    log = story.log("ann", 3)
    world = story.world({"ann": log})
    joiner = world.join("eve", ticket="ann")
    world.link("eve", "ann")
    world.settle()
    assert joiner.holds() == set()

    world.write("ann", story.write("owner", verbs(grant("eve", "write"))))
    world.settle()

    assert joiner.holds() == world["ann"].holds()


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_operations_of_another_document_are_refused_and_the_rest_of_the_frame_is_taken() -> None:
    story = Story()
    world = two(story, [], [])
    world.settle()
    (said,) = story.log("ann", 1)
    elsewhere = genesis("mal")
    other = create(
        key_of("mal"), document=elsewhere.document, log=said.log, seq=0, backlink=None, deps=(elsewhere.id,),
        proof=elsewhere.id, kind="join", time=said.time, head_bytes=b"\x80",
    )  # fmt: skip
    push(world, other, said)
    assert said.id in world["bob"].holds()
    refusals = [message for message in sent_to(world, "ann") if isinstance(message, wire.Refuse)]
    assert refusals == [wire.Refuse(world["bob"].id, (wire.Refusal(other.id, "wrong_document"),))]


def test_a_peer_that_keeps_sending_what_no_honest_peer_sends_loses_the_link() -> None:
    story = Story()
    (said,) = story.log("ann", 1)
    world = two(story, [], [])
    world.settle()
    bad = replace(said, head_bytes=b"\x80")
    for _ in range(FAULTS_MAX):
        push(world, bad)
    assert world["bob"].closed == []
    push(world, bad)
    assert world["bob"].closed == ["malformed"]
    assert world["bob"].holds() == ids(story.start)


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_a_turn_that_is_not_due_is_ignored(name: str) -> None:
    story = Story()
    log = story.log("ann", 3)
    world = two(story, log, log)
    world.settle()
    last = next(message.round for _, _, message in reversed(world.sent) if isinstance(message, wire.Digest))
    world.forget()
    member, peer = world[name], "bob" if name == "ann" else "ann"
    tips = (LogTips(public("mal"), log[0].log, (Tip(9, OperationId(b"?" * 32)),)),)
    named = (wire.LogIds(public("ann"), log[0].log, (log[0].id,)),)
    for step in range(8):
        for message in (
            wire.Compare(member.id, last, step, 0, 1, tips, named, named, named, named),
            wire.Have(member.id, last, step, 0, 1, tips),
            wire.AskHave(member.id, last, step, 0, 1, (public("ann"),)),
            wire.AuthorDigests(member.id, last, step, 0, 1, ((public("ann"), bytes(32)),)),
        ):
            world.event(member, peer, sync.Received(message, NOW))
    assert world.said() == []


def test_ids_that_belong_to_another_log_prove_nothing() -> None:
    """Who names an operation of one log as the tip of another would make a peer believe that it holds both."""
    story = Story()
    log, other = story.log("ann", 3), story.log("cid", 2)
    world = two(story, [*log, *other], [])
    while not any(isinstance(message, wire.Digest) and one == "ann" for one, _, message in world.sent):
        world.deliver(1)
    number = next(message.round for _, _, message in reversed(world.sent) if isinstance(message, wire.Digest))
    lie = (LogTips(public("cid"), other[0].log, (Tip(1, log[1].id),)),)
    world.event(world["ann"], "bob", sync.Received(wire.Have(world["ann"].id, number, 1, 0, 1, lie), NOW))
    world.until_equal()
