"""roost follow"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import ask
from roost.core.errors import Unreachable


@click.command()
@click.argument("session")
@click.option(
    "-n", "newest", type=click.IntRange(min=0), default=20, show_default=True, help="Begin with the newest N."
)
def follow(session: str, newest: int) -> None:
    """Show a session's entries as they are written, until interrupted."""
    ids = display.ShortIds()
    for row in ask("follow", session=session, n=newest):
        output.emit(row, display.entry_text(row, ids))
    raise Unreachable("it was stopped; what it wrote until then is shown")
