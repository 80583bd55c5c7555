"""The tables, how a file becomes a store, and how connections to it are set up.

Why so few indices: every one costs each append a page in the write-ahead log, and each row its share of the disk.
All of them are small: they hold numbers local to this file and beginnings of ids, or exist for the few rows that need
them. For the same reason the usual append touches no row but its own: what a document's and a stretch's row would say
is found out when they are read. An operation that is stored twice fails at its position.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from roost.core.errors import StoreFailed, StoreTooNew

APPLICATION_ID = 0x726F6F73  # "roos": tells the file from any other SQLite database
WRITER_CACHE_KIB = 4096  # with the readers' below, the most that a growing store adds to the process
READER_CACHE_KIB = 2048
SCANNER_CACHE_KIB = 1024
BUSY_TIMEOUT_MS = 5000  # the lock file admits one process, so only a checkpoint or a backup is ever in the way
AUTOCHECKPOINT_PAGES = 8000  # a net below the writer's own checkpoints, which come after the acknowledgement

_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"

# Columns in words where their names do not tell:
#   n            cursor: one counter for operations and notices, so that the notification stream has one order
#   branch       entries only: empty for the first branch, its own id if it opens one, else the id of the opening entry
#   key, origin  entries only: idempotency key; hash of (tool, session, position)
#   target       redacts only
#   deps         packed positions; NULL without deps
#   heads        of a document, one after the other; NULL while its newest operation is the only one
#   last, live   of a stretch; NULL while its last operation is live
#   content_hash only while the content is absent: else it is SHA-256(content)
# Small columns stand first, so that looking one up never reads a long row's overflow pages.
_FIRST = """
CREATE TABLE documents (
  number INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  mode TEXT NOT NULL,
  created INTEGER NOT NULL,
  origin TEXT,
  local INTEGER NOT NULL,
  heads BLOB
);
CREATE INDEX document_origin ON documents (origin) WHERE origin IS NOT NULL;

CREATE TABLE stretches (
  document INTEGER NOT NULL,
  number INTEGER NOT NULL,
  author BLOB NOT NULL,
  log BLOB NOT NULL,
  base_stretch INTEGER,
  base_seq INTEGER,
  first INTEGER NOT NULL,
  last INTEGER,
  live INTEGER,
  runs BLOB NOT NULL,
  parked_from INTEGER,
  parked_until INTEGER NOT NULL,
  PRIMARY KEY (document, number)
) WITHOUT ROWID;

CREATE TABLE groups (
  document INTEGER NOT NULL,
  number INTEGER NOT NULL,
  author BLOB NOT NULL,
  proof BLOB NOT NULL,
  PRIMARY KEY (document, number)
) WITHOUT ROWID;

CREATE TABLE operations (
  n INTEGER PRIMARY KEY,
  document INTEGER NOT NULL,
  stretch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  id BLOB NOT NULL,
  time INTEGER NOT NULL,
  kind TEXT NOT NULL,
  grp INTEGER NOT NULL,
  accepted INTEGER NOT NULL,
  verified INTEGER NOT NULL,
  local INTEGER NOT NULL,
  arrived INTEGER NOT NULL,
  content_state INTEGER NOT NULL,
  deps BLOB,
  branch BLOB,
  key TEXT,
  origin BLOB,
  target BLOB,
  absence BLOB,
  content_hash BLOB,
  header BLOB NOT NULL,
  signature BLOB NOT NULL,
  head BLOB NOT NULL,
  content BLOB
);
CREATE INDEX operation_id ON operations (substr(id, 1, 8));
CREATE UNIQUE INDEX operation_position ON operations (document, stretch, seq);
CREATE INDEX operation_merge ON operations (document, stretch, seq) WHERE deps IS NOT NULL;
CREATE INDEX entry_branch ON operations (document, branch, time) WHERE branch IS NOT NULL AND accepted = 1;
CREATE INDEX entry_key ON operations (document, key) WHERE key IS NOT NULL;
CREATE INDEX entry_origin ON operations (document, origin) WHERE origin IS NOT NULL;
CREATE INDEX other_kind ON operations (document, kind, time, accepted) WHERE branch IS NULL;
CREATE INDEX operation_void ON operations (document) WHERE accepted = 0;
CREATE INDEX operation_target ON operations (document, target) WHERE target IS NOT NULL;
CREATE INDEX content_absent ON operations (document) WHERE content_state = 1;

CREATE TABLE notices (
  n INTEGER PRIMARY KEY,
  document INTEGER NOT NULL,
  operation INTEGER NOT NULL,
  what INTEGER NOT NULL
);
CREATE INDEX notice_document ON notices (document);

CREATE TABLE changes (
  operation INTEGER PRIMARY KEY,
  change BLOB NOT NULL
);
CREATE TABLE projections (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE local (
  tab TEXT NOT NULL,
  key BLOB NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (tab, key)
) WITHOUT ROWID;
"""

Given = TypeVar("Given", bytes, None)


def _as_it_is(value: Given) -> Given:
    return value


# sqlite3 looks for an adapter of every bytes and None that it binds, and finding none is slow: it raises and catches
# several errors, 0.6 microseconds each time, half of an insert. So it finds one, which changes nothing.
sqlite3.register_adapter(bytes, _as_it_is)
sqlite3.register_adapter(type(None), _as_it_is)

MIGRATIONS: tuple[str, ...] = (_FIRST,)  # the n-th brings a store from version n to n + 1


def create_private(path: Path) -> None:
    """Make the file, and its directory if there is none, for this user's eyes only; SQLite's own files follow suit."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StoreFailed(f"{path}: {error.strerror}") from error


def check_header(path: Path, versions: int = len(MIGRATIONS)) -> None:
    """Refuse a file that is no store or that a newer roost wrote, by its first bytes: SQLite has not opened it yet."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        return
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreFailed(f"{path} is no database")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if application != APPLICATION_ID and (application or version):
        raise StoreFailed(f"{path} belongs to another program")
    if version > versions:
        raise StoreTooNew(f"{path} has version {version}, this roost knows {versions}")


def connect_writer(path: Path | None) -> sqlite3.Connection:
    """The connection that writes; path None is a database in memory."""
    connection = _connect(path, WRITER_CACHE_KIB)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
    connection.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
    return connection


def connect_reader(path: Path, cache_kib: int = READER_CACHE_KIB) -> sqlite3.Connection:
    """A connection that sees what is committed and cannot write."""
    connection = _connect(path, cache_kib)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path | None, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:" if path is None else path, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    connection.execute("PRAGMA temp_store = MEMORY")  # a temporary file would hold people's words
    return connection


def migrate(connection: sqlite3.Connection, migrations: tuple[str, ...] = MIGRATIONS) -> None:
    """Bring the schema to the newest version; each step is one transaction. Raises StoreTooNew, StoreFailed."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise StoreTooNew(f"version {version}, this roost knows {len(migrations)}")
    for number, script in enumerate(migrations[version:], start=version + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE; {script}; PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {number}; COMMIT"
            )
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise StoreFailed(f"migrating to version {number}: {error}") from error
    # Into the file with it, before anything else: check_header reads the version there. It also empties a log that
    # an erasure left behind when the process was killed. A full disk does not take it now; what is stored can be read.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
