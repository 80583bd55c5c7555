"""roost routes"""

from __future__ import annotations

import click

from roost.cli import display
from roost.cli.asking import ask


@click.command()
def routes() -> None:
    """List every HTTP route of this peer, and what it asks for."""
    display.table(ask("routes"), ("method", "path", "auth"))
