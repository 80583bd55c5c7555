"""What goes out on one link of one document: in the total order, a bounded window ahead of the acknowledgements.

New operations go out at once while nothing else waits; what is many, or comes while something waits, is queued as
ranges and read from the store piece by piece. A batch that is not acknowledged is in flight: it is not offered again
until the link is found to have lost it. Source: docs/protocol.md "Sync".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from roost.core.authentic import cut, is_signed
from roost.core.graph import Graph, Position
from roost.core.have import Holdings
from roost.core.heldback import FOR_LIFE, HeldBack
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.outcome import NewOperation
from roost.core.ranges import Range, Ranges, spans
from roost.core.wire import OPERATIONS_MAX, Operations, Signed, Wait, fits

RUN_BYTES_MAX = 3 << 20  # of a piece that may be cut nowhere sooner; with the rest of a frame below UNPACKED_BYTES_MAX
CHUNK_BYTES = 256 << 10  # of bodies and headers: 500 lines of chat, admitted in 50 ms, so that nobody else waits longer
WINDOW = 4  # batches from the queue in flight: a megabyte, 20 ms of round trip at 50 MB/s
LIVE_BATCHES_MAX = 256  # batches in flight beyond which new operations queue: one slow peer fills no memory
LIVE_MAX = 32  # more new operations at once are no conversation


class Stored(Signed, Protocol):
    """A committed operation as the store reads it for sending."""

    @property
    def id(self) -> OperationId: ...
    @property
    def position(self) -> Position: ...
    @property
    def verified(self) -> bool: ...


class Read(Struct, frozen=True):
    """Effect: read the next operations of ``ranges`` in the total order, up to ``bytes_max`` or one that is larger.

    Answer with ``ChunkRead``. The same ``stream`` as before goes on where the last piece ended; another begins anew.
    """

    stream: int
    ranges: tuple[Range, ...]
    bytes_max: int


class Sending:
    """The outgoing half of a link."""

    def __init__(self, document: DocumentId, author_at: Callable[[Position], PeerKey]) -> None:
        self._document = document
        self._author_at = author_at
        self._number = 0
        self._flight: dict[int, list[Range]] = {}
        self._queue = Ranges()  # waits for the stream to end
        self._reading = Ranges()  # what the stream has still to bring
        self._stream = 0
        self._asked = False  # a piece is being read
        self._bytes_max = CHUNK_BYTES  # of the next piece
        self._old: frozenset[int] = frozenset()  # batches that were in flight at the last tick
        self._moved = False  # since the last tick
        self.held_back = HeldBack()

    @property
    def busy(self) -> bool:
        return bool(self._flight) or self.queued

    @property
    def queued(self) -> bool:
        """Whether something waits for the window."""
        return bool(self._queue or self._reading)

    def abandon(self) -> None:
        """Nothing is on its way any longer; a comparison will show what has arrived."""
        self._flight = {}
        self._queue.clear()
        self._end_stream()

    def _end_stream(self) -> None:
        self._reading.clear()
        self._stream += 1
        self._asked = False
        self._bytes_max = CHUNK_BYTES

    def tick(self) -> bool:
        """Let go of what was on its way for a whole tick without an answer; True if there was any."""
        lost = [number for number in self._old if self._flight.pop(number, None) is not None]
        stalled = self.queued and not self._moved
        if lost or stalled:  # a comparison comes next, and shows what of the queue is still needed
            self._queue.clear()
            self._end_stream()
        self._old = frozenset(self._flight)
        self._moved = False
        return bool(lost) or stalled

    # --- what is to be sent -----------------------------------------------------------------------------------------

    def schedule(self, difference: Ranges) -> None:
        """Queue what a comparison has found, except what is on its way."""
        for ranges in self._flight.values():
            difference.remove_all(ranges)
        difference.remove_all(list(self._reading))
        self._queue.update(difference)

    def allowed(self, new: Sequence[NewOperation], graph: Graph) -> list[NewOperation]:
        """Those that descend from nothing that is kept back. Every new operation must pass here."""
        return [one for one in new if not self.held_back.add(one.position, _parents(one, graph))]

    def push(self, wanted: Sequence[NewOperation]) -> list[Operations]:
        """Send new operations at once if nothing else waits, or queue them."""
        small = len(wanted) == 1 or sum(one.operation.size for one in wanted) <= CHUNK_BYTES
        if self._queue or self._reading or len(self._flight) >= LIVE_BATCHES_MAX or not small:
            self._queue.update(spans(one.position for one in wanted))
            return []
        chunk = [(one.position.stretch, one.verified) for one in wanted]
        length = cut(chunk, lambda index: self._is_signed(wanted[index].operation, wanted[index].position))
        self._queue.update(spans(one.position for one in wanted[length:]))
        if not length:
            return []
        return [self._batch([one.operation for one in wanted[:length]], [one.position for one in wanted[:length]])]

    def _batch(self, operations: Iterable[Signed], positions: Iterable[Position]) -> Operations:
        self._number += 1
        self._flight[self._number] = spans(positions)
        return Operations.of(self._document, self._number, operations)

    def _is_signed(self, signed: Signed, position: Position) -> bool:
        return is_signed(signed, self._author_at(position))

    # --- the queue --------------------------------------------------------------------------------------------------

    def pump(self) -> list[Read]:
        """Ask for the next piece if the window has room."""
        if self._asked or len(self._flight) >= WINDOW:
            return []
        if not self._reading:
            if not self._queue:
                return []
            self._reading.update(self.held_back.allowed(self._queue))
            self._queue.clear()
            self._stream += 1
        self._asked = bool(self._reading)
        return [Read(self._stream, tuple(self._reading), self._bytes_max)] if self._reading else []

    def read(self, stream: int, rows: Sequence[Stored]) -> Operations | None:
        """Make a batch of a piece that was read."""
        if stream != self._stream or not self._asked:
            return None
        self._asked = False
        self._moved = True
        if not rows:
            self._end_stream()
            return None
        sent = self._sendable(rows)
        if sent is None:
            self._bytes_max = RUN_BYTES_MAX
            self._stream += 1
            return None
        self._reading.remove_all(spans(row.position for row in sent))
        if len(sent) < len(rows) or self._bytes_max > CHUNK_BYTES:
            self._bytes_max = CHUNK_BYTES
            self._stream += 1
        wanted = [row for row in sent if row.position not in self.held_back]
        return self._batch(wanted, [row.position for row in wanted]) if wanted else None

    def _sendable(self, rows: Sequence[Stored]) -> Sequence[Stored] | None:
        """The rows of a piece that may go out together; None: the author signed a long run falsely, read all of it.

        The receiver can park little of such a run until what vouches for it comes, so that has to come in one frame,
        as it did here.
        """
        first = rows[:OPERATIONS_MAX]
        chunk = [(row.position.stretch, row.verified) for row in first]
        length = cut(chunk, lambda index: self._is_signed(first[index], first[index].position))
        if not length and self._bytes_max < RUN_BYTES_MAX and len(rows) < len(self._reading):
            return None
        sent = first[: length or len(first)]
        if self._bytes_max > CHUNK_BYTES and not fits(Operations.of(self._document, 0, sent)):
            return sent[: len(sent) // 4 or 1]
        return sent

    # --- what the other side says -----------------------------------------------------------------------------------

    def acknowledged(self, numbers: Iterable[int]) -> None:
        self._moved = True
        for number in numbers:
            self._flight.pop(number, None)

    def withheld(self, holdings: Holdings, waits: Iterable[tuple[Position, Wait]], now: int) -> None:
        self.held_back.hold(holdings.graph, [(position, now + wait.microseconds) for position, wait in waits])

    def refused(self, holdings: Holdings, positions: Iterable[Position]) -> None:
        self.held_back.hold(holdings.graph, [(position, FOR_LIFE) for position in positions])


def _parents(new: NewOperation, graph: Graph) -> Iterable[Position]:
    """Where its parents stand; the predecessor on the same stretch is implied."""
    yield from new.deps
    stretch = graph.stretches[new.position.stretch]
    if stretch.base is not None and stretch.first == new.position.seq:
        yield stretch.base
