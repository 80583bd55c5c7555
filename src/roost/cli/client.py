"""Runs a command on the peer of a data directory: through the process that runs it, else in this one.

Loads neither the server nor the store unless no peer runs: a command line must start fast.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from roost.cli import output
from roost.core.error_codes import told_error
from roost.core.errors import HomeBusy, NotRunning, RoostError

if TYPE_CHECKING:
    from roost.node.transcript import Json

API_NAME: Final = "api.json"
CONNECT_SECONDS_MAX: Final = 5.0
_READ_BYTES: Final = 1 << 16
_CUT_OFF: Final = "the peer ended before its answer was complete; what it acknowledged is kept"

Row = dict[str, "Json"]
Progress = Callable[["Json"], None]


@dataclass(frozen=True, slots=True)
class RunningPeer:
    """Where the process that runs a peer takes commands; it is the one that can read this who may give them."""

    url: str
    token: str
    pid: int
    peer: str


def running_peer(home: Path) -> RunningPeer | None:
    """What the process on this data directory wrote when it began to serve; None if there is none any more."""
    try:
        fields = json.loads((home / API_NAME).read_bytes())
        running = RunningPeer(str(fields["url"]), str(fields["token"]), int(fields["pid"]), str(fields["peer"]))
        os.kill(running.pid, 0)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return None
    except PermissionError:
        return None  # the process of another user has taken the number
    except (ValueError, KeyError, TypeError, OverflowError):
        return None  # not by a peer of ours: it writes the file whole
    return running


def call(
    home: Path,
    command: str,
    arguments: Mapping[str, Json],
    *,
    warn: Callable[[str], None] = output.warn,
    progress: Progress | None = None,
) -> Generator[Row, None, None]:
    """The rows of a command as they come; closing the generator ends the command.

    Raises the command's RoostError, NotRunning when the peer dies meanwhile.
    """
    with closing(_rows(home, command, arguments)) as rows:
        for row in rows:
            if (warning := row.get("~warning")) is not None:
                warn(str(warning))
            elif "~progress" not in row:
                yield row
            elif progress is not None:
                progress(row["~progress"])


def _rows(home: Path, command: str, arguments: Mapping[str, Json]) -> Generator[Row, None, None]:
    answer = _ask(home, command, arguments)
    if answer is None:
        try:
            yield from _in_this_process(home, command, arguments)
        except HomeBusy:
            answer = _ask(home, command, arguments)  # a peer was just starting, and serves by now
            if answer is None:
                raise
        else:
            return
    with closing(answer):
        try:
            yield from _until_end(_lines(answer))
        except (OSError, http.client.HTTPException) as error:
            raise NotRunning(_CUT_OFF) from error


# --- through the process that runs the peer ---------------------------------------------------------------------------


def _ask(home: Path, command: str, arguments: Mapping[str, Json]) -> http.client.HTTPResponse | None:
    """The beginning of the answer; None if no peer runs on home, though one may have left its file behind."""
    running = running_peer(home)
    if running is None:
        return None
    at = urlsplit(running.url)
    with closing(http.client.HTTPConnection(at.hostname or "", at.port, timeout=CONNECT_SECONDS_MAX)) as connection:
        try:
            connection.connect()
        except OSError:
            return None
        connection.sock.settimeout(None)  # to follow a session is to wait
        headers = {"Authorization": f"Bearer {running.token}", "Connection": "close"}  # so that the answer owns it
        try:
            connection.request("POST", f"/api/v1/{command}", json.dumps(arguments).encode(), headers)
            answer = connection.getresponse()
        except OSError as error:
            raise NotRunning(_CUT_OFF) from error
        except http.client.HTTPException:
            return None  # what listens there now speaks no HTTP
        return answer if _is_of(running, answer) else None


def _is_of(running: RunningPeer, answer: http.client.HTTPResponse) -> bool:
    """Whether that peer answers, and not what took its port after it; raises what it refuses with."""
    if answer.getheader("Roost-Peer") != running.peer:
        answer.close()
        return False
    if answer.status != http.client.OK:
        with closing(answer):
            raise _told(json.loads(answer.read()))
    return True


def _lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Lines as soon as they are there: readline() of a chunked answer would do many small reads for each."""
    waiting = b""
    while chunk := answer.read1(_READ_BYTES):
        *lines, waiting = (waiting + chunk).split(b"\n")
        yield from lines


def _until_end(lines: Iterator[bytes]) -> Iterator[Row]:
    for line in lines:
        row: Row = json.loads(line)
        if "~end" in row:
            return
        if "~error" in row:
            raise _told(row["~error"])
        yield row
    raise NotRunning(_CUT_OFF)


def _told(failure: Json) -> RoostError:
    """The error that web.api told."""
    match failure:
        case {"code": str(code), "message": str(message), "detail": str(detail), "exit": int(exit_code)}:
            return told_error(code, message, detail, exit_code)
    return RoostError("the running peer tells of a failure in another way; it may be of another version")


# --- in this process --------------------------------------------------------------------------------------------------


def _in_this_process(home: Path, command: str, arguments: Mapping[str, Json]) -> Generator[Row, None, None]:
    """Open the data directory here; between two rows nothing of it runs."""
    import asyncio

    from roost.node.local import run_local

    rows = run_local(home, command, arguments)

    async def following() -> Row | None:
        return await anext(rows, None)

    with asyncio.Runner() as runner:
        try:
            while (row := runner.run(following())) is not None:
                yield dict(row)
        finally:
            if isinstance(rows, AsyncGenerator):
                runner.run(rows.aclose())
