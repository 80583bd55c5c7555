"""roost log"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import ask


@click.command()
@click.argument("session")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N entries; 50 if not told otherwise.")
@click.option("--after", metavar="ENTRY", help="Only what comes after this entry, the oldest first N.")
@click.option("--before", metavar="ENTRY", help="Only what comes before this entry.")
@click.option("--all", "all_branches", is_flag=True, help="All branches, without limit.")
def log(session: str, limit: int | None, after: str | None, before: str | None, all_branches: bool) -> None:
    """Show a session's entries, the newest last.

    Without --all: the current branch.
    """
    ids = display.ShortIds()
    for row in ask("log", session=session, limit=limit, after=after, before=before, all=all_branches):
        output.emit(row, display.entry_text(row, ids))
