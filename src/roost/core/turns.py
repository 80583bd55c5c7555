"""What one side of a comparison says in its turn, cut into messages that fit a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from roost.core.errors import TooLarge
from roost.core.graph import LogKey
from roost.core.have import LogTips
from roost.core.ids import OperationId
from roost.core.wire import IDS_MAX, PARTS_MAX, LogIds

Item = TypeVar("Item")


class Piece(NamedTuple):
    """The lists of one Compare message, in its order."""

    tips: tuple[LogTips, ...]
    locate: tuple[LogIds, ...]
    held: tuple[LogIds, ...]
    extra: tuple[LogIds, ...]
    common: tuple[LogIds, ...]


class Turn:
    """The lists of a Compare message while they are put together."""

    def __init__(self) -> None:
        self.tips: list[LogTips] = []
        self.locate: list[LogIds] = []
        self.held: list[LogIds] = []
        self.extra: list[LogIds] = []
        self.common: list[LogIds] = []

    def __bool__(self) -> bool:
        return bool(self.tips or self.locate or self.held or self.extra or self.common)

    def cut(self) -> list[Piece]:
        """As many pieces as it takes, at least one."""
        pieces: list[Piece] = []
        tips: list[LogTips] = []
        lists: tuple[list[LogIds], ...] = ([], [], [], [])
        room = IDS_MAX

        def full(weight: int) -> None:
            nonlocal tips, lists, room
            if weight > room:
                pieces.append(Piece(tuple(tips), *map(tuple, lists)))
                tips, lists, room = [], ([], [], [], []), IDS_MAX
            room -= weight

        for part in (part for log in self.tips for part in _split_tips(log)):
            full(1 + len(part.tips))
            tips.append(part)
        for index, named in enumerate((self.locate, self.held, self.extra, self.common)):
            for one in (part for log in named for part in _split_ids(log)):
                full(1 + len(one.ids))
                lists[index].append(one)
        pieces.append(Piece(tuple(tips), *map(tuple, lists)))
        return pieces


def cut_ids(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Pieces of at most IDS_MAX items, at least one piece."""
    return [tuple(items[at : at + IDS_MAX]) for at in range(0, len(items), IDS_MAX)] or [()]


def cut_logs(have: Sequence[LogTips]) -> list[tuple[LogTips, ...]]:
    """Pieces of at most IDS_MAX logs and tips, at least one piece."""
    turn = Turn()
    turn.tips.extend(have)
    return [piece.tips for piece in turn.cut()]


def numbered(pieces: Sequence[Item]) -> list[tuple[int, Item]]:
    """Pieces with their number. Raises TooLarge: a document of half a million logs cannot be compared."""
    if len(pieces) > PARTS_MAX:
        raise TooLarge("comparison")
    return list(enumerate(pieces))


def by_log(lists: Iterable[LogIds]) -> dict[LogKey, list[OperationId]]:
    """Put together what was cut."""
    found: dict[LogKey, list[OperationId]] = {}
    for one in lists:
        found.setdefault(LogKey(one.author, one.log), []).extend(one.ids)
    return found


def _split_tips(log: LogTips) -> Iterator[LogTips]:
    step = IDS_MAX - 1
    for at in range(0, max(1, len(log.tips)), step):
        yield LogTips(log.author, log.log, log.tips[at : at + step])


def _split_ids(log: LogIds) -> Iterator[LogIds]:
    step = IDS_MAX - 1
    for at in range(0, max(1, len(log.ids)), step):
        yield LogIds(log.author, log.log, log.ids[at : at + step])
