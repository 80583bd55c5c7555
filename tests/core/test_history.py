"""Which facts make a change void, and from where on. What follows for the document: test_state.py."""

from __future__ import annotations

from roost.core.edits import EditRecord
from roost.core.graph import Graph, LogKey, Position
from roost.core.heads import Put
from roost.core.history import MADE_BYTES, History, KnownEdit, by_order, seal
from roost.core.ids import LogId, OperationId, PeerKey

ANN, BOB = LogKey(PeerKey(b"a" * 32), LogId(b"1" * 8)), LogKey(PeerKey(b"b" * 32), LogId(b"2" * 8))


class Logs:
    """Ann's log in stretch 0, Bob's in stretch 1, an edit at every seq from 0 to 3."""

    def __init__(self, cached: dict[OperationId, bytes] | None = None) -> None:
        self.graph = Graph(lambda stretch: ())
        for number, log in enumerate((ANN, BOB)):
            self.graph.start(number, log, None, 0).last = 3
        self.history = History(self.graph, lambda position: identity(*position), cached or {})
        self.records = [record(stretch, seq) for stretch in (0, 1) for seq in range(4)]

    def load(self, live: dict[int, int]) -> list[KnownEdit]:
        """Every edit that is live, each with a change, as after a replay."""
        self.history.note(live, self.records)
        edits = self.history.live_edits()
        for edit in edits:
            edit.made = seal(self.history.facts(edit), b"change")
        return edits


def identity(stretch: int, seq: int) -> OperationId:
    return OperationId(bytes([stretch, seq]) * 16)


def record(stretch: int, seq: int, *, readable: bool = True) -> EditRecord:
    """Bob writes right after Ann."""
    log = (ANN, BOB, ANN)[stretch]
    values = (seq,) if readable else None
    time = 10 * seq + stretch
    return EditRecord(identity(stretch, seq), log, Position(stretch, seq), time, (Put("meta", "k"),), values)


def test_live_edits_come_in_the_order_of_time_and_id() -> None:
    edits = Logs().load({0: 3, 1: 1})
    assert [edit.record.position for edit in edits] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (0, 3)]
    assert edits == sorted(edits, key=by_order)


def test_a_content_that_ceases_to_be_readable_voids_its_change_and_all_later_ones_in_the_order() -> None:
    logs = Logs()
    logs.load({0: 3, 1: 3})
    shift = logs.history.note({0: 3, 1: 3}, [record(0, 2, readable=False)])
    assert shift.cut == (20, identity(0, 2))
    assert logs.history.forgotten == {identity(*place) for place in ((0, 2), (1, 2), (0, 3), (1, 3))}


def test_the_same_facts_again_void_nothing() -> None:
    logs = Logs()
    logs.load({0: 3, 1: 3})
    shift = logs.history.note({0: 3, 1: 3}, logs.records)
    assert (shift.fresh, shift.cut, logs.history.forgotten) == ([], None, set())


def test_a_live_fork_voids_changes_from_the_first_sibling_and_a_void_one_none() -> None:
    logs = Logs()
    logs.load({0: 3, 1: 3})
    logs.graph.start(2, ANN, Position(0, 1), 2)
    assert logs.history.note({0: 3, 1: 3}, [record(2, 2)]).cut is None

    shift = logs.history.note({0: 3, 1: 3, 2: 2})

    assert shift.cut == (20, identity(0, 2))
    assert [edit.record.position for edit in shift.fresh] == [(2, 2)]


def test_an_edit_that_was_live_before_it_was_given_voids_what_was_made_without_it() -> None:
    logs = Logs()
    late = logs.records.pop(2)
    logs.load({0: 3, 1: 3})
    assert logs.history.note({0: 3, 1: 3}, [late]).cut == (20, identity(0, 2))


def test_a_late_removal_voids_no_change() -> None:
    logs = Logs()
    for edit in logs.load({0: 3, 1: 3}):
        edit.shown = True
    shift = logs.history.note({0: 1, 1: 3})
    assert (shift.fresh, shift.withdrawn, shift.cut) == ([], True, None)


def test_cached_changes_count_up_to_the_first_that_is_missing_damaged_or_of_other_facts() -> None:
    cached = {edit.record.id: edit.made for edit in Logs().load({0: 3, 1: 3}) if edit.made is not None}
    place = identity(0, 2)
    damaged = bytearray(cached[place])
    damaged[-1] ^= 1
    unread = seal(b"\0" + cached[place][5:MADE_BYTES], b"change")
    other_actor = seal(b"\1" + b"x" * 16, b"change")
    for found in (None, bytes(damaged), b"", unread, other_actor):
        kept = {one: made for one, made in cached.items() if one != place}
        logs = Logs(kept if found is None else {**kept, place: found})
        logs.history.note({0: 3, 1: 3}, logs.records)
        left = {edit.record.position for edit in logs.history.live_edits() if edit.made is not None}
        assert left == {(0, 0), (1, 0), (0, 1), (1, 1)}, found


def test_cached_changes_of_edits_that_are_no_more_are_given_up() -> None:
    logs = Logs({identity(9, 9): seal(b"\1" * 17, b"")})
    logs.history.note({}, logs.records)
    assert logs.history.forgotten == {identity(9, 9)}
