"""What every store must do, whatever it is kept on. The same suite runs over a file and over memory."""

from __future__ import annotations

import os

import pytest

from roost.adapters.store.reader import Reader
from roost.adapters.store.records import (
    CONTENT_HELD,
    Batch,
    CachedChange,
    LocalRow,
    OrderKey,
    Row,
)
from roost.adapters.store.rows import Columns, origin_hash
from roost.adapters.store.store import Store
from roost.core import operation
from roost.core.errors import Conflict
from roost.core.graph import Position
from roost.core.heads import Origin
from roost.core.ids import DocumentId, OperationId
from tests.adapters.store_kit import Author, ids

EVERYTHING = 1 << 53


def ids_of(rows: list[Row]) -> list[OperationId]:
    return [row.operation.id for row in rows]


# --- what goes in comes out -------------------------------------------------------------------------------------------


async def test_a_stored_operation_comes_back_byte_for_byte(store: Store, alice: Author) -> None:
    entry = alice.entry("hello")
    committed = await store.commit(alice.batch([entry]))

    row = store.reader.operation(entry.operation.id)

    assert row is not None
    assert row.operation == entry.operation
    assert (row.position, row.group, row.accepted, row.verified, row.local) == (entry.position, 0, True, True, True)
    assert (row.cursor, row.content_state) == (committed.last_cursor, CONTENT_HELD)


async def test_an_operation_that_is_not_stored_is_not_found(store: Store, alice: Author) -> None:
    strange = OperationId(b"?" * 32)
    assert store.reader.operation(strange) is None
    assert store.reader.index(alice.document).find(strange) is None
    assert store.reader.index(DocumentId(strange)).find(alice.last.operation.id) is None
    assert store.reader.document(DocumentId(strange)) is None
    assert store.reader.entries(DocumentId(strange), limit=5) == []


async def test_a_document_row_counts_its_operations(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry("one"), alice.entry("two", accepted=False), alice.edit()]))

    row = store.reader.document(alice.document)

    assert row is not None
    assert (row.operations, row.entries, row.void) == (4, 1, 1)
    assert row.heads == (alice.last.operation.id,)
    assert row.updated == alice.last.arrived
    assert row.last_cursor == store.reader.last_cursor() == 4
    assert store.reader.documents() == [row]


async def test_documents_are_found_by_the_origin_in_their_genesis(store: Store) -> None:
    imported, other = Author(1, origin="pi:abc"), Author(2)
    await store.commit(imported.begin())
    await store.commit(other.begin())

    assert [row.id for row in store.reader.documents_by_origin("pi:abc")] == [imported.document]
    assert store.reader.documents_by_origin("pi:abd") == []


async def test_opening_a_document_gives_back_its_stretches_groups_and_access_operations(
    store: Store, alice: Author
) -> None:
    bob = Author(2, joins=alice)
    merge = bob.entry("hi")
    revoke = alice.revoke(bob.key.public)
    await store.commit(alice.batch([revoke]))
    await store.commit(bob.batch([merge]))

    assert store.reader.stretches(alice.document) == [alice.stretch(), bob.stretch()]
    assert [(row.number, row.author) for row in store.reader.groups(alice.document)] == [
        (0, alice.key.public),
        (1, bob.key.public),
    ]
    assert store.reader.access_operations(alice.document) == [revoke]
    assert not store.reader.has_redactions(alice.document)


async def test_a_stretch_follows_its_last_operation_and_keeps_what_is_not_live(store: Store, alice: Author) -> None:
    for text in ("one", "two"):
        await store.commit(alice.batch([alice.entry(text)]))
    (row,) = store.reader.stretches(alice.document)
    assert (row.last, row.live) == (2, 2)

    batch = alice.batch([alice.entry("void", accepted=False)])
    batch.stretches = [type(row)(row.document, row.number, row.log, None, 0, 3, 2, ((0, 0), (3, 7)), 3, 99)]
    await store.commit(batch)

    assert store.reader.stretches(alice.document) == batch.stretches


