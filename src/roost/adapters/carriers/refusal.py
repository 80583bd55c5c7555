"""A refusal as bytes: what the body of a peer's answer says when its status is not 200."""

from __future__ import annotations

from roost.core.canonical import pack, unpack_map
from roost.core.error_codes import error_of
from roost.core.errors import Denied, Malformed, NotCanonical, Refused, RoostError

DETAIL_CHARS_MAX = 500


def pack_refusal(error: RoostError) -> bytes:
    """A map of code and detail. What went wrong inside this peer is no business of the other: its code only."""
    told = error.detail if isinstance(error, Refused | Denied) else ""
    detail = told[:DETAIL_CHARS_MAX].encode("utf-8", "backslashreplace").decode()
    return pack({"code": error.code, "detail": detail})


def unpack_refusal(status: int, body: bytes) -> RoostError | None:
    """The error in an answer, or None if it is no refusal."""
    if status == 200:
        return None
    try:
        fields = unpack_map(body)
    except (Malformed, NotCanonical):
        return None
    match fields:
        case {"code": str(code), "detail": str(detail), **others} if not others:
            return error_of(code[:64], detail[:DETAIL_CHARS_MAX])
    return None
