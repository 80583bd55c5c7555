"""roost follow"""

from __future__ import annotations

import click

from roost.cli import display, output, settings
from roost.cli.asking import ask
from roost.cli.client import running_peer
from roost.core.errors import NotRunning


@click.command()
@click.argument("session")
@click.option(
    "-n", "newest", type=click.IntRange(min=0), default=20, show_default=True, help="Begin with the newest N."
)
def follow(session: str, newest: int) -> None:
    """Show a session's entries as they are written, until interrupted."""
    if running_peer(settings.current().data_directory()) is None:
        # To follow in this process would keep every other one out: nothing could ever come.
        raise NotRunning("without it nothing new comes; roost log shows what is here")
    ids = display.ShortIds()
    for row in ask("follow", session=session, n=newest):
        output.emit(row, display.entry_text(row, ids))
    raise NotRunning("it was stopped; all that it wrote until then is shown")
