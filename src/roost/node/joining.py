"""Joining a document: the signed request of who holds a ticket, and the answer of who gave it out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from roost.core.access import ROLES
from roost.core.errors import Malformed, NotAReader, RoostError
from roost.core.heads import Grant, Id, Role, encode_access
from roost.core.ids import DocumentId, PeerKey

if TYPE_CHECKING:
    from roost.node.peer import Peer

JOIN_PATH = "/roost/join"
GRANTED, PENDING = "granted", "pending"


class JoinRequest(Struct, frozen=True):
    """``mac`` proves the invite's secret over ``nonce``; absent, the request waits for a person."""

    document: Id
    nonce: Annotated[bytes, Meta(min_length=16, max_length=16)]
    mac: Annotated[bytes, Meta(min_length=32, max_length=32)] | None
    role: Role | None
    name: Annotated[str, Meta(max_length=200)]


class JoinAnswer(Struct, frozen=True):
    """status is "granted" or "pending", or empty beside the code and detail of an error."""

    status: str = ""
    code: str = ""
    detail: str = ""


_requests = msgspec.msgpack.Decoder(JoinRequest)
_answers = msgspec.msgpack.Decoder(JoinAnswer)


def encode(message: JoinRequest | JoinAnswer) -> bytes:
    return msgspec.msgpack.encode(message)


def decode_answer(body: bytes) -> JoinAnswer:
    """Raises Malformed."""
    try:
        return _answers.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed("join answer") from error


class Joins:
    """Answers join requests with the invites of this peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._deciding = asyncio.Lock()  # the uses of an invite are counted one by one, each committed before the next

    async def answer(self, joiner: PeerKey, body: bytes) -> tuple[int, bytes]:
        """(HTTP status, body) for a request whose signature was verified."""
        try:
            request = _requests.decode(body)
        except (msgspec.MsgspecError, ValueError):
            return 400, encode(JoinAnswer(code=Malformed.code))
        try:
            async with self._deciding:
                status = await self._decide(joiner, request)
        except RoostError as error:
            return error.http_status, encode(JoinAnswer(code=error.code, detail=error.detail))
        return (200 if status == GRANTED else 202), encode(JoinAnswer(status))

    async def _decide(self, joiner: PeerKey, request: JoinRequest) -> str:
        """One answer, at one cost, for a document that is not here and one that the joiner may not read."""
        document = DocumentId(request.document)
        invite = None
        if request.mac is not None:
            invite = self._peer.invites.find(document, self._peer.key.public, joiner, request.nonce, request.mac)
        if not self._peer.documents.holds(document):
            if request.mac is None:
                return PENDING
            raise NotAReader
        replica = self._peer.documents.get(document)
        held = replica.document.access.role(joiner) if replica.document.open else None
        if invite is None:
            if held is not None:
                return GRANTED
            if request.mac is None:
                return PENDING
            raise NotAReader
        used = self._peer.invites.redeem(invite, joiner)
        if held is not None and ROLES[held] >= ROLES[invite.role]:
            return GRANTED
        if replica.document.access.was_removed(joiner):
            return PENDING
        rows = [] if used is None else [used]
        await replica.append("access", encode_access((Grant(joiner, invite.role),)), rows=rows)
        return GRANTED
