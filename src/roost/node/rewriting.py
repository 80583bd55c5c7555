"""An own clock that ran ahead: others hold back what jumps, so it is held back here too and written again.

Source: docs/protocol.md "Parked".
"""

from __future__ import annotations

import msgspec

from roost.adapters.store.reader import Reader
from roost.adapters.store.records import Row
from roost.core.document import JUMP_STEP_MICROSECONDS
from roost.core.heads import EntryHead, encode_head
from roost.core.ids import OperationId, PeerKey
from roost.node.replica import Replica

PAGE = 1000


async def rewrite(replica: Replica, reader: Reader, me: PeerKey, identity: OperationId, until: int) -> None:
    """Park an own operation and its descendants until then, and append the contents of the own ones again.

    Only an operation that jumps can be meant; for any other the teller is mistaken, or lies.
    """
    row = reader.operation(identity)
    if row is None or row.operation.author != me or row.operation.kind == "genesis":
        return
    parents = [found.time for parent in row.operation.parents if (found := replica.find(parent)) is not None]
    if row.operation.time - max(parents, default=0) <= JUMP_STEP_MICROSECONDS:
        return
    before = dict(replica.document.liveness.parked)
    if not await replica.park(identity, until):
        return
    rows = _own_parked(replica, reader, me, before)
    if not rows:
        return
    writing = replica.begin()
    again: dict[bytes, OperationId] = {}
    for row in rows:
        operation = row.operation
        if operation.kind == "join" or operation.content is None:
            continue
        head = _moved(operation.head, again) if isinstance(operation.head, EntryHead) else operation.head_bytes
        again[operation.id] = writing.add(operation.kind, head, operation.content).id
    await writing.commit()


def _own_parked(replica: Replica, reader: Reader, me: PeerKey, before: dict[int, tuple[int, int]]) -> list[Row]:
    """The own operations that are parked now and were not before, in the total order."""
    rows: list[Row] = []
    for number, (first, _) in replica.document.liveness.parked.items():
        stretch = replica.document.graph.stretches[number]
        if stretch.log.author != me:
            continue
        end = min(stretch.last, before[number][0] - 1) if number in before else stretch.last
        low = first
        while low <= end:
            rows += reader.operations_between(replica.id, number, low, min(end, low + PAGE - 1), PAGE)
            low += PAGE
    return sorted(rows, key=lambda row: (row.operation.time, row.operation.id))


def _moved(head: EntryHead, again: dict[bytes, OperationId]) -> bytes:
    """The head with references to what was written again brought up to date."""
    parent = head.parent if head.parent is None else again.get(head.parent, head.parent)
    branch = again.get(head.branch, head.branch) if isinstance(head.branch, bytes) else head.branch
    return encode_head(msgspec.structs.replace(head, parent=parent, branch=branch))
