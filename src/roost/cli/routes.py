"""roost routes"""

from __future__ import annotations

import click

from roost.cli import display, settings
from roost.cli.asking import ask
from roost.cli.client import running_peer
from roost.core.errors import NotRunning


@click.command()
def routes() -> None:
    """List every HTTP route of this peer, and what it asks for."""
    if running_peer(settings.current().data_directory()) is None:
        raise NotRunning("without it nothing is served")
    display.table(ask("routes"), ("method", "path", "auth"))
