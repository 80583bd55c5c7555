"""Invites: as many get in as the ticket says, also when all ask at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from roost.core.keys import SigningKey
from roost.core.ticket import Ticket, invite_mac
from roost.node.joining import JoinRequest, decode_answer, encode
from tests.node.running import key_of, run, running


async def test_of_many_who_ask_at_once_only_as_many_get_in_as_the_invite_has_uses(tmp_path: Path) -> None:
    async with running(tmp_path / "peer") as peer:
        await run(peer, "new", name="demo")
        ticket = Ticket.parse(str((await run(peer, "share", session="demo", uses=2))[-1]["ticket"]))
        assert ticket.secret is not None
        secret = ticket.secret

        async def join(key: SigningKey) -> str:
            nonce = key.public[:16]
            mac = invite_mac(secret, ticket.document, ticket.peer, key.public, nonce)
            _, body = await peer.joins.answer(key.public, encode(JoinRequest(ticket.document, nonce, mac, None, "")))
            answer = decode_answer(body)
            return answer.code or answer.status

        answers = await asyncio.gather(*(join(key_of(name)) for name in ("ann", "bob", "cid", "dee")))

        assert sorted(answers) == ["granted", "granted", "invite_used_up", "invite_used_up"]
        unshared = (await run(peer, "unshare", session="demo"))[0]
        assert unshared["members"] == [peer.key.public.hex()]
