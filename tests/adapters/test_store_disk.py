"""The store in a file: what survives a kill, a full disk, another process, another version."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.adapters.store.records import Batch, Committed, Erase, LocalRow
from roost.adapters.store.schema import APPLICATION_ID, MIGRATIONS, connect_writer, migrate
from roost.adapters.store.store import Store
from roost.core.errors import StoreFailed, StoreTooNew
from roost.core.ids import OperationId
from tests.adapters.store_kit import Author, ids

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "store.db"


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


async def test_the_writer_syncs_each_commit_and_overwrites_what_it_deletes(path: Path) -> None:
    store = Store.open(path)
    pragmas = {
        name: store.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete", "application_id", "user_version")
    }
    await store.close()
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "secure_delete": 1,
        "application_id": APPLICATION_ID,
        "user_version": len(MIGRATIONS),
    }


async def test_the_files_are_for_their_owner_only(path: Path) -> None:
    store = Store.open(path)
    await store.commit(Author(1).begin())
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in [path.parent, *path.parent.iterdir()]}
    await store.close()
    assert modes == {"home": 0o700, "store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


async def test_a_reopened_store_has_everything_and_goes_on_counting(path: Path) -> None:
    alice = Author(1)
    store = Store.open(path)
    await store.commit(alice.begin())
    last = await store.commit(alice.batch([alice.entry("one")]))
    await store.close()

    store = Store.open(path, writer="inline")

    assert [row.operation.id for row in store.reader.entries(alice.document, limit=9)] == ids(alice.operations[1:])
    committed = await store.commit(alice.batch([alice.entry("two")]))
    assert committed.first_cursor == last.last_cursor + 1
    await store.close()


async def test_what_is_committed_in_one_turn_of_the_loop_is_one_transaction(path: Path) -> None:
    store, authors = Store.open(path), [Author(seed) for seed in range(1, 40)]
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)

    await asyncio.gather(*(store.commit(author.begin()) for author in authors))

    assert 1 <= statements.count("COMMIT") <= 3  # the thread may wake before all is handed over
    assert len(store.reader.documents()) == len(authors)
    await store.close()


async def test_commits_keep_their_order_whoever_carries_them_out(path: Path) -> None:
    """A small batch is committed at once in the loop, a large one or several in the thread."""
    alice, store = Author(1), Store.open(path)
    told: list[Committed] = []
    store.on_commit = told.append
    await store.commit(alice.begin())
    waiting = []
    for size in (10, 90_000, 10, 10, 90_000, 10):
        waiting.append(asyncio.ensure_future(store.commit(alice.batch([alice.entry("x" * size)]))))
        await asyncio.sleep(0)

    committed = await asyncio.gather(*waiting)

    assert told[1:] == committed
    assert [row.operation.id for row in store.reader.entries(alice.document, limit=9)] == ids(alice.operations[1:])
    cursors = [one.first_cursor for one in committed]
    assert cursors == sorted(cursors)
    await store.close()


# --- being killed -----------------------------------------------------------------------------------------------------

APPENDS_FOR_EVER = """
import asyncio, sys
from pathlib import Path
from roost.adapters.store.store import Store
from tests.adapters.store_kit import Author

async def main():
    store = Store.open(Path(sys.argv[1]))
    author = Author(1)
    await store.commit(author.begin())
    while True:
        entries = [author.entry("x" * 500) for _ in range(3)]
        batches = []
        for entry in entries:
            batches.append(asyncio.ensure_future(store.commit(author.batch([entry]))))
        for entry, batch in zip(entries, batches):
            await batch
            print(entry.operation.id.hex(), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("after", [1, 150, 700])
async def test_everything_acknowledged_survives_a_kill(path: Path, after: int) -> None:
    command = [sys.executable, "-c", APPENDS_FOR_EVER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:  # noqa: ASYNC220  the loop has nothing else to do
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(after)]
        process.kill()
        acknowledged += [line.strip() for line in process.stdout if len(line) == 65]
    assert all(acknowledged)

    store = Store.open(path)

    for identity in acknowledged:
        assert store.reader.operation(OperationId(bytes.fromhex(identity))) is not None
    (row,) = store.reader.documents()
    (stretch,) = store.reader.stretches(row.id)
    assert stretch.last == row.operations - 1, "what was not acknowledged is there whole or not at all"
    assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    await store.close()


# --- a full or broken disk --------------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_the_write_and_keeps_reading(path: Path) -> None:
    alice = Author(1)
    store = Store.open(path)
    await store.commit(alice.begin())
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages + 4}")

    with pytest.raises(StoreFailed, match="full"):
        await store.commit(alice.batch([alice.entry("x" * 50_000)]))

    assert store.reader.operation(alice.last.operation.id) is None
    assert store.reader.operation(alice.operations[0].operation.id) is not None
    del alice.operations[1:]
    await store.commit(alice.batch([alice.entry("short")]))
    store.connection.execute("PRAGMA max_page_count = 1000000")
    await store.commit(alice.batch([alice.entry("x" * 50_000)]))
    await store.close()


FILLS_ITS_DISK = """
import asyncio, json, resource, signal, sys
from pathlib import Path
from roost.adapters.store.store import Store
from roost.core.errors import StoreFailed
from tests.adapters.store_kit import Author

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = Store.open(Path(sys.argv[1]))
    author = Author(1)
    await store.commit(author.begin())
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    failure = None
    while failure is None:
        try:
            await store.commit(author.batch([author.entry("x" * 5000)]))
        except StoreFailed as error:
            failure = error
    stored = len(store.reader.entries(author.document, limit=1000))
    del author.operations[-1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.commit(author.batch([author.entry("y" * 5000)]))
    after = len(store.reader.entries(author.document, limit=1000))
    await store.close()
    print(json.dumps([failure.code, stored, after, len(author.operations)]))

asyncio.run(main())
"""


