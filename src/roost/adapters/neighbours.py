"""Peers of one person on one machine find each other: each leaves a note of where it listens.

Without it two peers that both come back on other ports, while all others are gone, could not meet again. A note is a
hint like any other address: whoever answers there has to prove the key.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from roost.core.ids import PeerKey

NOTE_BYTES_MAX = 4096


class Neighbours:
    """Notes in a directory that only this user can write to; where there is none, nobody is found."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @classmethod
    def of_this_user(cls) -> Neighbours:
        runtime = os.environ.get("XDG_RUNTIME_DIR") or f"{tempfile.gettempdir()}/roost-{os.getuid()}"
        return cls(Path(runtime) / "roost" / "peers")

    def announce(self, key: PeerKey, urls: list[str]) -> None:
        """Leave a note, until ``withdraw``. A machine without a place for it does without."""
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_private():
                new = self._directory / f"{key.hex()}.{os.getpid()}.new"
                new.write_text(json.dumps({"pid": os.getpid(), "urls": urls}))
                new.replace(self._note(key))

    def withdraw(self, key: PeerKey) -> None:
        """Take this process's note away."""
        if self._read(key).get("pid") == os.getpid():
            self._note(key).unlink(missing_ok=True)

    def find(self, key: PeerKey) -> list[str]:
        """Where a peer of this user listens on this machine; empty if none does."""
        urls = self._read(key).get("urls")
        return [url for url in urls if isinstance(url, str)][:8] if isinstance(urls, list) else []

    def _read(self, key: PeerKey) -> dict[str, object]:
        with suppress(OSError, ValueError):
            if self._is_private():
                with self._note(key).open("rb") as file:
                    note = json.loads(file.read(NOTE_BYTES_MAX))
                return note if isinstance(note, dict) else {}
        return {}

    def _is_private(self) -> bool:
        status = self._directory.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022

    def _note(self, key: PeerKey) -> Path:
        return self._directory / f"{key.hex()}.json"
