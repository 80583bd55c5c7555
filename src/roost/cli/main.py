"""The ``roost`` command: the table of commands, help in groups, and what an error looks like to the person.

A command's module is imported only when that command runs or shows its help, so ``roost --version`` and
``roost --help`` load nothing of the peer.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import click

from roost import __version__
from roost.cli import output
from roost.cli.settings import Settings, accept_global_options
from roost.core.errors import RoostError

EXIT_OTHER = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count


class Section(StrEnum):
    """The groups of ``roost --help``, in the order in which it shows them."""

    EVERYDAY = "Everyday"
    SHARING = "Sharing"
    AGENTS = "Agents"
    INSPECT = "Inspect"
    REPAIR = "Repair"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command that can be listed without being imported."""

    name: str
    target: str  # "package.module:function", the click command
    section: Section
    summary: str  # one line for `roost --help`; the first line of the command's own help says the same


COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry("init", "roost.cli.init:init", Section.EVERYDAY, "Make this peer's data directory and key."),
    CommandEntry("up", "roost.cli.up:up", Section.EVERYDAY, "Run this peer until it is interrupted."),
    CommandEntry("new", "roost.cli.new:new", Section.EVERYDAY, "Found a session."),
    CommandEntry("send", "roost.cli.send:send", Section.EVERYDAY, "Write an entry, or with --jsonl one per line."),
    CommandEntry("log", "roost.cli.log:log", Section.EVERYDAY, "Show a session's entries, the newest last."),
    CommandEntry(
        "follow",
        "roost.cli.follow:follow",
        Section.EVERYDAY,
        "Show a session's entries as they are written, until interrupted.",
    ),
    CommandEntry(
        "sessions",
        "roost.cli.sessions:sessions",
        Section.EVERYDAY,
        "List the sessions on this peer, the latest changed first.",
    ),
    CommandEntry("name", "roost.cli.name:name", Section.EVERYDAY, "Name a session."),
    CommandEntry("set", "roost.cli.set:set_value", Section.EVERYDAY, "Set a value in a session's shared state."),
    CommandEntry(
        "import",
        "roost.cli.import_files:import_files",
        Section.EVERYDAY,
        "Import agents' transcript files, each into a session.",
    ),
    CommandEntry("share", "roost.cli.share:share", Section.SHARING, "Make a ticket that lets others into a session."),
    CommandEntry(
        "sync", "roost.cli.sync:sync", Section.SHARING, "Join a session by its ticket, or exchange now with all peers."
    ),
    CommandEntry(
        "tickets",
        "roost.cli.tickets:tickets",
        Section.SHARING,
        "List the tickets that this peer gave out, without their secrets.",
    ),
    CommandEntry(
        "unshare",
        "roost.cli.unshare:unshare",
        Section.SHARING,
        "End a session's tickets and revoke those who came in by them.",
    ),
    CommandEntry("access", "roost.cli.access:access", Section.SHARING, "Show and change who may do what in a session."),
    CommandEntry("status", "roost.cli.status:status", Section.INSPECT, "Show how this peer, or one session, is doing."),
    CommandEntry(
        "state", "roost.cli.state:state", Section.INSPECT, "Show a session's shared state: its maps and notes."
    ),
    CommandEntry(
        "heads",
        "roost.cli.heads:heads",
        Section.INSPECT,
        "Show a session's heads: two peers that show the same hold the same.",
    ),
    CommandEntry(
        "routes",
        "roost.cli.routes:routes",
        Section.INSPECT,
        "List every HTTP route of this peer, and what it asks for.",
    ),
    CommandEntry("verify", "roost.cli.verify:verify", Section.REPAIR, "Check every stored byte of a session."),
)


class CommandTable(click.Group):
    """``roost`` itself: finds its commands in a table and lets every one of them take the global options."""

    def __init__(self, entries: Sequence[CommandEntry] = COMMANDS) -> None:
        super().__init__(
            name="roost",
            callback=_without_command,
            params=[click.Option(["--version"], is_flag=True, help="Print the version.")],
            help="A peer node for AI-agent sessions. Start with: roost init, roost new, roost up.",
            epilog="--home, --json and --debug may stand anywhere on the line.",
            context_settings={"help_option_names": ["-h", "--help"]},
            invoke_without_command=True,
            no_args_is_help=True,
            subcommand_metavar="COMMAND [ARGS]...",
        )
        self._entries = {entry.name: entry for entry in entries}
        accept_global_options(self, hidden=False)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and (entry := self._entries.get(cmd_name)):
            self.add_command(_load(entry))
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # it knows only the loaded commands to name near ones
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self._entries, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in Section:
            rows = [(entry.name, entry.summary) for entry in self._entries.values() if entry.section is section]
            if rows:
                with formatter.section(section.value):
                    formatter.write_dl(rows)


def _load(entry: CommandEntry) -> click.Command:
    module, _, name = entry.target.partition(":")
    command = getattr(importlib.import_module(module), name)
    assert isinstance(command, click.Command), f"{entry.target} is no click command"
    command.name = entry.name
    _accept_everywhere(command)
    return command


def _accept_everywhere(command: click.Command) -> None:
    accept_global_options(command, hidden=True)  # `roost --help` shows them once for all
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _accept_everywhere(inner)


def _without_command(version: bool) -> None:
    context = click.get_current_context()
    if version:
        output.emit({"version": __version__}, f"roost {__version__}")
        context.exit()
    if context.invoked_subcommand is None:
        raise click.UsageError("Missing command.", ctx=context)


def main(arguments: Sequence[str] | None = None, *, commands: Sequence[CommandEntry] = COMMANDS) -> int:
    """Run the command line and return its exit code; every failure is told on standard error."""
    settings = Settings()
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments), settings, commands)
        sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  # the outermost frame; native code panics with what is no Exception
        code = _report(_cause(error), settings)
    return code


def _run(arguments: list[str], settings: Settings, commands: Sequence[CommandEntry]) -> int:
    with CommandTable(commands).make_context("roost", arguments, obj=settings) as context:
        context.command.invoke(context)
    return 0


def _cause(error: BaseException) -> BaseException:
    """Return what went wrong first in tasks that ran together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report(error: BaseException, settings: Settings) -> int:
    """Tell the person what went wrong and return the exit code for it."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return error.exit_code
        case click.ClickException():
            output.say_error(_in_one_line(error))
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            return EXIT_INTERRUPTED
        case OSError(errno=errno.EPIPE):
            _forget_standard_output()
            return EXIT_OTHER
    if settings.debug:
        traceback.print_exception(error)
    if isinstance(error, RoostError):
        output.say_error(str(error))
        return error.exit_code
    hint = "" if settings.debug else "; run with --debug for the whole story"
    output.say_error(f"{type(error).__name__}: {error}{hint}")
    return EXIT_OTHER


def _in_one_line(error: click.ClickException) -> str:
    """What click found wrong with the line, and where to read how it goes."""
    text = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{text} ({'roost' if context is None else context.command_path} --help shows how)"


def _forget_standard_output() -> None:
    """Let the interpreter's last flush go nowhere: whoever read our output has stopped, and that is no news to them."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
