"""How rows read for people: short ids, local times, names; under --json rows go out as they came."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import click

from roost.cli import output, settings
from roost.cli.asking import Row

ID_DIGITS_MIN = 8  # what people see of an id at least: enough to type back, and not to mistake
SENDER_CHARACTERS_MAX = 40  # a label is the sender's choice; the line belongs to the reader


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id's shortest prefix, at least 8 digits, that no other of them begins with."""
    ordered = sorted(set(ids))
    short: dict[str, str] = {}
    for index, identity in enumerate(ordered):
        neighbours = ordered[max(index - 1, 0) : index] + ordered[index + 1 : index + 2]
        shared = max((_common(identity, other) for other in neighbours), default=0)
        short[identity] = identity[: max(ID_DIGITS_MIN, shared + 1)]
    return short


def _common(one: str, other: str) -> int:
    """How many first characters they share."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


class ShortIds:
    """Short prefixes for ids that come one by one: the shortest that none before had."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def of(self, identity: str) -> str:
        digits = ID_DIGITS_MIN
        while self._taken.setdefault(identity[:digits], identity) != identity:
            digits += 1
        return identity[:digits]


def short(identity: object) -> str:
    """One id by itself."""
    return str(identity)[:ID_DIGITS_MIN]


def local_time(moment: object) -> str:
    """A moment in ISO 8601 as this machine's clock would show it; a dash for none."""
    if moment is None:
        return "-"
    try:
        return datetime.fromisoformat(str(moment)).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):  # the last hours that a calendar knows have no local time everywhere
        return str(moment)


def session_label(row: Row) -> str:
    """A session by its name, where it has one, and its id."""
    name, identity = row.get("name"), short(row["session"])
    return f"{output.safe_text(str(name))} ({identity})" if name else identity


def count(number: object, noun: str) -> str:
    """A number with its noun: "1 line", "2 lines"; "1 entry", "2 entries"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


def table(rows: Iterable[Row], columns: Sequence[str], *, ids: Sequence[str] = (), times: Sequence[str] = ()) -> None:
    """Print rows: whole under --json, else the named columns with ids shortened and times made local."""
    if settings.current().json:
        output.table(rows, columns)
        return
    found = list(rows)
    known = short_ids(str(row[column]) for row in found for column in ids if row.get(column) is not None)
    output.table([_for_people(row, known, ids, times) for row in found], columns)


def _for_people(row: Row, known: Mapping[str, str], ids: Sequence[str], times: Sequence[str]) -> Row:
    shortened = {column: known.get(str(row.get(column))) for column in ids}
    local = {column: local_time(row.get(column)) for column in times}
    return {**row, **shortened, **local}


def entry_text(row: Row, ids: ShortIds) -> str:
    """An entry: id, time, who signed, who it says it is from, and what it says, its further lines set in.

    The signer stands there because ``sender`` is only a label: anybody may put any name there.
    """
    sender = output.safe_text(str(row["sender"]))[:SENDER_CHARACTERS_MAX] or "-"
    kind = "" if row["type"] == "message" else f" [{row['type']}]"
    marks = "".join(f" ({mark.replace('_', ' ')})" for mark in _MARKS if row.get(mark) is True)
    text = output.safe_text(str(row["content"]).rstrip("\n"), multiline=True).replace("\n", "\n    ")
    first = f"{ids.of(str(row['id']))}  {local_time(row['at'])}  {short(row['author'])}  {sender}{kind}{marks}"
    return f"{first} — {text}" if text else first


_MARKS = ("withdrawn", "erased", "redacted", "absent", "unreadable", "odd_clock", "superseded")


def note(text: str) -> None:
    """Tell the person more about a result, on standard error; not a warning."""
    click.echo(output.safe_text(text, multiline=True), err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that is hard to take back, where a person can answer. Raises click.Abort on no."""
    if yes or settings.current().json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    click.confirm(output.safe_text(question), abort=True, err=True)
