from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from roost import __version__
from roost.cli import output, settings
from roost.cli.main import COMMANDS, CommandEntry, CommandTable, Section, main
from roost.core.errors import NotAWriter

HEAVY = ["aiohttp", "asyncio", "automerge", "nacl", "rich", "tiktoken"]

# Commands as a noun's file would hold them; the table finds them here by name.


@click.command()
@click.argument("session")
@click.argument("text")
@click.option("--as", "sender")
def say(session: str, text: str, sender: str | None) -> None:
    """Say something."""
    output.emit({"session": session, "text": text, "sender": sender, "home": str(settings.current().data_directory())})


@click.group()
def access() -> None:
    """Who may do what."""


@access.command("list")
def access_list() -> None:
    """List keys."""
    output.emit({"home": str(settings.current().data_directory())})


@click.command()
@click.argument("how")
def fail(how: str) -> None:
    """Fail."""
    failures: dict[str, Callable[[], BaseException]] = {
        "typed": lambda: NotAWriter("key 12\n34"),
        "unknown": lambda: ZeroDivisionError("by nought"),
        "together": lambda: BaseExceptionGroup("tasks", [ExceptionGroup("tasks", [NotAWriter()])]),
        "panic": lambda: BaseException("native code gave up"),
        "interrupted": KeyboardInterrupt,
    }
    raise failures[how]()


def entry(name: str, function: str, section: Section = Section.EVERYDAY) -> CommandEntry:
    return CommandEntry(name, f"{__name__}:{function}", section, f"Does {name}.")


TABLE = (
    entry("say", "say"),
    entry("access", "access", Section.SHARING),
    entry("fail", "fail"),
    CommandEntry("elsewhere", "roost_no_such_module:command", Section.REPAIR, "Is never loaded."),
)


def run(*arguments: str) -> int:
    return main(arguments, commands=TABLE)


@pytest.mark.parametrize(
    "line",
    [
        "--json --home d say s hi",
        "--json say s hi --home d",
        "say --home d s --json hi",
        "say s hi --json --home=d",
        "--home other --json say s hi --home d",
    ],
)
def test_global_options_stand_anywhere_and_the_nearest_home_counts(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line.split()) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"session": "s", "text": "hi", "sender": None, "home": str(Path("d").absolute())}


@pytest.mark.parametrize(
    "line", ["access list --json --home d", "access --json --home d list", "--home d --json access list"]
)
def test_global_options_stand_anywhere_among_nested_commands(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*line.split()) == 0
    assert json.loads(capsys.readouterr().out) == {"home": str(Path("d").absolute())}


def test_what_follows_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "say", "s", "--", "--debug") == 0
    assert json.loads(capsys.readouterr().out)["text"] == "--debug"


def test_an_options_value_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", "say", "s", "hi", "--as", "--debug") == 0
    assert json.loads(capsys.readouterr().out)["sender"] == "--debug"


def test_without_home_the_environment_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROOST_HOME", str(tmp_path))
    assert run("access", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"home": str(tmp_path)}


def test_without_any_home_it_is_the_systems_place_for_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ROOST_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert run("access", "list", "--json") == 0
    home = Path(json.loads(capsys.readouterr().out)["home"])
    assert home.name == "roost"
    assert home.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--json",
        "nonsense",
        "say",
        "say s hi more",
        "say s hi --nonsense",
        "say s hi --home",
        "--home  say",
        "access more",
    ],
)
def test_a_line_that_is_not_understood_exits_2_and_prints_no_result(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line.split(" ") if line else []) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err
    if line:  # else it is the help
        assert printed.err.startswith("error: ")
        assert printed.err.endswith(" --help shows how)\n")
        assert printed.err.count("\n") == 1


def test_the_working_directory_may_be_the_home(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("access", "list", "--json", "--home", ".") == 0
    assert json.loads(capsys.readouterr().out) == {"home": str(tmp_path)}


def test_an_unknown_command_is_answered_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("acess") == 2
    assert "access" in capsys.readouterr().err


def test_a_typed_error_is_one_line_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fail", "typed") == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"error: {NotAWriter.__doc__} (key 12\\n34)\n"


def test_an_error_among_tasks_is_told_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fail", "together") == 4
    assert capsys.readouterr().err == f"error: {NotAWriter.__doc__}\n"


@pytest.mark.parametrize(("how", "told"), [("unknown", "ZeroDivisionError: by"), ("panic", "BaseException: native")])
def test_an_error_that_nobody_foresaw_is_one_line_and_names_debug(
    how: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fail", how) == 1
    line = capsys.readouterr().err
    assert line.startswith(f"error: {told}")
    assert "--debug" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("line", ["fail typed --debug", "--debug fail unknown"])
def test_debug_shows_the_traceback(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(*line.split())
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupted_command_exits_130_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fail", "interrupted") == 130
    assert capsys.readouterr() == ("", "")


def test_help_lists_commands_in_their_groups_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    assert text.index("Everyday:") < text.index("say ") < text.index("Sharing:") < text.index("Repair:")
    assert "Is never loaded." in text
    assert "Inspect:" not in text, "a group without commands is left out"


def test_a_commands_own_help_leaves_the_global_options_to_the_main_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("say", "--help") == 0
    text = capsys.readouterr().out
    assert "--as" in text
    assert "--home" not in text


def test_version_is_a_line_or_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert run("--version", "--json") == 0
    assert capsys.readouterr().out == f'roost {__version__}\n{{"version":"{__version__}"}}\n'


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_of_the_table_can_be_loaded_and_says_what_the_table_says(row: CommandEntry) -> None:
    table = CommandTable()
    command = table.get_command(click.Context(table), row.name)
    assert command is not None
    assert command.help is not None
    assert command.help.splitlines()[0].rstrip(".") == row.summary.rstrip(".")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_the_start_loads_nothing_of_the_peer(arguments: list[str]) -> None:
    program = (
        "import sys; from roost.cli.main import main; code = main(sys.argv[1:]); "
        f"sys.exit(code or repr([name for name in {HEAVY} if name in sys.modules]))"
    )
    ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == "[]"


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def test_a_reader_who_has_gone_is_no_error_to_talk_about(closed_pipe: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "roost", "--version"], stdout=closed_pipe, stderr=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == ""
