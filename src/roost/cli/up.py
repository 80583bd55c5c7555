"""roost up"""

from __future__ import annotations

import signal
from pathlib import Path

import click

from roost.cli import display, output, settings

LISTEN_DEFAULT = "127.0.0.1:7777"


@click.command()
@click.option(
    "--listen",
    "listens",
    multiple=True,
    metavar="HOST:PORT",
    help=f"Where to answer; may be given again. Port 0 takes any free one.  [default: {LISTEN_DEFAULT}]",
)
@click.option(
    "--advertise", multiple=True, metavar="URL", help="Where others reach it, for tickets; may be given again."
)
@click.option("--behind-proxy", is_flag=True, help="A proxy before it speaks TLS.")
@click.option("--insecure", is_flag=True, help="Answer beyond this machine without TLS: others can read all of it.")
@click.option("--name", metavar="NAME", help="What this peer calls itself: a label that others see.")
def up(
    listens: tuple[str, ...], advertise: tuple[str, ...], behind_proxy: bool, insecure: bool, name: str | None
) -> None:
    """Run this peer until it is interrupted.

    It keeps its sessions in sync with all peers that hold them; every other command goes through it. SIGINT (Ctrl-C)
    and SIGTERM stop it cleanly.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also while the rest is still being imported
    try:
        _serve(
            settings.current().data_directory(), listens or (LISTEN_DEFAULT,), advertise, behind_proxy, insecure, name
        )
    except KeyboardInterrupt:
        return


def _serve(
    home: Path,
    listens: tuple[str, ...],
    advertise: tuple[str, ...],
    behind_proxy: bool,
    insecure: bool,
    name: str | None,
) -> None:
    import asyncio  # here, so that `roost --help` stays quick

    from roost.web.run import up as run_peer

    async def run_until_stopped() -> None:
        running = asyncio.ensure_future(
            run_peer(
                home,
                listens=listens,
                advertise=advertise,
                name=name,
                behind_proxy=behind_proxy,
                insecure=insecure,
                on_ready=_say_ready,
            )
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, running.cancel)
        try:
            await running
        except asyncio.CancelledError:
            if not running.cancelled():
                raise

    asyncio.run(run_until_stopped())


def _say_ready(peer: str, url: str) -> None:
    output.emit(
        {"event": "ready", "peer": peer, "url": url},
        f"a peer is running: {url}\nit is {display.short(peer)}; share a session: roost share SESSION; stop it: Ctrl-C",
    )