def test_a_disk_that_takes_no_more_refuses_writes_until_it_does(path: Path) -> None:
    command = [sys.executable, "-c", FILLS_ITS_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=True)
    code, stored, after, made = json.loads(done.stdout)
    assert code == "store_failed"
    assert stored > 3
    assert after == stored + 1 == made - 1


OPENS_ON_A_FULL_DISK = """
import os, resource, signal, sys
from pathlib import Path
from roost.adapters.store.lock import acquire
from roost.adapters.store.store import Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
with acquire(path.parent, "test"):
    print(len(Store.open(path).reader.documents()), flush=True)
    os._exit(0)
"""


async def test_a_store_whose_log_the_full_disk_does_not_take_opens_to_be_read(path: Path, tmp_path: Path) -> None:
    store = Store.open(path)
    author = Author(1)
    await store.commit(author.begin())
    await store.commit(author.batch([author.entry("x" * 500_000)]))
    copy = tmp_path / "copy" / path.name
    copy.parent.mkdir()
    for file in path.parent.iterdir():  # as a kill leaves them: most is in the log before the file
        copy.with_name(file.name).write_bytes(file.read_bytes())
    await store.close()

    command = [sys.executable, "-c", OPENS_ON_A_FULL_DISK, str(copy)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)

    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_is_named(path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with pytest.raises(StoreFailed, match=r"store\.db"):
        Store.open(path)


def test_a_place_that_cannot_be_a_directory_is_named(path: Path) -> None:
    path.parent.write_text("a file")
    with pytest.raises(StoreFailed, match=r"store\.db"):
        Store.open(path)


# --- other versions, other files --------------------------------------------------------------------------------------


def test_a_store_of_a_newer_roost_is_not_touched(path: Path) -> None:
    connection = database(path)
    connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99; CREATE TABLE t (x)")
    connection.close()
    before = files(path)
    with pytest.raises(StoreTooNew, match="99"):
        Store.open(path)
    assert files(path) == before


def test_a_database_of_another_program_is_not_touched(path: Path) -> None:
    connection = database(path)
    connection.executescript("PRAGMA user_version = 1; CREATE TABLE t (x)")
    connection.close()
    before = files(path)
    with pytest.raises(StoreFailed, match="another program"):
        Store.open(path)
    assert files(path) == before


def test_a_file_that_is_no_database_is_not_touched(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"my diary" * 100)
    with pytest.raises(StoreFailed, match="no database"):
        Store.open(path)
    assert files(path) == {"store.db": b"my diary" * 100}


def database(path: Path) -> sqlite3.Connection:
    path.parent.mkdir()
    return sqlite3.connect(path)


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    path.parent.mkdir()
    opened = connect_writer(path)
    yield opened
    opened.close()


def test_migrations_run_once_each_in_order(connection: sqlite3.Connection) -> None:
    migrate(connection)
    migrate(connection, (*MIGRATIONS, "CREATE TABLE more (x); INSERT INTO more VALUES (1)"))
    migrate(connection, (*MIGRATIONS, "no SQL at all: it must not run again"))
    assert connection.execute("SELECT x FROM more").fetchall() == [(1,)]
    with pytest.raises(StoreTooNew):
        migrate(connection)


def test_a_migration_that_fails_leaves_the_version_before_it(connection: sqlite3.Connection) -> None:
    migrate(connection)
    with pytest.raises(StoreFailed, match="migrating to version 2"):
        migrate(connection, (*MIGRATIONS, "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)"))
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT name FROM sqlite_schema WHERE name = 'half'").fetchall() == []


# --- erasing ----------------------------------------------------------------------------------------------------------


async def test_an_erased_content_is_in_no_file_any_more(path: Path) -> None:
    alice, secret = Author(1), "correct horse battery staple " * 300
    store = Store.open(path)
    await store.commit(alice.begin())
    entry = alice.entry(secret)
    await store.commit(alice.batch([entry]))
    needle = secret[:29].encode()
    assert any(needle in content for content in files(path).values())

    await store.commit(Batch(erasures=[Erase(entry.operation.id, OperationId(b"r" * 32))]))

    assert not [name for name, content in files(path).items() if needle in content]
    await store.close()


async def test_an_erasure_that_a_reader_held_up_is_finished_later(path: Path) -> None:
    alice, secret = Author(1), "correct horse battery staple " * 3
    store = Store.open(path)
    store.connection.execute("PRAGMA busy_timeout = 1")
    await store.commit(alice.begin())
    entry = alice.entry(secret)
    await store.commit(alice.batch([entry]))
    with store.reader.snapshot():
        assert store.reader.operation(entry.operation.id) is not None
        await store.commit(Batch(erasures=[Erase(entry.operation.id, OperationId(b"r" * 32))]))
        assert any(secret.encode() in content for content in files(path).values())

    await store.commit(Batch(local=[LocalRow("names", b"a", b"b")]))

    assert not [name for name, content in files(path).items() if secret.encode() in content]
    await store.close()


async def test_the_log_before_the_file_stays_short(path: Path) -> None:
    alice = Author(1)
    store = Store.open(path)
    await store.commit(alice.begin())
    for _ in range(30):
        await store.commit(alice.batch([alice.entry("x" * 500) for _ in range(500)]))
    size = (path.parent / "store.db-wal").stat().st_size
    await store.close()
    assert size < 24 << 20
