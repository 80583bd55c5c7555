"""What this peer alone knows about sessions: three small index stores behind one interface, never replicated.

sessions: document -> where it came from, its status; names: name -> document; channels: external room -> document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from roost.adapters.store.records import Batch, LocalRow
from roost.adapters.store.store import Store
from roost.core.errors import NameTaken, NotFound, Usage
from roost.core.ids import DocumentId

NAME_CHARACTERS_MAX = 200

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]


class SessionRecord(Struct, frozen=True):
    """origin: "here", "sync", or the tool whose transcript was imported. created: microseconds."""

    origin: str
    status: str
    created: int


_records = msgspec.msgpack.Decoder(SessionRecord)


def check_name(name: str) -> str:
    """A name as people type it; it must not look like an id, and must print on one line."""
    name = name.strip()
    if not name or len(name) > NAME_CHARACTERS_MAX:
        raise Usage(f"a name has 1 to {NAME_CHARACTERS_MAX} characters")
    if any(not character.isprintable() for character in name):
        raise Usage("a name has no control characters")
    if len(name) >= 8 and all(character in "0123456789abcdef" for character in name):
        raise Usage("a name must not look like an id: it has only hex digits")
    return name


class Registry:
    """The peer-local index stores."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- sessions ---------------------------------------------------------------------------------------------------

    def session_row(self, document: DocumentId, record: SessionRecord) -> LocalRow:
        """The row to commit together with a new document."""
        return LocalRow("sessions", document, msgspec.msgpack.encode(record))

    def session(self, document: DocumentId) -> SessionRecord | None:
        raw = self._store.reader.local("sessions", document)
        return None if raw is None else _records.decode(raw)

    def sessions(self) -> Iterator[tuple[DocumentId, SessionRecord]]:
        for key, raw in self._store.reader.local_all("sessions"):
            yield DocumentId(key), _records.decode(raw)

    # --- names ------------------------------------------------------------------------------------------------------

    def name_of(self, document: DocumentId) -> str | None:
        raw = self._store.reader.local("names_by_document", document)
        return None if raw is None else raw.decode()

    def by_name(self, name: str) -> DocumentId | None:
        raw = self._store.reader.local("names", name.encode())
        return None if raw is None else DocumentId(raw)

    def names(self) -> dict[str, DocumentId]:
        return {key.decode(): DocumentId(raw) for key, raw in self._store.reader.local_all("names")}

    def name_rows(self, name: str, document: DocumentId) -> list[LocalRow]:
        """Rows that give ``document`` the name and take its old one away. Raises NameTaken.

        The commit fails with Conflict if somebody else took the name in between.
        """
        name = check_name(name)
        holder = self.by_name(name)
        if holder is not None and holder != document:
            raise NameTaken(name)
        rows: list[LocalRow] = []
        old = self.name_of(document)
        if old == name:
            return rows
        if old is not None:
            rows.append(LocalRow("names", old.encode(), None))
        rows.append(LocalRow("names", name.encode(), document, unless_exists=True))
        rows.append(LocalRow("names_by_document", document, name.encode()))
        return rows

    def acceptable(self, shared: object, document: DocumentId) -> str | None:
        """A name that others gave a session, as far as it may stand here; None if it may not."""
        try:
            return self.free_name(check_name(shared), document) if isinstance(shared, str) else None
        except Usage:
            return None

    def free_name(self, wanted: str, document: DocumentId) -> str:
        """``wanted``, or a variant of it that no other session here has."""
        holder = self.by_name(wanted)
        if holder is None or holder == document:
            return wanted
        return f"{wanted[: NAME_CHARACTERS_MAX - 10]}-{document.hex()[:8]}"

    # --- channels ---------------------------------------------------------------------------------------------------

    def channel(self, room: str) -> DocumentId | None:
        """The session that an external room is attached to."""
        raw = self._store.reader.local("channels", room.encode())
        return None if raw is None else DocumentId(raw)

    def rooms_of(self, document: DocumentId) -> list[str]:
        return sorted(key.decode() for key, raw in self._store.reader.local_all("channels") if raw == document)

    async def attach(self, room: str, document: DocumentId) -> None:
        """One room belongs to one session; a session may have many rooms. Raises Conflict if the room is taken."""
        if self.channel(room) == document:
            return
        await self._store.commit(Batch(local=[LocalRow("channels", room.encode(), document, unless_exists=True)]))

    async def detach(self, room: str) -> None:
        """Raises NotFound if the room is attached to nothing."""
        if self.channel(room) is None:
            raise NotFound(room)
        await self._store.commit(Batch(local=[LocalRow("channels", room.encode(), None)]))
