from __future__ import annotations

import io
import json
import os
import pty
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli import output
from roost.cli.settings import Settings


@contextmanager
def command(*, as_json: bool) -> Iterator[None]:
    with click.Context(click.Command("any"), obj=Settings(json=as_json)):
        yield


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[Callable[[], str]]:
    """Make standard output or error a real terminal, and yield a function that reads what it was sent."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm-256color")
    with io.TextIOWrapper(io.FileIO(theirs, "w"), encoding="utf-8", write_through=True) as stream:
        monkeypatch.setattr(sys, name, stream)
        yield lambda: os.read(ours, 65536).decode()
    os.close(ours)


def test_under_json_a_row_is_one_compact_line_of_utf_8(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with command(as_json=True):
        output.emit({"name": "Zoë", "ids": ["a", "b"], "none": None}, "for people")
    assert capfdbinary.readouterr().out == '{"name":"Zoë","ids":["a","b"],"none":null}\n'.encode()


@given(st.text(st.characters()))
def test_under_json_any_text_survives_and_holds_no_line_end(text: str) -> None:
    line = output._json_line({"text": text})
    assert len(line.splitlines()) == 1
    assert json.loads(line.encode("utf-8")) == {"text": text}


def test_a_lone_surrogate_is_escaped() -> None:
    assert output._json_line({"text": "\ud800é"}) == '{"text":"\\ud800\\u00e9"}'


def test_people_see_the_text_or_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with command(as_json=False):
        output.emit({"session": "ab"}, "made ab")
        output.emit({"peer": "ab", "running": True, "links": [], "url": None})
    assert capsys.readouterr().out == "made ab\npeer     ab\nrunning  yes\nlinks    \nurl      -\n"


def test_a_warning_is_one_unwrapped_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    output.warn("long " * 100 + "\nand more")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "warning: " + "long " * 100 + "\\nand more\n"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\rb"),
        ("a\x08\x7f", "a\\x08\\x7f"),
        ("invoice\u202egpj.exe", "invoice\\u202egpj.exe"),
        ("\u2066x\u2069\u200e\u061c", "\\u2066x\\u2069\\u200e\\u061c"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\ufeff\u200b\U000e0041", "\\ufeff\\u200b\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_steers_a_terminal_or_the_eye_is_written_out(hostile: str, shown: str) -> None:
    assert output.safe_text(hostile) == shown
    assert output.safe_text(hostile, multiline=True) == shown


@pytest.mark.parametrize("text", ["plain", "Zoë 日本語 שלום", "👩\u200d💻", "می\u200cخواهم", "a\u00a0b", ""])
def test_what_people_write_stays(text: str) -> None:
    assert output.safe_text(text) == text


def test_line_ends_stay_only_where_there_may_be_several_lines() -> None:
    assert output.safe_text("a\r\n\tb\n") == "a\\r\\n\\tb\\n"
    assert output.safe_text("a\r\n\tb\n", multiline=True) == "a\n\tb\n"


ROWS = [{"name": "[red]one", "entries": 3, "id": "x"}, {"name": "two\x1b[2J", "entries": 14, "id": "y"}]


def test_a_table_under_json_has_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with command(as_json=True):
        output.table(ROWS, ["name", "entries"])
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_a_table_in_a_pipe_is_separated_by_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    with command(as_json=False):
        output.table(ROWS, ["name", "entries"])
    assert capsys.readouterr().out == "[red]one\t3\ntwo\\x1b[2J\t14\n"


def test_a_table_on_a_terminal_is_plain_text_and_without_colour_where_none_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with command(as_json=False), terminal(monkeypatch, "stdout") as shown:
        output.table(ROWS, ["name", "entries"])
        text = shown()
    assert "[red]one" in text
    assert "\x1b[2J" not in text
    assert not re.search(r"\x1b\[(\d+;)*[349]\d", text)


def test_progress_in_a_pipe_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("importing", 2) as done:
        done(2)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_appears_when_the_work_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PROGRESS_AFTER_SECONDS", 0.0)
    with terminal(monkeypatch, "stderr") as shown:
        with output.progress("importing [1]", 2) as done:
            done(1)
        assert "importing [1]" in shown()
