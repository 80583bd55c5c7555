"""roost sync"""

from __future__ import annotations

import sys

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask
from roost.cli.share import ROLES
from roost.core.errors import Pending

TICKET_CHARS_MAX = 64 << 10  # what standard input may hold, blanks included; more is no ticket


@click.command()
@click.argument("ticket", required=False)
@click.option("--name", metavar="LOCAL", help="What to call the session on this peer.")
@click.option("--role", type=click.Choice(ROLES), help="The role to ask for, where the ticket grants none by itself.")
@click.option(
    "--wait", type=click.FloatRange(min=0), default=30.0, show_default=True, metavar="SECONDS", help="How long to wait."
)
def sync(ticket: str | None, name: str | None, role: str | None, wait: float) -> None:
    """Join a session by its ticket, or exchange now with all peers.

    TICKET "-" is read from standard input, so that it stands in no shell's history. Exit code 5 when the time is over
    before all is here: the peer goes on with it by itself, and keeps the session in sync afterwards.
    """
    if ticket == "-":
        ticket = sys.stdin.read(TICKET_CHARS_MAX + 1)
    pending = False
    for row in ask("sync", ticket=ticket, name=name, role=role, wait_seconds=wait):
        output.emit(row, _text(row))
        pending |= row["status"] == "pending"
    if pending:
        raise Pending("nobody else who holds it could be reached in time")


def _text(row: Row) -> str:
    return f"{row['status']}: {display.session_label(row)}, {display.count(row['entries'], 'entry')}"
