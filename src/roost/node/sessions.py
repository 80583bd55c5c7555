"""Sessions: made, found by name or id prefix, written to, read.

Every surface (command line, local API, page, library) comes through here, so that they agree.
"""

from __future__ import annotations

from msgspec import UNSET, Struct

from roost.adapters.environment import Environment
from roost.adapters.store.records import LocalRow, Row
from roost.adapters.store.store import Store
from roost.core.entry import SALT_BYTES, encode_content
from roost.core.errors import NameTaken, NotFound, Usage
from roost.core.heads import IDEMPOTENCY_KEY_BYTES_MAX, EntryHead, Origin, encode_head
from roost.core.ids import DocumentId, OperationId
from roost.core.keys import SigningKey
from roost.node.documents import Documents
from roost.node.registry import Registry, SessionRecord, check_name
from roost.node.replica import Replica
from roost.node.transcript import FIRST_BRANCH, Transcript, branch_of

PREFIX_MIN = 4
NEAR_MATCHES = 3


class NewEntry(Struct, frozen=True):
    """What a person or a program wants to say. ``data`` is JSON text; ``key`` makes a repeated send harmless."""

    content: str
    type: str = "message"
    sender: str = ""
    key: str | None = None
    parent: OperationId | None = None
    data: str | None = None
    branch: bytes | None = None  # None: the parent's, or the current one
    opens_branch: bool = False
    origin: Origin | None = None
    at: int | None = None  # microseconds; None: now
    raw: bytes | None = None
    packed: bytes | None = None


class Sessions:
    """The sessions of one peer."""

    def __init__(
        self, store: Store, documents: Documents, registry: Registry, key: SigningKey, environment: Environment
    ) -> None:
        self._store = store
        self._documents = documents
        self._registry = registry
        self._key = key
        self._environment = environment

    # --- making and finding -----------------------------------------------------------------------------------------

    async def create(
        self, name: str | None, mode: str = "persistent", *, origin: str | None = None, source: str = "here"
    ) -> Replica:
        """Found a session under a name of this peer's own. Raises NameTaken."""
        if name is not None and self._registry.by_name(check_name(name)) is not None:
            raise NameTaken(name)
        record = SessionRecord(source, "active", self._environment.now())

        def rows(document: DocumentId) -> list[LocalRow]:
            named = [] if name is None else self._registry.name_rows(name, document)
            return [self._registry.session_row(document, record), *named]

        return await self._documents.create(kind="session", mode=mode, origin=origin, rows=rows)

    def resolve(self, text: str) -> DocumentId:
        """The session by name, id or unique id prefix. Raises NotFound (naming near matches) or Usage (ambiguous)."""
        found = self._registry.by_name(text)
        if found is not None:
            return found
        prefix = text.lower()
        if len(prefix) >= PREFIX_MIN and all(character in "0123456789abcdef" for character in prefix):
            matches = [row.id for row in self._store.reader.documents() if row.id.hex().startswith(prefix)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise Usage(f"{text} is the beginning of {len(matches)} ids; type more of it")
        raise NotFound(self._near(text))

    def _near(self, text: str) -> str:
        import difflib

        names = difflib.get_close_matches(text, self._registry.names(), NEAR_MATCHES, 0.5)
        return f"{text}; did you mean {', '.join(names)}?" if names else f"{text}; roost sessions lists what is here"

    def entry(self, document: DocumentId, text: str) -> Row:
        """An entry of a session by id or unique id prefix. Raises NotFound or Usage."""
        prefix = text.lower()
        if len(prefix) < PREFIX_MIN or any(character not in "0123456789abcdef" for character in prefix):
            raise NotFound(f"entry {text}")
        matches = self._store.reader.find_prefix(document, prefix)
        if len(matches) > 1:
            raise Usage(f"{text} is the beginning of {len(matches)} ids; type more of it")
        row = self._store.reader.operation(matches[0]) if matches else None
        if row is None or not isinstance(row.operation.head, EntryHead) or not row.accepted:
            raise NotFound(f"entry {text}")
        return row

    # --- writing ----------------------------------------------------------------------------------------------------

    async def send(self, document: DocumentId, entry: NewEntry) -> OperationId:
        """Append an entry; returns its id after the commit. The same key again returns the first one's id."""
        replica = self._documents.get(document)
        if entry.key is not None:
            if len(entry.key.encode()) > IDEMPOTENCY_KEY_BYTES_MAX:
                raise Usage(f"a key has at most {IDEMPOTENCY_KEY_BYTES_MAX} bytes")
            before = replica.sent(entry.key)
            if before is not None:
                return await before
        return (await replica.append("entry", *self.encode(replica, entry), key=entry.key)).id

    def encode(self, replica: Replica, entry: NewEntry) -> tuple[bytes, bytes]:
        """Head and content of an entry. Raises NotFound, TooLarge, Usage."""
        parent, branch = self._place(replica, entry)
        head = EntryHead(
            _checked_type(entry.type),
            parent,
            "new" if entry.opens_branch else (branch or None),
            self._environment.now() if entry.at is None else entry.at,
            entry.origin or UNSET,
            key=entry.key or UNSET,
        )
        content = encode_content(
            self._environment.random(SALT_BYTES), entry.sender, entry.content, entry.data, entry.raw, entry.packed
        )
        return encode_head(head), content

    def _place(self, replica: Replica, entry: NewEntry) -> tuple[OperationId | None, bytes]:
        """Parent and branch: as given, else the end of the current branch."""
        if entry.branch is not None or entry.opens_branch:
            return entry.parent, entry.branch or FIRST_BRANCH
        if entry.parent is not None:
            row = self._store.reader.operation(entry.parent)
            if row is None or row.operation.document != replica.id or not isinstance(row.operation.head, EntryHead):
                raise NotFound(f"entry {entry.parent.hex()[:8]}")
            return entry.parent, branch_of(row.operation.id, row.operation.head)
        return replica.place(Transcript(self._store, replica.id))

    async def rename(self, document: DocumentId, name: str) -> None:
        """Give the session a name on this peer."""
        await self._documents.get(document).keep(self._registry.name_rows(name, document))


def _checked_type(name: str) -> str:
    if not name or len(name) > 64 or not all(character.isalnum() or character in "_-." for character in name):
        raise Usage("a type has 1 to 64 letters, digits, '_', '-' or '.'")
    return name
