"""What surfaces can ask of a peer: one asynchronous generator per command, arguments and rows as plain JSON values.

The command line, the local API and slash commands call the same functions, in this process or through the peer that
runs. docs/cli.md gives the rows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from roost.core.errors import Usage
from roost.node.transcript import Json

if TYPE_CHECKING:
    from roost.node.peer import Peer

Rows: TypeAlias = AsyncGenerator[dict[str, Json], None]
Command: TypeAlias = "Callable[[Peer, Mapping[str, Json]], Rows]"

Arguments = TypeVar("Arguments", bound=msgspec.Struct)


def parse(arguments: Mapping[str, Json], form: type[Arguments]) -> Arguments:
    """Check a command's arguments at the border. Raises Usage."""
    try:
        return msgspec.convert(arguments, form)
    except msgspec.ValidationError as error:
        raise Usage(str(error)) from error


def registry() -> Mapping[str, Command]:
    """Every command by its name."""
    from roost.node.commands import reading, sharing, writing

    commands = {**writing.COMMANDS, **reading.COMMANDS, **sharing.COMMANDS}
    return {name: _routed(command) for name, command in commands.items()}


def _routed(command: Command) -> Command:
    """The command, run where the session that it names is kept: temporary ones are in memory."""

    async def run(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
        named = arguments.get("session")
        kept = peer.temporary if isinstance(named, str) and peer.is_temporary(named) else peer
        async with aclosing(command(kept, arguments)) as rows:
            async for row in rows:
                yield row

    return run
