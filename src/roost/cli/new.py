"""roost new"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import ask

MODES = ("persistent", "incognito", "temporary")


@click.command()
@click.argument("name", required=False)
@click.option("--mode", type=click.Choice(MODES), default="persistent", show_default=True, help="What is kept of it.")
def new(name: str | None, mode: str) -> None:
    """Found a session."""
    for row in ask("new", name=name, mode=mode):
        output.emit(row, f"session {display.session_label(row)}")
