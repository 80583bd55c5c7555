"""roost share"""

from __future__ import annotations

import re

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask
from roost.core.errors import Usage

ROLES = ("read", "write", "admin")
LIFETIME_SECONDS_MAX = 100 * 365 * 24 * 3600  # the format's times end in the year 2255

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
_MEANS = {"read": "read it", "write": "read and write in it", "admin": "do all in it, and let others in"}


@click.command()
@click.argument("session")
@click.option("--role", type=click.Choice(ROLES), default="write", show_default=True, help="What the ticket grants.")
@click.option(
    "--expires",
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How long it lets people in: a number with s, m, h, d or w, or never.",
)
@click.option("--uses", type=click.IntRange(min=1), metavar="N", help="How many peers it lets in; else any number.")
@click.option("--no-invite", is_flag=True, help="Grant nothing: whoever comes with it must be let in by an admin.")
@click.option("--yes", is_flag=True, help="Do not ask first.")
def share(session: str, role: str, expires: str, uses: int | None, no_invite: bool, yes: bool) -> None:
    """Make a ticket that lets others into a session.

    Whoever holds the ticket may use it: send it as you would send a password. It asks first on a terminal.
    """
    lifetime = _seconds(expires)
    until = "for ever" if lifetime is None else f"for {expires}"
    grants = "ask to be let in" if no_invite else _MEANS[role]
    display.confirm(f"Whoever has the ticket may {grants}; it opens {until}. Make it?", yes=yes)
    for row in ask("share", session=session, role=role, lifetime_seconds=lifetime, uses=uses, invite=not no_invite):
        output.emit(row, str(row["ticket"]))
        display.note(_note(row))


def _note(row: Row) -> str:
    expires = row["expires"]
    until = "never expires" if expires is None else f"expires {display.local_time(expires)}"
    return f"ticket {display.short(row['id'])} {until}; the other side runs: roost sync TICKET, with quotes around it"


def _seconds(text: str) -> int | None:
    """How long "90s", "2d" or "1w" is; None for "never"."""
    if text == "never":
        return None
    match = re.fullmatch(r"([0-9]{1,10})([smhdw])", text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 0 < seconds <= LIFETIME_SECONDS_MAX:
        raise Usage("--expires takes a number with s, m, h, d or w, such as 2d, at most 100 years, or never")
    return seconds
