"""Notice at once when the process that runs the peer ends, while waiting for something else."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

from roost.cli.client import running_peer
from roost.core.errors import NotRunning


class Watch:
    """Watches the process that runs the peer of a data directory; nothing, where none runs."""

    def __init__(self, home: Path) -> None:
        running = running_peer(home)
        self._ended = None if running is None else _ended_descriptor(running.pid)

    def wait_for_input(self, descriptor: int) -> None:
        """Return when there is something to read, or its end. Raises NotRunning as soon as the process has ended."""
        if self._ended is not None:
            select.select([descriptor, self._ended], [], [])
            self.check()

    def check(self) -> None:
        """Raises NotRunning if the process has ended."""
        if self._ended is not None and select.select([self._ended], [], [], 0)[0]:
            raise NotRunning("it ended; what it acknowledged is kept")


def _ended_descriptor(pid: int) -> int | None:
    """A file descriptor that is readable once the process has ended; None if the system has no such thing."""
    try:
        if sys.platform == "linux":
            return os.pidfd_open(pid)
        if sys.platform == "darwin":
            queue = select.kqueue()
            queue.control([select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)], 0)
            return os.dup(queue.fileno())
    except OSError:  # gone already: the next command tells
        return None
    return None