async def test_the_core_finds_positions_merges_and_redactions(store: Store, alice: Author) -> None:
    bob = Author(2, joins=alice)
    hi = bob.entry("hi")
    answer = alice.entry("answer", deps=[hi])
    redact = alice.redact(answer.operation.id)
    await store.commit(bob.batch([hi]))
    await store.commit(alice.batch([answer, redact]))

    index = store.reader.index(alice.document)

    found = index.find(answer.operation.id)
    assert found == (answer.position, answer.operation.time, 0, "entry", alice.key.public)
    assert index.id_at(redact.position) == redact.operation.id
    assert list(index.merges(0)) == [(1, (hi.position,))]
    assert list(index.merges(1)) == [(0, (alice.operations[0].position,))]
    assert index.redactions_of(answer.operation.id) == [redact.operation.id]
    assert store.reader.has_redactions(alice.document)
    with pytest.raises(LookupError):
        index.id_at(Position(0, 99))


async def test_a_frame_looks_things_up_in_one_snapshot(store: Store, alice: Author) -> None:
    with store.reader.snapshot():
        assert store.reader.operation(alice.last.operation.id) is not None
    await store.commit(alice.batch([alice.entry()]))
    with store.reader.snapshot():
        assert store.reader.operation(alice.last.operation.id) is not None


async def test_ids_are_found_by_their_first_digits(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(40)]))
    wanted = alice.operations[7].operation.id

    assert store.reader.find_prefix(alice.document, wanted.hex()[:9]) == [wanted]
    assert store.reader.find_prefix(alice.document, wanted.hex()) == [wanted]
    same = [found for found in ids(alice.operations) if found.hex()[0] == wanted.hex()[0]]
    assert store.reader.find_prefix(alice.document, wanted.hex()[:1]) == sorted(same)[: len(same)]
    assert store.reader.find_prefix(DocumentId(b"?" * 32), wanted.hex()) == []


async def test_a_range_of_a_stretch_is_read_by_seq(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(9)]))

    between = store.reader.operations_between(alice.document, 0, 3, 7, limit=3)
    assert [row.position.seq for row in between] == [3, 4, 5]
    assert store.reader.ids_between(alice.document, 0, 8, 20) == list(
        zip((8, 9), ids(alice.operations)[8:], strict=True)
    )
    at = store.reader.operations_at(alice.document, [Position(0, 4), Position(5, 5), Position(0, 2)])
    assert [row.position.seq for row in at] == [4, 2]


async def test_an_idempotency_key_belongs_to_its_author(store: Store, alice: Author) -> None:
    bob = Author(2, joins=alice)
    mine, theirs = alice.entry("a", key="k"), bob.entry("b", key="k")
    await store.commit(alice.batch([mine]))
    await store.commit(bob.batch([theirs]))

    assert ids_of(store.reader.by_key(alice.document, alice.key.public, "k")) == [mine.operation.id]
    assert ids_of(store.reader.by_key(alice.document, bob.key.public, "k")) == [theirs.operation.id]
    assert store.reader.by_key(alice.document, bob.key.public, "other") == []


async def test_imported_lines_are_found_by_their_origin(store: Store, alice: Author) -> None:
    origins = [Origin("pi", "session", str(number)) for number in range(3)]
    lines = [alice.entry("line", origin=origin) for origin in origins[:2]]
    await store.commit(alice.batch(lines))

    found = store.reader.by_origin(alice.document, [origin_hash(origin) for origin in origins])

    assert [(line.operation, line.accepted) for line in found] == [(new.operation.id, True) for new in lines]


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_entries_are_listed_in_the_total_order_and_by_branch(store: Store, alice: Author) -> None:
    bob = Author(2, joins=alice)
    first = [alice.entry("one"), bob.entry("two"), alice.entry("three")]
    opening = alice.entry("aside", branch="new")
    inside = alice.entry("more", branch=opening.operation.id)
    hidden = alice.entry("void", accepted=False)
    await store.commit(bob.batch([first[1]]))
    await store.commit(alice.batch([first[0], first[2], opening, inside, hidden, alice.edit()]))
    ordered = sorted([*first, opening, inside], key=lambda new: (new.operation.time, new.operation.id))

    reader, document = store.reader, alice.document
    assert ids_of(reader.entries(document, limit=9)) == ids(ordered)
    assert ids_of(reader.entries(document, limit=9, newest_first=True)) == ids(ordered)[::-1]
    assert set(ids_of(reader.entries(document, b"", limit=9))) == set(ids(first))
    assert ids_of(reader.entries(document, opening.operation.id, limit=9)) == ids([opening, inside])
    assert [(branch.id, branch.entries) for branch in reader.branches(document)] == [
        (b"", 3),
        (opening.operation.id, 2),
    ]


