"""One process per data directory: an advisory lock on ``<home>/lock``, which the system drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from roost.core.errors import HomeBusy, StoreFailed

LOCK_NAME = "lock"
_RETRY_SECONDS = 0.05  # flock has no wait with an end


class HomeLock:
    """Held from ``acquire`` until ``release``, or until the process ends in whatever way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next one in. The file stays: removing it would let two processes lock two files of one name."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> HomeLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def acquire(home: Path, what: str, wait_seconds: float = 5.0) -> HomeLock:
    """Take the data directory for this process, or raise HomeBusy naming who has it.

    what is shown to those who wait, on one line, such as "roost up". Blocks the calling thread for up to wait_seconds.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreFailed(f"{home}: {error.strerror}") from error
    until = time.monotonic() + wait_seconds
    while not _try(descriptor):
        if time.monotonic() >= until:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise HomeBusy(f"{home}: {holder}")
        time.sleep(_RETRY_SECONDS)
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    os.ftruncate(descriptor, 0)
    with suppress(OSError):  # a full disk: the lock holds without a name, and what is stored can be read
        os.pwrite(descriptor, f"process {os.getpid()}, {what}, since {started}\n".encode(), 0)
    return HomeLock(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 1024, 0).decode(errors="replace").strip()
    return text or "a process that is just starting"
