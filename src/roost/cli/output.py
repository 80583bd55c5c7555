"""What commands print: results on standard output, all else on standard error.

Anything that came from another peer or a file is untrusted: it may hold escape sequences that repaint a terminal or
marks that turn the reading direction. All that a person sees goes through ``safe_text``; under --json it is escaped.
Colours come from rich alone, which leaves them out when NO_COLOR is set.
"""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from roost.cli import settings

PROGRESS_AFTER_SECONDS = 1.0  # work shorter than this is over before a bar could tell anything

_LINE_ENDS_TO_SOME = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}  # some readers split lines at them
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, bidi and other format marks, surrogates, separators
_JOINERS = frozenset("\u200c\u200d")  # Persian and Indic writing and emoji need them; they move nothing


def emit(row: Mapping[str, object], text: str | None = None) -> None:
    """Print one result: ``row`` as a JSON object under --json, else ``text``, else the row's fields a line each."""
    if settings.current().json:
        _write(_json_line(row))
    elif text is not None:
        _write(safe_text(text, multiline=True))
    else:
        width = max(map(len, row), default=0)
        _write("\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in row.items()))


def table(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print rows as they come under --json (all their fields), else the named columns, aligned on a terminal."""
    if settings.current().json:
        for row in rows:
            _write(_json_line(row))
        return
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    if not sys.stdout.isatty():
        for line in cells:
            _write("\t".join(line))  # what awk and cut expect
    elif cells:
        _print_table(columns, cells)


def warn(text: str) -> None:
    """Say on standard error what the person should know, as one line that is never wrapped."""
    _complain(f"warning: {text}")


def say_error(text: str) -> None:
    """Say on standard error why the command failed, as one line that is never wrapped."""
    _complain(f"error: {text}")


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to be told how many of ``total`` are done; a bar appears on a terminal when it takes long."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(safe_text(doing).replace("[", "\\["), total=total)
    started = time.monotonic()

    def show(done: int) -> None:
        if not bar.live.is_started and time.monotonic() - started >= PROGRESS_AFTER_SECONDS:
            bar.start()
        bar.update(task, completed=done)

    try:
        yield show
    finally:
        bar.stop()


def safe_text(text: str, *, multiline: bool = False) -> str:
    """Return ``text`` with every character that could steer a terminal or the eye written out, as ``\\x1b``.

    With ``multiline``, line ends and tabs stay.
    """
    if text.isprintable():
        return text
    if multiline:
        text = text.replace("\r\n", "\n")  # how half of the world ends a line; a lone \r would overwrite one
    return "".join(char if _is_harmless(char, multiline) else _written_out(char) for char in text)


def _is_harmless(char: str, multiline: bool) -> bool:
    if char in "\n\t":
        return multiline
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) not in _HIDDEN


def _written_out(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _json_line(row: Mapping[str, object]) -> str:
    line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate in what an agent wrote: only an escape can carry it
        return json.dumps(row, allow_nan=False, separators=(",", ":"))
    return line.translate(_LINE_ENDS_TO_SOME)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return safe_text(value)
    return safe_text(_json_line(value) if isinstance(value, Mapping) else _plain(value))


def _plain(value: object) -> str:
    return ", ".join(map(_cell, value)) if isinstance(value, list | tuple) else str(value)


def _print_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, box=SIMPLE_HEAD)
    for line in cells:
        drawn.add_row(*map(Text, line))  # Text: rich takes "[red]" in a bare string for markup
    Console(highlight=False).print(drawn)


def _write(text: str) -> None:
    """Write one line as UTF-8, whatever the locale, and flush it: a reader at the end of a pipe may be waiting."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def _complain(text: str) -> None:
    sys.stderr.write(safe_text(text) + "\n")
    sys.stderr.flush()
