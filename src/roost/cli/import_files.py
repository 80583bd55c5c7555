"""roost import"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from roost.cli import display, output, settings
from roost.cli.asking import Row, ask, rows
from roost.core.errors import NotFound, NothingUsable, RoostError

WARNINGS_SHOWN = 3  # of one file; --json has them all


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", "format_", default="auto", show_default=True, help="Whose files these are: auto or pi.")
def import_files(paths: tuple[str, ...], format_: str) -> None:
    """Import agents' transcript files, each into a session.

    A directory stands for the *.jsonl files in it. The same file again adds only what is new in it. Damaged lines are
    left out and told. Exit code 3 if nothing in a file was usable; the others are imported all the same.
    """
    worst = 0
    for path in _files(paths):
        try:
            for row in ask("import", path=os.path.abspath(path), format=format_):
                _show({**row, "path": path})
        except RoostError as error:
            if not _concerns_only_this_file(error):
                raise
            output.say_error(f"{path}: {error}")
            worst = max(worst, error.exit_code)
    if worst:
        raise click.exceptions.Exit(worst)


def _files(paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            yield from sorted(os.fspath(file) for file in Path(path).glob("*.jsonl"))
        else:
            yield path


def _concerns_only_this_file(error: RoostError) -> bool:
    """A file that is not there, not readable or not usable says nothing about the next; a peer that is gone does."""
    return isinstance(error, NothingUsable | NotFound) or error.code == RoostError.code


def _show(row: Row) -> None:
    existing = f", {row['existing']} were here already" if row["existing"] else ""
    skipped = f", {row['skipped']} skipped" if row["skipped"] else ""
    entries = display.count(row["entries"], "entry")
    output.emit(row, f"{row['path']}: {entries}{existing}{skipped} -> {display.session_label(row)}")
    if settings.current().json:
        return
    warnings = rows(row, "warnings")
    for warning in warnings[:WARNINGS_SHOWN]:
        output.warn(f"{row['path']}: at byte {warning['offset']}: {warning['reason']}")
    if len(warnings) > WARNINGS_SHOWN:
        output.warn(f"{row['path']}: {len(warnings) - WARNINGS_SHOWN} more; --json lists them")
