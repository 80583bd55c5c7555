"""Ask the peer of the data directory that the person named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from roost.cli import settings
from roost.cli.client import call

if TYPE_CHECKING:
    from roost.node.transcript import Json

Row = Mapping[str, "Json"]


def ask(command: str, **arguments: Json) -> Iterator[Row]:
    """The rows of one of the peer's commands (roost.node.commands), each as soon as it is there."""
    return call(settings.current().data_directory(), command, arguments)


def strings(row: Row, field: str) -> list[str]:
    """A field that holds a list of ids or keys."""
    found = row[field]
    assert isinstance(found, list), field
    return [str(item) for item in found]


def rows(row: Row, field: str) -> list[Row]:
    """A field that holds a list of rows."""
    found = row[field]
    assert isinstance(found, list), field
    return [item for item in found if isinstance(item, Mapping)]
