"""What the person set for all commands: --home, --json, --debug, accepted anywhere on the line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(slots=True)
class Settings:
    """Filled while click parses; complete when a command's function runs."""

    home: Path | None = None
    json: bool = False
    debug: bool = False

    def data_directory(self) -> Path:
        """The peer's data directory: --home, else ROOST_HOME, else where this system keeps an application's data."""
        if self.home is not None:
            return self.home
        if named := os.environ.get("ROOST_HOME"):
            return Path(named).absolute()
        from platformdirs import user_data_path  # here, so that a command given --home need not load it

        return user_data_path("roost", appauthor=False)


def current() -> Settings:
    """The settings of the command that is running on this thread."""
    settings = click.get_current_context().find_object(Settings)
    assert settings is not None, "main() gives every context its settings"
    return settings


class GlobalOption(click.Option):
    """An option that every command takes."""


def accept_global_options(command: click.Command, *, hidden: bool) -> None:
    """Let ``command`` take the global options too, so that they may stand before or after its name.

    Each level of the line is parsed by its own command, so ``--`` and an option's value (``--as --json``) mean what
    they always mean, which a search through the arguments could not know.
    """
    if any(isinstance(parameter, GlobalOption) for parameter in command.params):
        return  # commands are made once per process, tables of them more often
    command.params += [
        GlobalOption(
            ["--home"],
            type=click.Path(file_okay=False),
            metavar="DIR",
            callback=_set_home,
            expose_value=False,
            hidden=hidden,
            help="Data directory of the peer; else ROOST_HOME, else this system's usual place.",
        ),
        GlobalOption(
            ["--json"],
            is_flag=True,
            callback=_set_json,
            expose_value=False,
            hidden=hidden,
            help="Print one JSON object per line.",
        ),
        GlobalOption(
            ["--debug"],
            is_flag=True,
            callback=_set_debug,
            expose_value=False,
            is_eager=True,  # so that what goes wrong while the others are parsed is shown in full too
            hidden=hidden,
            help="Show the whole traceback of an error.",
        ),
    ]


def _set_home(context: click.Context, _option: click.Parameter, home: str | None) -> None:
    if home is None:
        return
    if not home.strip():
        raise click.BadParameter("name a directory", ctx=context, param_hint="--home")
    context.ensure_object(Settings).home = Path(home).absolute()  # a running peer may have another working directory


def _set_json(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    context.ensure_object(Settings).json |= wanted


def _set_debug(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    context.ensure_object(Settings).debug |= wanted
