"""Commands that share sessions, and take shares back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from roost.core.errors import Denied, NotAReader, NotFound, NotRunning, Pending, Usage
from roost.core.heads import Grant, encode_access
from roost.core.ids import DocumentId, OperationId, PeerKey
from roost.core.keys import check_peer_key
from roost.core.ticket import Ticket
from roost.node.commands import Rows, parse
from roost.node.invites import SECRET_BYTES, Invite
from roost.node.transcript import Json, iso

if TYPE_CHECKING:
    from roost.node.peer import Peer

RoleName = Literal["read", "write", "admin"]
DAY_MICROSECONDS = 24 * 3600 * 1_000_000


class Share(Struct):
    session: str
    role: RoleName = "write"
    lifetime_seconds: int | None = 7 * 24 * 3600
    uses: int | None = None
    invite: bool = True


async def share(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Share)
    document = peer.sessions.resolve(wanted.session)
    replica = peer.documents.get(document)
    if replica.document.head.mode == "temporary":
        raise Denied("a temporary session never leaves this peer")
    if peer.url is None:
        raise NotRunning("a ticket needs a peer that answers")
    if wanted.invite:
        replica.require_admin()
    elif not replica.document.access.may_read(peer.key.public):
        raise NotAReader
    secret = peer.environment.random(SECRET_BYTES) if wanted.invite else None
    lifetime = None if wanted.lifetime_seconds is None else wanted.lifetime_seconds * 1_000_000
    invite, row = peer.invites.make(document, wanted.role, lifetime=lifetime, uses_max=wanted.uses, secret=secret)
    await replica.keep([row])
    addresses = peer.addresses()
    ticket = Ticket(document, tuple(addresses), peer.key.public, None, wanted.role, secret)
    if all(peer.is_loopback(address) for address in addresses):
        yield {"~warning": "the ticket names only this machine; for others start the peer with --advertise URL"}
    yield {
        "ticket": ticket.format(),
        "id": invite.id.hex(),
        "role": wanted.role,
        "expires": None if invite.expires is None else iso(invite.expires),
    }


async def tickets(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    """Every ticket given out here, without its secret."""
    now = peer.environment.now()
    for invite in peer.invites.all():
        yield {
            "id": invite.id.hex(),
            "session": invite.document.hex(),
            "name": peer.registry.name_of(DocumentId(invite.document)),
            "role": invite.role,
            "invite": invite.secret_hash is not None,
            "state": invite.state(now),
            "expires": None if invite.expires is None else iso(invite.expires),
            "uses": len(invite.used_by),
            "uses_max": invite.uses_max,
        }


class Unshare(Struct):
    session: str
    id: str | None = None
    keep_members: bool = False


async def unshare(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Unshare)
    document = peer.sessions.resolve(wanted.session)
    replica = peer.documents.get(document)
    chosen = _chosen_invites(peer, document, wanted.id)
    removed: tuple[bytes, ...] = ()
    if not wanted.keep_members:
        came = {key for invite in chosen for key in invite.used_by}
        access = replica.document.access
        removed = tuple(sorted(key for key in came if access.role(PeerKey(key)) is not None))
        if removed:
            replica.require_admin()
    rows = [peer.invites.revoke(invite) for invite in chosen if not invite.revoked]
    if removed:
        await replica.append("access", encode_access(revokes=removed), rows=rows)
    else:
        await replica.keep(rows)
    await peer.links.recheck(document)
    members = sorted({member.key.hex() for member in replica.document.access.members() if not member.revoked})
    yield {"revoked": sorted(key.hex() for key in removed), "members": members}


def _chosen_invites(peer: Peer, document: DocumentId, prefix: str | None) -> list[Invite]:
    invites = list(peer.invites.all(document))
    if prefix is None:
        return invites
    chosen = [invite for invite in invites if invite.id.hex().startswith(prefix.lower())]
    if not chosen:
        raise NotFound(f"ticket {prefix}; roost tickets lists them")
    if len(chosen) > 1:
        raise Usage(f"{prefix} is the beginning of {len(chosen)} ids; type more of it")
    return chosen


class Sync(Struct):
    ticket: str | None = None
    name: str | None = None
    role: RoleName | None = None
    wait_seconds: float = 30.0


async def sync(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    """Join by a ticket and wait until all is here; without a ticket, exchange now with everybody."""
    wanted = parse(arguments, Sync)
    if wanted.ticket is None:
        async for exchanged in peer.membership.exchange(wanted.wait_seconds):
            yield exchanged
        return
    ticket = Ticket.parse(wanted.ticket.strip())
    try:
        document = await peer.membership.join(ticket, wanted.name, wanted.role, wanted.wait_seconds)
    except Pending:
        yield {"session": ticket.document.hex(), "status": "pending", "entries": 0}
        raise
    row = peer.store.reader.document(document)
    yield {
        "session": document.hex(),
        "status": "synced",
        "entries": 0 if row is None else row.entries,
        "name": peer.registry.name_of(document),
    }


class OfSession(Struct):
    session: str


async def access_list(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    document = peer.sessions.resolve(parse(arguments, OfSession).session)
    for member in peer.documents.get(document).document.access.members():
        yield {
            "key": member.key.hex(),
            "role": member.role,
            "by": member.by.hex(),
            "rank": member.rank,
            "revoked": member.revoked,
        }


class Granting(Struct):
    session: str
    key: str
    role: RoleName


async def access_grant(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Granting)
    document = peer.sessions.resolve(wanted.session)
    key = _key(wanted.key)
    made = await peer.documents.get(document).append("access", encode_access((Grant(key, wanted.role),)))
    yield {"operation": made.id.hex(), "key": key.hex(), "role": wanted.role}


class Revoking(Struct):
    session: str
    key: str


async def access_revoke(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Revoking)
    document = peer.sessions.resolve(wanted.session)
    replica = peer.documents.get(document)
    key = _member(peer, document, wanted.key)
    if key == replica.document.access.owner:
        raise Denied("the owner of a session cannot be removed")
    before = peer.store.reader.document(document)
    closed = [invite for invite in peer.invites.all(document) if key in invite.used_by and not invite.revoked]
    rows = [peer.invites.revoke(invite) for invite in closed]
    made = await replica.append("access", encode_access(revokes=(key,)), rows=rows)
    await peer.links.recheck(document)
    after = peer.store.reader.document(document)
    assert before is not None, "it was resolved"
    assert after is not None, "it was resolved"
    yield {
        "operation": made.id.hex(),
        "key": key.hex(),
        "voided": after.void - before.void,
        "homes": [],
        "invites_closed": [invite.id.hex() for invite in closed],
    }


class Admitting(Struct):
    session: str
    ids: list[str]


async def access_admit(peer: Peer, arguments: Mapping[str, Json]) -> Rows:
    wanted = parse(arguments, Admitting)
    document = peer.sessions.resolve(wanted.session)
    ids = sorted({_operation(peer, document, text) for text in wanted.ids})
    writing = peer.documents.get(document).begin()
    made = writing.add("access", encode_access(admits=tuple(ids)), also=ids)
    await writing.commit()
    yield {"operation": made.id.hex(), "admitted": [identity.hex() for identity in ids]}


def _key(text: str) -> PeerKey:
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        raise Usage("a key is 64 hex digits; roost status --json on that peer shows it") from error
    if len(raw) != 32:
        raise Usage("a key is 64 hex digits; roost status --json on that peer shows it")
    return check_peer_key(raw)


def _member(peer: Peer, document: DocumentId, text: str) -> PeerKey:
    """A member's key by unique prefix, or any whole key."""
    if len(text) == 64:
        return _key(text)
    keys = {member.key for member in peer.documents.get(document).document.access.members()}
    matches = [key for key in keys if key.hex().startswith(text.lower())]
    if len(matches) != 1:
        raise NotFound(f"member {text}; roost access list shows them")
    return matches[0]


def _operation(peer: Peer, document: DocumentId, text: str) -> OperationId:
    prefix = text.lower()
    if not prefix or any(character not in "0123456789abcdef" for character in prefix):
        raise NotFound(f"operation {text}")
    matches = peer.store.reader.find_prefix(document, prefix)
    if len(matches) != 1:
        raise NotFound(f"operation {text}")
    return matches[0]


COMMANDS = {
    "share": share,
    "tickets": tickets,
    "unshare": unshare,
    "sync": sync,
    "access_list": access_list,
    "access_grant": access_grant,
    "access_revoke": access_revoke,
    "access_admit": access_admit,
}
