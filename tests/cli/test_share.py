from __future__ import annotations

import pytest

from roost.cli.share import _seconds
from roost.core.errors import Usage


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("2h", 7200), ("2d", 172_800), ("1w", 604_800), ("never", None)],
)
def test_a_time_is_a_number_with_its_unit(text: str, seconds: int | None) -> None:
    assert _seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "d", "2 d", "-1d", "0s", "1.5h", "2D", "9999w", "12345678901s", "٣d", "1d1h"]
)
def test_another_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(Usage, match="--expires"):
        _seconds(text)
