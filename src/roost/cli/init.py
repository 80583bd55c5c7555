"""roost init"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import ask


@click.command()
@click.option("--name", metavar="NAME", help="What this peer calls itself: a label that others see.")
def init(name: str | None) -> None:
    """Make this peer's data directory and key.

    What is there already stays: run it as often as you like.
    """
    for row in ask("init", name=name):
        output.emit(row, f"peer {display.short(row['peer'])}, named {row['name']}, in {row['home']}")
