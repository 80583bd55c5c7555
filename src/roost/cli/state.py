"""roost state"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import click

from roost.cli import display, output
from roost.cli.asking import Row, ask, strings


@click.command()
@click.argument("session")
def state(session: str) -> None:
    """Show a session's shared state: its maps and notes."""
    for row in ask("state", session=session):
        output.emit(row, "\n".join(_lines(row)))


def _lines(row: Row) -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield name if value else f"{name}  (empty)"
            width = max((len(output.safe_text(key)) for key in value), default=0)
            for key, item in value.items():
                yield f"  {output.safe_text(key):<{width}}  {json.dumps(item, ensure_ascii=False)}"
    notes = str(row["notes"])
    yield "notes" if notes else "notes  (empty)"
    for line in notes.splitlines():
        yield f"  {output.safe_text(line)}"
    yield "automerge_heads  " + " ".join(map(display.short, strings(row, "automerge_heads")))
