"""roost send"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from roost.cli import display, output, settings
from roost.cli.asking import ask
from roost.cli.watch import Watch
from roost.core.errors import RoostError, Usage

if TYPE_CHECKING:
    from roost.node.transcript import Json

ENTRY_BYTES_MAX = 960 << 10  # what the format allows an operation's body; more is not worth reading
LINE_BYTES_MAX = 6 * ENTRY_BYTES_MAX  # JSON may write each byte of a text as \u00xx
BATCH_LINES_MAX = 64
BATCH_BYTES_MAX = 512 << 10
READ_BYTES = 256 << 10

FIELDS = ("type", "sender", "parent", "key")  # optional, beside content


@click.command()
@click.argument("session")
@click.argument("text", required=False)
@click.option("--as", "sender", metavar="NAME", help="The name to write under; else this peer's.")
@click.option("--type", "type_", metavar="TYPE", help="The entry's type; else message.")
@click.option("--key", metavar="KEY", help="Sending again under the same key adds nothing and gives the first entry.")
@click.option("--parent", metavar="ENTRY", help="The entry that this one continues; else the branch's last.")
@click.option("--data", metavar="JSON", help="What programs should read beside the text.")
@click.option("--jsonl", is_flag=True, help="Instead of TEXT: a JSON object per line of standard input.")
def send(
    session: str,
    text: str | None,
    sender: str | None,
    type_: str | None,
    key: str | None,
    parent: str | None,
    data: str | None,
    jsonl: bool,
) -> None:
    """Write an entry, or with --jsonl one per line.

    TEXT "-" is all of standard input, as one entry. With --jsonl each line has "content", and may have "type",
    "sender", "parent" and "key"; it is acknowledged when it is durable, so what was acknowledged is never lost.
    """
    if jsonl:
        if any(value is not None for value in (text, type_, key, parent, data)):
            raise click.UsageError("--jsonl takes neither TEXT nor --type, --key, --parent or --data.")
        _send_lines(session, sender)
        return
    if text is None:
        raise click.UsageError("Missing argument 'TEXT'.")
    options = {"sender": sender, "type": type_, "key": key, "parent": parent, "data": data}
    given = {name: value for name, value in options.items() if value is not None}
    for row in ask("send", session=session, content=_whole_input() if text == "-" else text, **given):
        output.emit(row, f"entry {display.short(row['entry'])}")


def _whole_input() -> str:
    raw = sys.stdin.buffer.read(ENTRY_BYTES_MAX + 1)
    if len(raw) > ENTRY_BYTES_MAX:
        raise Usage(f"standard input is longer than an entry may be: {ENTRY_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Usage(f"standard input is not UTF-8 at byte {error.start}") from error


# --- one entry per line ----------------------------------------------------------------------------------------------


class NumberedLine(NamedTuple):
    number: int  # from 1, blank lines counted
    raw: bytes


def _send_lines(session: str, sender: str | None) -> None:
    """Once the peer is gone nothing more is sent, although this process could write it by itself now: whoever feeds
    the lines should know.
    """
    watch = Watch(settings.current().data_directory())
    for batch in batches(sys.stdin.fileno(), watch):
        watch.check()
        good: list[Json] = []
        fault: Usage | None = None
        for line in batch:
            try:
                good.append(parse_line(line))
            except Usage as error:
                fault = error
                break
        if good:
            _send_batch(session, sender, good, [line.number for line in batch])
        if fault is not None:
            raise fault


def _send_batch(session: str, sender: str | None, lines: list[Json], numbers: list[int]) -> None:
    acknowledged = 0
    try:
        for row in ask("send_lines", session=session, lines=lines, sender=sender):
            acknowledged += 1
            output.emit(row, f"entry {display.short(row['entry'])}")
    except RoostError as error:
        where = f"line {numbers[min(acknowledged, len(numbers) - 1)]}"
        error.detail = f"{where}: {error.detail}" if error.detail else where
        raise


def batches(descriptor: int, watch: Watch) -> Iterator[list[NumberedLine]]:
    """The lines that are there, without blank ones, in batches of bounded size; never waits to fill one."""
    number = 0
    for lines in _read_lines(descriptor, watch):
        batch: list[NumberedLine] = []
        size = 0
        for raw in lines:
            number += 1
            if not raw.strip():
                continue
            if batch and (len(batch) == BATCH_LINES_MAX or size + len(raw) > BATCH_BYTES_MAX):
                yield batch
                batch, size = [], 0
            batch.append(NumberedLine(number, raw))
            size += len(raw)
        if batch:
            yield batch


def _read_lines(descriptor: int, watch: Watch) -> Iterator[list[bytes]]:
    """As many whole lines as each read gives; a last line needs no end."""
    rest = b""
    while chunk := _read(descriptor, watch):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
        if len(rest) > LINE_BYTES_MAX:
            break  # what is there of it is refused, as too long
    if rest:
        yield [rest]


def _read(descriptor: int, watch: Watch) -> bytes:
    watch.wait_for_input(descriptor)
    return os.read(descriptor, READ_BYTES)


def parse_line(line: NumberedLine) -> dict[str, Json]:
    """A line's fields, the known ones. Raises Usage, naming the line."""
    if len(line.raw) > LINE_BYTES_MAX:
        raise Usage(f"line {line.number}: longer than an entry may be")
    try:
        value: object = json.loads(line.raw)
    except RecursionError:
        raise Usage(f"line {line.number}: nested too deeply") from None
    except ValueError as error:  # both of JSON and of UTF-8
        raise Usage(f"line {line.number}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Usage(f"line {line.number}: not a JSON object")
    if not isinstance(value.get("content"), str):
        raise Usage(f"line {line.number}: content must be there and a string")
    fields = {name: value[name] for name in ("content", *FIELDS) if value.get(name) is not None}
    for name, given in fields.items():
        if not isinstance(given, str):
            raise Usage(f"line {line.number}: {name} must be a string")
        if any("\ud800" <= character <= "\udfff" for character in given):
            raise Usage(f"line {line.number}: {name} holds half a character (a lone surrogate)")
    return fields
