"""roost sessions"""

from __future__ import annotations

import click

from roost.cli import display
from roost.cli.asking import ask


@click.command()
@click.option("--all", "all_modes", is_flag=True, help="Incognito and temporary ones too.")
def sessions(all_modes: bool) -> None:
    """List the sessions on this peer, the latest changed first."""
    columns = ("session", "name", "entries", "role", "updated", "origin")
    display.table(ask("sessions", all=all_modes), columns, ids=["session"], times=["updated"])
