"""What is on its way is not sent again, what must wait is queued, and a stream begins anew when its piece was cut."""

from __future__ import annotations

from collections.abc import Sequence

from roost.core.ids import PeerKey
from roost.core.operation import Operation
from roost.core.outcome import NewOperation
from roost.core.ranges import Range, Ranges, spans
from roost.core.sending import LIVE_BATCHES_MAX, WINDOW, Read, Sending
from tests.core.model import public
from tests.core.sync_story import Story, ids_in
from tests.core.sync_world import Member, Row


class Shelf:
    """A peer's stored operations, and the sending half of one of its links."""

    def __init__(self, operations: Sequence[Operation], story: Story) -> None:
        self.member = Member("ann", story.genesis.document)
        self.member.admit([*story.start, *operations], None)
        self.sending = Sending(story.genesis.document, self._author_at)

    def _author_at(self, _: object) -> PeerKey:
        return public("ann")

    def new(self, operations: Sequence[Operation]) -> list[NewOperation]:
        return [self.member.index.operations[one.id] for one in operations]

    def ranges(self, operations: Sequence[Operation]) -> list[Range]:
        return spans(new.position for new in self.new(operations))

    def rows(self, read: Read) -> list[Row]:
        return next(self.member.rows(read.ranges, read.bytes_max), [])


def test_what_is_in_flight_is_not_scheduled_again_until_it_is_acknowledged_or_lost() -> None:
    story = Story()
    log = story.log("ann", 6)
    for arrives in (True, False):
        shelf = Shelf(log, story)
        (batch,) = shelf.sending.push(shelf.new(log[:4]))
        shelf.sending.schedule(Ranges(shelf.ranges(log)))
        (read,) = shelf.sending.pump()
        assert list(read.ranges) == shelf.ranges(log[4:])

        if arrives:
            shelf.sending.acknowledged([batch.number])
            assert shelf.sending.read(read.stream, shelf.rows(read))
        else:
            shelf.sending.abandon()
        shelf.sending.schedule(Ranges(shelf.ranges(log[:4])))
        (read,) = shelf.sending.pump()
        assert list(read.ranges) == shelf.ranges(log[:4])


def test_a_batch_that_is_not_acknowledged_for_a_whole_tick_is_lost() -> None:
    story = Story()
    log = story.log("ann", 2)
    shelf = Shelf(log, story)
    shelf.sending.push(shelf.new(log[:1]))
    assert not shelf.sending.tick()
    shelf.sending.push(shelf.new(log[1:]))
    assert shelf.sending.tick()
    assert shelf.sending.busy, "the later batch has time until the next tick"
    assert shelf.sending.tick()
    assert not shelf.sending.busy


def test_new_operations_queue_behind_what_waits_and_follow_it_in_order() -> None:
    story = Story()
    log = story.log("ann", 10)
    shelf = Shelf(log, story)
    shelf.sending.schedule(Ranges(shelf.ranges(log[:8])))
    assert shelf.sending.push(shelf.new(log[8:])) == []
    (read,) = shelf.sending.pump()
    batch = shelf.sending.read(read.stream, shelf.rows(read))
    assert batch is not None
    assert ids_in(batch) == [one.id for one in log]


def test_a_link_with_too_much_in_flight_takes_nothing_new_into_memory() -> None:
    story = Story()
    log = story.log("ann", LIVE_BATCHES_MAX + 10)
    shelf = Shelf(log, story)
    sent = [batch for new in shelf.new(log) for batch in shelf.sending.push([new])]
    assert len(sent) == LIVE_BATCHES_MAX
    assert shelf.sending.pump() == []
    shelf.sending.acknowledged(batch.number for batch in sent[: LIVE_BATCHES_MAX - WINDOW + 1])
    (read,) = shelf.sending.pump()
    assert list(read.ranges) == shelf.ranges(log[LIVE_BATCHES_MAX:])


def test_an_answer_to_a_stream_that_was_given_up_is_ignored() -> None:
    story = Story()
    log = story.log("ann", 3)
    shelf = Shelf(log, story)
    shelf.sending.schedule(Ranges(shelf.ranges(log)))
    (read,) = shelf.sending.pump()
    shelf.sending.abandon()
    assert shelf.sending.read(read.stream, shelf.rows(read)) is None
    assert not shelf.sending.busy


def test_a_stream_whose_operations_are_gone_ends() -> None:
    story = Story()
    log = story.log("ann", 3)
    shelf = Shelf(log, story)
    shelf.sending.schedule(Ranges(shelf.ranges(log)))
    (read,) = shelf.sending.pump()
    assert shelf.sending.read(read.stream, []) is None
    assert not shelf.sending.busy
    assert shelf.sending.pump() == []


def test_what_is_withheld_while_it_is_read_does_not_go_out_and_what_is_withheld_before_is_not_read() -> None:
    story = Story()
    log = story.log("ann", 6)
    shelf = Shelf(log, story)
    places = [new.position for new in shelf.new(log)]
    shelf.sending.schedule(Ranges(shelf.ranges(log)))
    (read,) = shelf.sending.pump()
    shelf.sending.refused(shelf.member.holdings, places[4:5])

    batch = shelf.sending.read(read.stream, shelf.rows(read))

    assert batch is not None
    assert ids_in(batch) == [one.id for one in log[:4]]
    shelf.sending.refused(shelf.member.holdings, places[2:3])
    shelf.sending.abandon()
    shelf.sending.schedule(Ranges(shelf.ranges(log)))
    (read,) = shelf.sending.pump()
    assert list(read.ranges) == shelf.ranges(log[:2])