@pytest.mark.parametrize("branch", [b"", None])
async def test_pages_of_entries_join_without_gap_or_overlap(store: Store, alice: Author, branch: bytes | None) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(10)]))
    backward: list[OperationId] = []
    forward: list[OperationId] = []
    before = after = None

    while page := store.reader.entries(alice.document, branch, before=before, limit=3, newest_first=True):
        backward += ids_of(page)
        before = OrderKey(page[-1].operation.time, page[-1].operation.id)
    while page := store.reader.entries(alice.document, branch, after=after, limit=4):
        forward += ids_of(page)
        after = OrderKey(page[-1].operation.time, page[-1].operation.id)

    assert forward == ids(alice.operations[1:]) == backward[::-1]


async def test_what_another_peer_lacks_comes_in_the_total_order_and_in_bounded_parts(
    store: Store, alice: Author
) -> None:
    bob = Author(2, joins=alice)
    await store.commit(alice.batch([alice.entry("x" * 900) for _ in range(20)]))
    await store.commit(bob.batch([bob.entry("y" * 900) for _ in range(20)]))
    wanted = [new for new in alice.operations if new.position.seq >= 3] + bob.operations[:11]

    parts = list(store.reader.missing(alice.document, [(0, 3, EVERYTHING), (1, 0, 10)], 5000))

    assert len(parts) > 5
    assert all(sum(item.size for item in part) <= 5000 for part in parts)
    sent = [item for part in parts for item in part]
    assert [item.id for item in sent] == ids(sorted(wanted, key=lambda new: (new.operation.time, new.operation.id)))
    first = operation.decode(sent[0].header_bytes, sent[0].signature, sent[0].head_bytes, sent[0].content)
    assert first.id == sent[0].id
    assert list(store.reader.missing(alice.document, [], 5000)) == []


async def test_an_operation_larger_than_a_part_is_sent_alone(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry("x" * 3000) for _ in range(3)]))
    parts = store.reader.missing(alice.document, [(0, 1, 3)], 100)
    assert [[item.id for item in part] for part in parts] == [[found] for found in ids(alice.operations[1:])]


async def test_edits_come_with_the_changes_made_for_them(store: Store, alice: Author) -> None:
    edits = [alice.edit(str(number)) for number in range(40)]
    batch = alice.batch([*edits, alice.entry()])
    batch.changes = [CachedChange(edit.operation.id, b"change" + edit.operation.id) for edit in edits]
    await store.commit(batch)

    rows = store.reader.edits(alice.document, limit=100)

    assert [row.id for row in rows] == ids(edits)
    assert all(row.change == b"change" + row.id and row.accepted for row in rows)
    later = store.reader.edits(alice.document, after=OrderKey(rows[5].time, rows[5].id), limit=2)
    assert later == rows[6:8]


async def test_forgetting_changes_forgets_those_named(store: Store, alice: Author) -> None:
    edits = [alice.edit(str(number)) for number in range(5)]
    batch = alice.batch(edits)
    batch.changes = [CachedChange(edit.operation.id, b"change") for edit in edits]
    await store.commit(batch)

    await store.commit(Batch(forget_changes=[edit.operation.id for edit in edits[2:]]))

    kept = [row.change is not None for row in store.reader.edits(alice.document, limit=9)]
    assert kept == [True, True, False, False, False]


