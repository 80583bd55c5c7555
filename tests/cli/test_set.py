from __future__ import annotations

import pytest

from roost.cli.set import _value
from roost.core.errors import Usage


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ('"true"', "true"),
        ("words", "words"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("", ""),
    ],
)
def test_a_value_is_json_else_a_string(text: str, value: object) -> None:
    assert _value(text) == value
    assert type(_value(text)) is type(value)


@pytest.mark.parametrize("text", ["[1]", "{}"])
def test_a_value_that_no_map_holds_is_a_usage_error(text: str) -> None:
    with pytest.raises(Usage):
        _value(text)
