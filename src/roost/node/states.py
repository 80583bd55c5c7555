"""The shared state of documents, made when somebody reads it: names, rosters, tags, notes.

The merge engine is loaded on first use. Its work goes in steps, so that a long history does not hold the loop, and
what it made is cached in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.adapters.environment import Environment
from roost.adapters.store.records import Batch, CachedChange, EditRow, OrderKey
from roost.adapters.store.store import Store
from roost.core.edits import CONTAINERS, SALT_BYTES, EditRecord, Scalar, encode_edits, read_values
from roost.core.errors import Usage
from roost.core.graph import Position
from roost.core.heads import Edit, EditHead, Put, decode_head, encode_head
from roost.core.ids import DocumentId, OperationId
from roost.core.outcome import NewOperation
from roost.node.documents import Documents
from roost.node.replica import Replica
from roost.node.transcript import Json

if TYPE_CHECKING:
    from roost.core.state import State, StateView

PAGE = 1000
STEP_EDITS = 200  # some 15 ms of the loop


class Held(Struct):
    """A state in memory, and what came since it was last brought up to date."""

    replica: Replica
    state: State
    pending: list[EditRecord]


class States:
    """The states of this peer's documents."""

    def __init__(self, store: Store, documents: Documents, environment: Environment) -> None:
        self._store = store
        self._documents = documents
        self._environment = environment
        self._held: dict[DocumentId, Held] = {}
        self._locks: dict[DocumentId, asyncio.Lock] = {}

    # --- reading ----------------------------------------------------------------------------------------------------

    async def view(self, document: DocumentId) -> StateView:
        """The state as it stands."""
        async with self._locks.setdefault(document, asyncio.Lock()):
            held = self._hold(document)
            live = held.replica.committed_live()
            records, held.pending = held.pending, []
            held.state.note(live, records)
            while True:
                progress = held.state.advance(STEP_EDITS)
                if progress.made or progress.forgotten:
                    made = [CachedChange(edit, change) for edit, change in progress.made.items()]
                    await self._store.commit(Batch(changes=made, forget_changes=list(progress.forgotten)))
                if progress.settled:
                    return held.state.view()
                await asyncio.sleep(0)

    async def json(self, document: DocumentId) -> dict[str, Json]:
        """The row of ``roost state``."""
        view = await self.view(document)
        shown: dict[str, Json] = {name: dict(values) for name, values in view.maps.items()}
        shown.update(view.texts)
        shown["automerge_heads"] = list(view.heads)
        return shown

    async def save(self, document: DocumentId) -> bytes:
        """The state as a standard Automerge document."""
        await self.view(document)
        return self._held[document].state.save()

    def _hold(self, document: DocumentId) -> Held:
        replica = self._documents.get(document)
        held = self._held.get(document)
        if held is None or held.replica is not replica:
            held = self._held[document] = self._load(replica)
        return held

    def _load(self, replica: Replica) -> Held:
        from roost.core.state import State  # loads the merge engine, which most commands never need

        cached: dict[OperationId, bytes] = {}
        records: list[EditRecord] = []
        for row in self._stored(replica.id):
            records.append(_record(replica, row))
            if row.change is not None:
                cached[row.id] = row.change
        graph = replica.document.graph
        return Held(replica, State(replica.document.head.kind, graph, replica.document.id_at, cached), records)

    def _stored(self, document: DocumentId) -> Iterable[EditRow]:
        after: OrderKey | None = None
        while True:
            page = self._store.reader.edits(document, after=after, limit=PAGE)
            yield from page
            if len(page) < PAGE:
                return
            after = OrderKey(page[-1].time, page[-1].id)

    # --- what happens meanwhile -------------------------------------------------------------------------------------

    def announce(self, replica: Replica, new: Sequence[NewOperation]) -> None:
        """Take note of edits that were committed."""
        held = self._held.get(replica.id)
        if held is None or held.replica is not replica:
            return
        for item in new:
            operation = item.operation
            if type(operation.head) is EditHead:
                held.pending.append(
                    record(replica, operation.id, operation.time, item.position, operation.head, operation.content)
                )

    def changed(self, document: DocumentId, edits: Iterable[OperationId]) -> None:
        """Whether the contents of these edits can be read may have changed."""
        held = self._held.get(document)
        if held is None:
            return
        for row in self._store.reader.operations(list(edits)):
            operation = row.operation
            if type(operation.head) is EditHead:
                held.pending.append(
                    record(held.replica, operation.id, operation.time, row.position, operation.head, operation.content)
                )

    # --- writing ----------------------------------------------------------------------------------------------------

    async def put(self, document: DocumentId, container: str, key: str, value: Scalar) -> OperationId:
        """Set one key of a map of the state; returns after the commit. Raises Usage, NotAWriter."""
        replica = self._documents.get(document)
        maps, _ = CONTAINERS.get(replica.document.head.kind, ((), ()))
        if container not in maps:
            raise Usage(f"{container} is no map of a {replica.document.head.kind}; its maps are {', '.join(maps)}")
        return await self.edit(replica, [Put(container, key)], [value])

    async def edit(self, replica: Replica, edits: Sequence[Edit], values: Sequence[Scalar]) -> OperationId:
        """Append one edit operation."""
        head, content = encode_edits(edits, values, self._environment.random(SALT_BYTES))
        return (await replica.append("edit", encode_head(head), content)).id


def record(
    replica: Replica, identity: OperationId, time: int, position: Position, head: EditHead, content: bytes | None
) -> EditRecord:
    log = replica.document.graph.stretches[position.stretch].log
    values = None if replica.hides(identity) else read_values(head, content)
    return EditRecord(identity, log, position, time, head.edits, values)


def _record(replica: Replica, row: EditRow) -> EditRecord:
    head = decode_head("edit", row.head_bytes)
    assert isinstance(head, EditHead)
    return record(replica, row.id, row.time, row.position, head, row.content)
