"""roost heads"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask, strings


@click.command()
@click.argument("session")
def heads(session: str) -> None:
    """Show a session's heads: two peers that show the same hold the same."""
    for row in ask("heads", session=session):
        output.emit(row, _text(row))


def _text(row: Row) -> str:
    short = display.short_ids(strings(row, "heads"))
    counts = f"{row['operations']} operations, {row['void']} void, {row['parked']} parked"
    return "\n".join([*short.values(), counts])
