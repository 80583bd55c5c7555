"""What a commit does, and what it does when it fails. The same suite runs over a file and over memory."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from roost.adapters.store.reader import Reader
from roost.adapters.store.records import (
    CONTENT_ABSENT,
    CONTENT_ERASED,
    CONTENT_HELD,
    Batch,
    CachedChange,
    Committed,
    Content,
    DocumentState,
    Erase,
    LocalRow,
    Row,
)
from roost.adapters.store.store import MemoryDisk, Store
from roost.core import operation
from roost.core.errors import Conflict, NotFound, RoostError, StoreFailed, Unverified
from roost.core.ids import OperationId
from roost.core.outcome import Verdict
from tests.adapters.store_kit import Author, absent, ids

EVERYTHING = 1 << 53


def ids_of(rows: list[Row]) -> list[OperationId]:
    return [row.operation.id for row in rows]


# --- verdicts ---------------------------------------------------------------------------------------------------------


async def test_a_verdict_withdraws_what_lies_above_its_limit(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(6)]))

    committed = await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, 3)]))

    assert committed.withdrawn == tuple(ids(alice.operations[4:]))
    assert ids_of(store.reader.entries(alice.document, limit=9)) == ids(alice.operations[1:4])
    row = store.reader.document(alice.document)
    assert row is not None
    assert (row.operations, row.entries, row.void) == (7, 3, 3)


async def test_a_verdict_restores_and_says_so(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(6)]))
    await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, 1)]))

    committed = await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, EVERYTHING)]))

    assert committed.restored == tuple(ids(alice.operations[2:]))
    assert committed.withdrawn == ()
    row = store.reader.document(alice.document)
    assert row is not None
    assert (row.entries, row.void) == (6, 0)


async def test_a_verdict_admits_and_excepts_single_operations(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(6)]))
    await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, 2, admitted=(5,), but_not=(1,))]))
    accepted = [row.position.seq for row in store.reader.entries(alice.document, limit=9)]
    assert accepted == [2, 5]

    committed = await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, 2, admitted=(4,))]))
    assert committed.restored == tuple(ids([alice.operations[1], alice.operations[4]]))
    assert committed.withdrawn == (alice.operations[5].operation.id,)


async def test_a_verdict_leaves_other_groups_and_stretches_alone(store: Store, alice: Author) -> None:
    bob = Author(2, joins=alice)
    await store.commit(bob.batch([bob.entry("hi")]))
    assert (await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 1, -1)]))).withdrawn == ()
    assert (await store.commit(Batch(verdicts=[Verdict(alice.document, 1, 0, -1)]))).withdrawn == ()
    assert (await store.commit(Batch(verdicts=[Verdict(alice.document, 1, 1, -1)]))).withdrawn == tuple(
        ids(bob.operations)
    )


# --- contents ---------------------------------------------------------------------------------------------------------


async def test_an_erased_content_is_gone_and_the_operation_still_verifies(store: Store, alice: Author) -> None:
    secret, redact = alice.edit("secret"), None
    batch = alice.batch([secret])
    batch.changes = [CachedChange(secret.operation.id, b"change with secret")]
    await store.commit(batch)
    redact = alice.redact(secret.operation.id)
    batch = alice.batch([redact])
    batch.erasures = [Erase(secret.operation.id, redact.operation.id)]
    await store.commit(batch)

    row = store.reader.operation(secret.operation.id)

    assert row is not None
    assert (row.operation.content, row.content_state) == (None, CONTENT_ERASED)
    assert row.operation.absence == redact.operation.id
    operation.verify(row.operation)
    assert store.reader.edits(alice.document, limit=1)[0].change is None


async def test_an_absent_content_is_listed_until_it_comes(store: Store, alice: Author) -> None:
    entry = alice.entry("late")
    await store.commit(alice.batch([absent(entry)]))
    row = store.reader.operation(entry.operation.id)
    assert row is not None
    assert row.content_state == CONTENT_ABSENT
    assert store.reader.absent_contents(alice.document, 9) == [entry.operation.id]

    await store.commit(Batch(contents=[Content(entry.operation.id, b"late")]))

    row = store.reader.operation(entry.operation.id)
    assert row is not None
    assert (row.operation, row.content_state) == (entry.operation, CONTENT_HELD)
    assert store.reader.absent_contents(alice.document, 9) == []


async def test_a_content_that_comes_after_its_erasure_is_thrown_away(store: Store, alice: Author) -> None:
    entry = alice.entry("late")
    await store.commit(alice.batch([absent(entry)]))
    redact = alice.redact(entry.operation.id)
    await store.commit(Batch(erasures=[Erase(entry.operation.id, redact.operation.id)]))

    committed = await store.commit(Batch(contents=[Content(entry.operation.id, b"late")]))

    assert committed.last_cursor < committed.first_cursor
    row = store.reader.operation(entry.operation.id)
    assert row is not None
    assert row.operation.content is None


async def test_what_is_sent_of_an_absent_content_is_its_hash_and_the_reason(store: Store, alice: Author) -> None:
    entry = alice.entry("secret")
    await store.commit(alice.batch([entry]))
    await store.commit(Batch(erasures=[Erase(entry.operation.id, OperationId(b"r" * 32))]))

    ((item,),) = store.reader.missing(alice.document, [(0, 1, 1)], 1000)

    assert (item.content, item.content_hash, item.absence) == (None, entry.operation.content_hash, b"r" * 32)


# --- the notification stream ------------------------------------------------------------------------------------------


async def test_one_stream_tells_everything_in_the_order_of_the_commits(store: Store, alice: Author) -> None:
    one, two = alice.entry("one"), alice.entry("two", accepted=False)
    late = alice.entry("late")
    await store.commit(alice.batch([one, two, absent(late)]))
    await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, 1, admitted=(2,))]))
    await store.commit(Batch(contents=[Content(late.operation.id, b"late")]))
    await store.commit(Batch(erasures=[Erase(one.operation.id, OperationId(b"r" * 32))]))

    told = store.reader.notices(1, 99)

    assert [(notice.what, notice.operation) for notice in told] == [
        ("accepted", one.operation.id),
        ("accepted", two.operation.id),  # by now
        ("withdrawn", late.operation.id),
        ("restored", two.operation.id),
        ("content", late.operation.id),
        ("erased", one.operation.id),
    ]
    cursors = [notice.cursor for notice in told]
    assert cursors == sorted(set(cursors))
    assert cursors[-1] == store.reader.last_cursor()
    assert [notice.local for notice in told] == [True, True, False, True, False, True]


async def test_the_stream_resumes_at_any_cursor_and_for_one_document(store: Store, alice: Author) -> None:
    other = Author(2)
    await store.commit(other.begin())
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(5)]))
    await store.commit(Batch(verdicts=[Verdict(alice.document, 0, 0, 4)]))
    every = store.reader.notices(0, 99)

    pieces, after = [], 0
    while piece := store.reader.notices(after, 2):
        pieces += piece
        after = piece[-1].cursor
    assert pieces == every
    assert [notice.operation for notice in store.reader.notices(0, 99, other.document)] == ids(other.operations)


async def test_a_commit_is_announced_before_whoever_waits_goes_on(store: Store, alice: Author) -> None:
    told: list[Committed] = []
    store.on_commit = told.append

    committed = await store.commit(alice.batch([alice.entry("one"), alice.entry("two")]))
    assert told == [committed]
    assert (committed.first_cursor, committed.last_cursor) == (2, 3)

    await store.commit(Batch(local=[LocalRow("names", b"key", b"value")]))
    assert told == [committed], "nothing happened in a document"


# --- failing ----------------------------------------------------------------------------------------------------------


async def test_a_batch_is_stored_whole_or_not_at_all(store: Store, alice: Author) -> None:
    await store.commit(Batch(local=[LocalRow("names", b"taken", b"1")]))
    batch = alice.batch([alice.entry()])
    batch.local = [LocalRow("names", b"free", b"2"), LocalRow("names", b"taken", b"2", unless_exists=True)]

    with pytest.raises(Conflict):
        await store.commit(batch)

    assert store.reader.operation(alice.last.operation.id) is None
    assert store.reader.local("names", b"free") is None
    row = store.reader.document(alice.document)
    assert row is not None
    assert row.operations == 1


async def test_one_bad_batch_in_a_group_fails_alone(store: Store, alice: Author) -> None:
    others = [Author(seed) for seed in range(2, 6)]
    twice = alice.batch(alice.operations[:1])

    results = await asyncio.gather(
        *(
            store.commit(batch)
            for batch in [others[0].begin(), others[1].begin(), twice, *(o.begin() for o in others[2:])]
        ),
        return_exceptions=True,
    )

    assert [type(result) for result in results] == [Committed, Committed, Conflict, Committed, Committed]
    assert len(store.reader.documents()) == 5


async def test_what_rests_on_a_failed_batch_fails_with_it(store: Store, alice: Author) -> None:
    """The core is ahead of the disk: a second append was made before anyone knew that the first would fail."""
    dropped: list[Batch] = []
    store.on_failure = dropped.append
    bad = alice.batch([alice.entry("one")])
    bad.erasures = [Erase(OperationId(b"?" * 32), OperationId(b"?" * 32))]
    resting = alice.batch([alice.entry("two")])
    tasks = [asyncio.ensure_future(store.commit(batch)) for batch in (bad, resting)]

    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(results[0], NotFound)
    if isinstance(results[1], Committed):  # inline, the failure was known before the second began
        return
    assert isinstance(results[1], StoreFailed)
    assert dropped == [bad, resting]
    del alice.operations[1:]
    await store.commit(alice.batch([alice.entry("again")]))


async def test_a_commit_that_the_disk_refuses_fails_for_all_and_the_next_goes_through(
    store: Store, alice: Author
) -> None:
    others = [Author(seed) for seed in (2, 3)]
    twice = alice.batch(alice.operations[:1])
    store.connection.set_authorizer(refuse_commits)

    results = await asyncio.gather(
        *(store.commit(batch) for batch in (others[0].begin(), twice, others[1].begin())), return_exceptions=True
    )

    assert all(isinstance(result, RoostError) for result in results)
    assert [row.id for row in store.reader.documents()] == [alice.document]
    store.connection.set_authorizer(None)
    for author in others:
        await store.commit(author.begin())
    await store.commit(alice.batch([alice.entry()]))


def refuse_commits(action: int, what: str | None, *_: str | None) -> int:
    refused = action == sqlite3.SQLITE_TRANSACTION and what == "COMMIT"
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


async def test_a_batch_for_an_unknown_document_is_refused(store: Store) -> None:
    stranger = Author(1)
    with pytest.raises(NotFound):
        await store.commit(stranger.batch(stranger.operations))


async def test_operations_without_their_documents_heads_are_refused(store: Store, alice: Author) -> None:
    batch = alice.batch([alice.entry()])
    batch.states = []
    with pytest.raises(StoreFailed, match="heads"):
        await store.commit(batch)


async def test_heads_are_those_of_the_last_commit(store: Store, alice: Author) -> None:
    bob = Author(2, joins=alice)
    heads = [*ids(alice.operations), *ids([bob.entry("hi")])]
    for batch, expected in (
        (bob.batch([bob.last]), heads[1:]),
        (alice.batch([alice.entry("void", accepted=False)]), heads),
        (Batch(), heads[:1]),
        (alice.batch([alice.entry("joins")]), ids([alice.last])),
    ):
        batch.states = [DocumentState(alice.document, tuple(expected))]
        await store.commit(batch)
        row = store.reader.document(alice.document)
        assert row is not None
        assert list(row.heads) == expected


async def test_a_value_that_the_tables_cannot_take_fails_its_batch_only(store: Store, alice: Author) -> None:
    batch = alice.batch([])
    batch.verdicts = [Verdict(alice.document, 1 << 70, 0, 0)]
    with pytest.raises(StoreFailed):
        await store.commit(batch)
    await store.commit(alice.batch([alice.entry()]))


async def test_a_cancelled_caller_leaves_the_commit_whole(store: Store, alice: Author) -> None:
    told: list[Committed] = []
    store.on_commit = told.append
    task = asyncio.ensure_future(store.commit(alice.batch([alice.entry()])))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.commit(Batch())
    assert store.reader.operation(alice.last.operation.id) is not None
    assert len(told) == 1


async def test_a_closed_store_takes_nothing_more(tmp_path: Path) -> None:
    for store in (Store.open(None), Store.open(tmp_path / "store.db")):
        await store.close()
        with pytest.raises(StoreFailed):
            await store.commit(Batch())
        await store.close()


@pytest.mark.parametrize("rotten", [b"jello", "jello", None])
async def test_bytes_that_rotted_on_the_disk_are_not_believed(
    alice: Author, store: Store, rotten: bytes | str | None
) -> None:
    entry = alice.entry("hello")
    await store.commit(alice.batch([entry]))
    tamper(store, entry.operation.id, rotten)
    with pytest.raises(Unverified):
        store.reader.operation(entry.operation.id)


def tamper(store: Store, identity: OperationId, content: bytes | str | None) -> None:
    """Change bytes behind the store's back."""
    connection = store.connection if store.path is None else sqlite3.connect(store.path)
    with connection:
        connection.execute("UPDATE operations SET content = ? WHERE id = ?", (content, identity))
    if store.path is not None:
        connection.close()


# --- long reads, crashes ----------------------------------------------------------------------------------------------


async def test_long_reads_run_beside_the_loop_and_see_what_is_committed(store: Store, alice: Author) -> None:
    await store.commit(alice.batch([alice.entry(str(number)) for number in range(50)]))

    def count(reader: Reader) -> int:
        return sum(len(part) for part in reader.missing(alice.document, [(0, 0, EVERYTHING)], 2000))

    assert await asyncio.gather(*(store.read(count) for _ in range(5))) == [51] * 5


async def test_a_crash_in_memory_keeps_exactly_what_was_committed() -> None:
    disk, alice = MemoryDisk(), Author(1)
    store = Store.open(disk)
    await store.commit(alice.begin())
    kept = alice.entry("kept")
    await store.commit(alice.batch([kept]))
    lost = alice.batch([alice.entry("lost")])
    lost.erasures = [Erase(OperationId(b"?" * 32), OperationId(b"?" * 32))]
    with pytest.raises(NotFound):
        await store.commit(lost)
    del store

    after = Store.open(disk)

    assert ids_of(after.reader.entries(alice.document, limit=9)) == [kept.operation.id]
    del alice.operations[2:]
    assert (await after.commit(alice.batch([alice.entry("next")]))).first_cursor > 2
