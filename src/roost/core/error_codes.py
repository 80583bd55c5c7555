"""From an error's code, as another peer or another process told it, back to the error."""

from __future__ import annotations

from collections.abc import Iterator

from roost.core.errors import Refused, RoostError


def error_of(code: str, detail: str) -> RoostError:
    """The error with this code; one that is not known here (the teller may be newer) becomes Refused and says both."""
    for kind in _kinds(RoostError):
        if kind.code == code:
            return kind(detail)
    return Refused(f"{code}: {detail}" if detail else code)


def told_error(code: str, message: str, detail: str, exit_code: int) -> RoostError:
    """What another process of this installation told of a failure: known or not, message and exit code are kept."""
    for kind in _kinds(RoostError):
        if kind.code == code and kind.exit_code == exit_code and str(kind(detail)) == message:
            return kind(detail)
    told = type("ToldError", (RoostError,), {"code": code, "exit_code": exit_code, "__doc__": message})
    error: RoostError = told()
    return error


def _kinds(kind: type[RoostError]) -> Iterator[type[RoostError]]:
    """kind and all that derive from it; the first with a code is the one that defined it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from _kinds(derived)
