"""roost set"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import click

from roost.cli import output
from roost.cli.asking import ask
from roost.core.errors import Usage

if TYPE_CHECKING:
    from roost.node.transcript import Json


@click.command(context_settings={"ignore_unknown_options": True})  # so that VALUE may be -5
@click.argument("session")
@click.argument("path")
@click.argument("value")
def set_value(session: str, path: str, value: str) -> None:
    """Set a value in a session's shared state.

    PATH is map.key, such as meta.topic or tags.urgent. VALUE is JSON (a string, a number, true, false or null), else
    it is taken as a string.
    """
    for row in ask("set", session=session, path=path, value=_value(value)):
        output.emit(row, f"{row['path']} = {json.dumps(row['value'], ensure_ascii=False)}")


def _value(text: str) -> Json:
    try:
        value: Json = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, list | dict):
        raise Usage("a value is a string, a number, true, false or null; keys may be compound, such as meta.a/b")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and Infinity are words that Python's parser knows and JSON does not
