"""roost access"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask, strings
from roost.cli.share import ROLES


@click.group()
def access() -> None:
    """Show and change who may do what in a session."""


@access.command("list")
@click.argument("session")
def list_members(session: str) -> None:
    """List the keys that hold or held a role."""
    columns = ("key", "role", "by", "rank", "revoked")
    display.table(ask("access_list", session=session), columns, ids=["key", "by"])


@access.command()
@click.argument("session")
@click.argument("key")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What the key may do.")
def grant(session: str, key: str, role: str) -> None:
    """Give a key a role.

    KEY has 64 hex digits; on that peer "roost status --json" shows it.
    """
    for row in ask("access_grant", session=session, key=key, role=role):
        output.emit(row, f"{display.short(row['key'])} may {row['role']} now")


@access.command()
@click.argument("session")
@click.argument("key")
@click.option("--yes", is_flag=True, help="Do not ask first.")
def revoke(session: str, key: str, yes: bool) -> None:
    """Take a key's roles away.

    What it wrote and this peer has not seen yet turns void, everywhere; what was seen stays.
    """
    display.confirm(f"Take every role of {key[:16]} away? What it wrote unseen turns void.", yes=yes)
    for row in ask("access_revoke", session=session, key=key):
        voided = display.count(row["voided"], "operation")
        output.emit(row, f"{display.short(row['key'])} has no role any more; {voided} turned void{_closed(row)}")


def _closed(row: Row) -> str:
    """The tickets that ended with it: others who have them have to ask for new ones."""
    closed = ", ".join(map(display.short, strings(row, "invites_closed")))
    return f"; ended too, for all who have them: tickets {closed}" if closed else ""


@access.command()
@click.argument("session")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def admit(session: str, ids: tuple[str, ...]) -> None:
    """Let operations count that a removal made void."""
    for row in ask("access_admit", session=session, ids=list(ids)):
        output.emit(row, f"admitted by {display.short(row['operation'])}")
