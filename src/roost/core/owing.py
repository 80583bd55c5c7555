"""Contents that are absent: each is asked for once per link, and who lacks it owes it while the link lives.

Source: docs/protocol.md "Sync".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roost.core.errors import TooLarge
from roost.core.ids import DocumentId, OperationId
from roost.core.wire import CONTENTS_MAX, Contents, WantContents

ASKED_MAX = 1 << 16  # per link and document: 64 Ki ids are 6 MB here, and as many debts on the other side
FRAME_CONTENT_BYTES = 512 << 10  # of contents in one frame, or one that is larger


class Owing:
    """What was asked for on one link, in both directions."""

    def __init__(self, document: DocumentId) -> None:
        self._document = document
        self.asked: set[OperationId] = set()
        self._owed: set[OperationId] = set()
        self._wanted = 0  # how many the other side has asked for

    def ask(self, ids: Iterable[OperationId]) -> list[WantContents]:
        """Ask for what was not asked for before."""
        new = [identity for identity in dict.fromkeys(ids) if identity not in self.asked]
        new = new[: ASKED_MAX - len(self.asked)]
        self.asked.update(new)
        return [
            WantContents(self._document, tuple(new[at : at + CONTENTS_MAX])) for at in range(0, len(new), CONTENTS_MAX)
        ]

    def take(self, ids: Sequence[OperationId]) -> None:
        """The other side asks for contents. Raises TooLarge when it has asked for more than an honest one can."""
        self._wanted += len(ids)
        if self._wanted > ASKED_MAX:
            raise TooLarge("contents asked for")

    def give(self, contents: Sequence[tuple[OperationId, bytes | None]]) -> list[Contents]:
        """Messages with the contents that are here; the others are owed."""
        messages: list[Contents] = []
        piece: list[tuple[OperationId, bytes]] = []
        size = 0
        for identity, content in contents:
            if content is None:
                if len(self._owed) < ASKED_MAX:
                    self._owed.add(identity)
                continue
            self._owed.discard(identity)
            if piece and size + len(content) > FRAME_CONTENT_BYTES:
                messages.append(Contents(self._document, tuple(piece)))
                piece, size = [], 0
            piece.append((identity, content))
            size += len(content)
        if piece:
            messages.append(Contents(self._document, tuple(piece)))
        return messages

    def due(self, ids: Iterable[OperationId]) -> tuple[OperationId, ...]:
        """Those of the contents that have come which are owed."""
        return tuple(identity for identity in ids if identity in self._owed)

    def expected(self, message: Contents) -> tuple[tuple[OperationId, bytes], ...]:
        """Those contents that were asked for; nobody fills this peer's memory with others."""
        return tuple(item for item in message.contents if item[0] in self.asked)
