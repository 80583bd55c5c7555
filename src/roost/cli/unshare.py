"""roost unshare"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask, strings


@click.command()
@click.argument("session")
@click.argument("ticket", required=False, metavar="[ID]")
@click.option("--keep-members", is_flag=True, help="End the tickets only; who came in by them stays.")
def unshare(session: str, ticket: str | None, keep_members: bool) -> None:
    """End a session's tickets and revoke those who came in by them.

    With ID (roost tickets shows them) only that ticket. Says who still has access.
    """
    for row in ask("unshare", session=session, id=ticket, keep_members=keep_members):
        output.emit(row, _text(row))


def _text(row: Row) -> str:
    revoked, members = strings(row, "revoked"), strings(row, "members")
    short = display.short_ids([*revoked, *members])
    named = ", ".join(short[key] for key in revoked) or "nobody"
    left = ", ".join(short[key] for key in members) or "nobody but the owner"
    return f"revoked: {named}\nstill have access: {left}"
