"""roost status"""

from __future__ import annotations

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask, rows


@click.command()
@click.argument("session", required=False)
def status(session: str | None) -> None:
    """Show how this peer, or one session, is doing."""
    for row in ask("status", session=session):
        output.emit(row, _peer_text(row) if session is None else _session_text(row))


def _peer_text(row: Row) -> str:
    fields = {
        "peer": f"{display.short(row['peer'])} ({output.safe_text(str(row['name']))})",
        "running": row["url"] if row["running"] else "no; start it: roost up",
        "sessions": row["sessions"],
    }
    return "\n".join([*_aligned(fields), *_links(row)])


def _session_text(row: Row) -> str:
    fields = {
        "session": display.session_label(row),
        "kind": f"{row['kind']}, {row['mode']}",
        "role": row["role"] or "none",
        "entries": f"{row['entries']} in {display.count(row['operations'], 'operation')}",
        "last sync": display.local_time(row["last_sync"]),
    }
    return "\n".join([*_aligned(fields), *_links(row)])


def _aligned(fields: Row) -> list[str]:
    width = max(map(len, fields))
    return [f"{name:<{width}}  {value}" for name, value in fields.items()]


def _links(row: Row) -> list[str]:
    return [
        f"link  {display.short(link['peer'])}  {link['state']} since {display.local_time(link['since'])}"
        f"  {output.safe_text(str(link['url'] or '-'))}"
        for link in rows(row, "links")
    ]
