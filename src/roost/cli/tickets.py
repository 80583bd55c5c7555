"""roost tickets"""

from __future__ import annotations

import click

from roost.cli import display
from roost.cli.asking import ask


@click.command()
def tickets() -> None:
    """List the tickets that this peer gave out, without their secrets."""
    columns = ("id", "session", "name", "role", "state", "expires", "uses", "uses_max")
    display.table(ask("tickets"), columns, ids=["id", "session"], times=["expires"])