async def test_other_kinds_are_listed_by_kind(store: Store, alice: Author) -> None:
    edit, redact = alice.edit(), alice.redact(OperationId(b"t" * 32))
    await store.commit(alice.batch([edit, redact, alice.entry()]))
    assert ids_of(store.reader.of_kind(alice.document, "redact", limit=5)) == [redact.operation.id]
    assert ids_of(store.reader.of_kind(alice.document, "edit", limit=5)) == [edit.operation.id]


# --- this peer's own tables -------------------------------------------------------------------------------------------


async def test_local_rows_are_put_replaced_and_deleted(store: Store) -> None:
    await store.commit(Batch(local=[LocalRow("names", b"b", b"2"), LocalRow("names", b"a", b"1")]))
    await store.commit(Batch(local=[LocalRow("names", b"a", b"3"), LocalRow("other", b"a", b"4")]))
    assert store.reader.local_all("names") == [(b"a", b"3"), (b"b", b"2")]

    await store.commit(Batch(local=[LocalRow("names", b"a", None), LocalRow("names", b"none", None)]))
    assert store.reader.local("names", b"a") is None
    assert store.reader.local("other", b"a") == b"4"


async def test_a_row_that_must_be_new_is_refused_the_second_time(store: Store) -> None:
    row = LocalRow("names", b"demo", b"1", unless_exists=True)
    await store.commit(Batch(local=[row]))
    with pytest.raises(Conflict):
        await store.commit(Batch(local=[row]))


# --- cost -------------------------------------------------------------------------------------------------------------


async def test_no_look_up_goes_through_all_operations(store: Store, alice: Author) -> None:
    """SQLite explains each query, so that an index that no longer fits shows here, not at 100,000 entries."""
    asked: list[str] = []
    plans = Explaining(store.reader, asked)
    strange = OperationId(os.urandom(32))
    plans.document(alice.document)
    plans.documents_by_origin("pi:x")
    plans.stretches(alice.document)
    plans.access_operations(alice.document)
    plans.has_redactions(alice.document)
    index = plans.index(alice.document)
    index.find(alice.last.operation.id)
    index.id_at(Position(0, 0))
    list(index.merges(0))
    index.redactions_of(strange)
    plans.find_prefix(alice.document, "ab")
    plans.operations_between(alice.document, 0, 0, 9)
    plans.by_key(alice.document, alice.key.public, "k")
    plans.by_origin(alice.document, [b"o" * 16])
    for newest_first in (True, False):
        plans.entries(alice.document, b"", limit=5, newest_first=newest_first)
        plans.entries(alice.document, limit=5, newest_first=newest_first)
    plans.branches(alice.document)
    plans.edits(alice.document, limit=5)
    plans.of_kind(alice.document, "claim", limit=5)
    plans.absent_contents(alice.document, 5)
    list(plans.missing(alice.document, [(0, 0, 9)], 1000))
    plans.notices(0, 5, alice.document)
    plans.last_cursor()
    plans.local("names", b"k")

    assert len(asked) > 25
    assert [plan for plan in asked if "SCAN" in plan and "CONSTANT ROW" not in plan and "json_each" not in plan] == []


async def test_the_stream_of_one_document_is_read_from_the_cursor_on(store: Store, alice: Author) -> None:
    """An index of the document alone would lead through all that it holds, at every commit."""
    asked: list[str] = []
    Explaining(store.reader, asked).notices(0, 5, alice.document)

    steps = [plan.partition(":")[0] for plan in asked if plan.startswith(("SEARCH operations", "SEARCH notices"))]
    assert len(steps) == 3
    assert [step for step in steps if "rowid" not in step] == []


class Explaining(Reader):
    """A reader that also notes how SQLite carries each query out."""

    def __init__(self, reader: Reader, plans: list[str]) -> None:
        super().__init__(reader.connection)
        self._plans = plans

    def rows(self, query: str, *parameters: int | str | bytes | None) -> list[Columns]:
        self._plans += [f"{row[3]}: {query}" for row in super().rows(f"EXPLAIN QUERY PLAN {query}", *parameters)]
        return super().rows(query, *parameters)
