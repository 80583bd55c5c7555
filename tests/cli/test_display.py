from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli import display
from roost.cli.asking import Row

IDS = st.lists(st.text("0123456789abcdef", min_size=64, max_size=64), unique=True)
ENTRY: Row = {
    "id": "ab" * 32,
    "type": "message",
    "author": "cd" * 32,
    "sender": "Zoë",
    "at": "2026-11-30T21:03:03.020Z",
    "content": "hello",
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@given(IDS)
def test_a_short_id_begins_no_other_and_has_at_least_8_digits(ids: list[str]) -> None:
    for identity, short in display.short_ids(ids).items():
        assert len(short) >= 8
        assert [other for other in ids if other.startswith(short)] == [identity]


def test_short_ids_are_only_as_long_as_they_must_be() -> None:
    one, other, third = "0" * 64, "0" * 10 + "1" * 54, "f" * 64
    assert display.short_ids([one, other, third]) == {one: "0" * 11, other: "0" * 10 + "1", third: "f" * 8}


def test_ids_that_come_one_by_one_are_told_apart_from_those_before() -> None:
    ids = display.ShortIds()
    assert [ids.of("0" * 64), ids.of("0" * 9 + "1" * 55), ids.of("0" * 64)] == ["0" * 8, "0" * 9, "0" * 8]


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-11-30T21:03:03.020Z", "2026-11-30 21:03"),
        (None, "-"),
        ("9999-12-31T23:59:59.000Z", "9999-12-31 23:59"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_moment_is_shown_as_this_machines_clock_would(moment: str | None, shown: str) -> None:
    assert display.local_time(moment) == shown


def test_a_moment_without_a_local_time_is_shown_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-14")
    time.tzset()
    assert display.local_time("9999-12-31T23:59:59.000Z") == "9999-12-31T23:59:59.000Z"


def test_an_entry_is_a_line_with_its_signer_and_its_label() -> None:
    assert display.entry_text(ENTRY, display.ShortIds()) == "abababab  2026-11-30 21:03  cdcdcdcd  Zoë — hello"


def test_further_lines_of_an_entry_are_set_in_so_that_none_passes_for_an_entry() -> None:
    shown = display.entry_text({**ENTRY, "content": "one\ntwo\r\n\nthree\n"}, display.ShortIds())
    assert shown.split("\n")[1:] == ["    two", "    ", "    three"]


def test_a_label_cannot_fill_the_line_or_break_it() -> None:
    shown = display.entry_text({**ENTRY, "sender": "a\nb" + "x" * 1000}, display.ShortIds())
    assert "\n" not in shown
    assert len(shown) < 120


def test_what_is_special_about_an_entry_is_said() -> None:
    shown = display.entry_text({**ENTRY, "type": "note", "content": "", "redacted": True}, display.ShortIds())
    assert shown.endswith("Zoë [note] (redacted)")


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [(1, "entry", "1 entry"), (2, "entry", "2 entries"), (0, "line", "0 lines"), (1, "line", "1 line")],
)
def test_numbers_agree_with_their_nouns(number: int, noun: str, said: str) -> None:
    assert display.count(number, noun) == said
