"""Seeds of schedules that once failed, and what they found. They are run again with every check."""

from __future__ import annotations

from typing import Final

FOUND: Final[dict[int, str]] = {}
