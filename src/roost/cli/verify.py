"""roost verify"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import ask
from roost.core.errors import Unverified


@click.command()
@click.argument("session")
def verify(session: str) -> None:
    """Check every stored byte of a session.

    Hashes, chains and signatures are computed again from what is on the disk. Exit code 7 if one does not fit.
    """
    bad: object = None
    for row in ask("verify", session=session):
        bad = row["first_bad"]
        verdict = "all hashes, chains and signatures fit" if row["ok"] else f"the first bad one is {bad}"
        output.emit(row, f"{display.count(row['operations'], 'operation')} checked: {verdict}")
        if not row["ok"]:
            raise Unverified(str(bad))
