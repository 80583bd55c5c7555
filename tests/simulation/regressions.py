"""Seeds of schedules that once failed, and what they found. They are run again with every check."""

from __future__ import annotations

from typing import Final

FOUND: Final[dict[int, str]] = {
    12: "what an author held back for its clock was never taken back",
    38: "a redact erased an edit, and the state in memory went on showing it",
    82: "a dialler whose links were closed at once dialled again at once, for ever",
    224: "a link outlived the process at its other end",
    468: "a wait that was told before the clocks were right again",
    1042: "an author that was left alone with a document never took back what it held back",
    1070: "a redact turned void where its target was erased already",
}
