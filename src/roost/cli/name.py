"""roost name"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import ask


@click.command()
@click.argument("session")
@click.argument("name")
def name(session: str, name: str) -> None:
    """Name a session.

    The name is this peer's own; who may write in the session also proposes it to the others.
    """
    for row in ask("name", session=session, name=name):
        output.emit(row, f"session {display.session_label(row)}")
