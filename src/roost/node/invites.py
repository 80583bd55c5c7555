"""Invites: what a ticket's secret opens, for how long and how often. They live here, and survive restarts.

The secret itself is shown once, in the ticket, and never travels: a joiner proves that it has it (core.ticket).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from roost.adapters.environment import Environment
from roost.adapters.store.records import LocalRow
from roost.adapters.store.store import Store
from roost.core.errors import Denied, InviteExpired, InviteRevoked, InviteUsedUp
from roost.core.heads import Role
from roost.core.ids import DocumentId, PeerKey
from roost.core.ticket import secret_hash, verify_invite_mac

SECRET_BYTES = 32
INVITES_MAX = 1000  # per document: each join request is checked against all of them


class Invite(Struct, frozen=True):
    """uses_max and expires (microseconds) are None for "no limit"; secret_hash is None for a ticket without invite."""

    id: bytes
    document: bytes
    role: Role
    created: int
    expires: int | None
    uses_max: int | None
    secret_hash: bytes | None
    revoked: bool = False
    used_by: tuple[bytes, ...] = ()

    def state(self, now: int) -> str:
        """ "open", "revoked", "expired" or "used up"."""
        if self.revoked:
            return "revoked"
        if self.expires is not None and now >= self.expires:
            return "expired"
        if self.uses_max is not None and len(self.used_by) >= self.uses_max:
            return "used up"
        return "open"


_REFUSALS: dict[str, type[Denied]] = {"revoked": InviteRevoked, "expired": InviteExpired, "used up": InviteUsedUp}
_decoder = msgspec.msgpack.Decoder(Invite)


class Invites:
    """The invites of this peer."""

    def __init__(self, store: Store, environment: Environment) -> None:
        self._store = store
        self._environment = environment

    def make(
        self, document: DocumentId, role: Role, *, lifetime: int | None, uses_max: int | None, secret: bytes | None
    ) -> tuple[Invite, LocalRow]:
        """An invite and the row to commit. lifetime is microseconds; secret None makes a ticket that only asks."""
        now = self._environment.now()
        expires = None if lifetime is None else now + lifetime
        hashed = None if secret is None else secret_hash(secret)
        invite = Invite(self._environment.random(32), document, role, now, expires, uses_max, hashed)
        return invite, self.row(invite)

    def row(self, invite: Invite) -> LocalRow:
        return LocalRow("invites", invite.document + invite.id, msgspec.msgpack.encode(invite))

    def all(self, document: DocumentId | None = None) -> Iterator[Invite]:
        """Every invite ever made here, of one document or of all."""
        for key, raw in self._store.reader.local_all("invites"):
            if document is None or key.startswith(document):
                yield _decoder.decode(raw)

    def find(
        self, document: DocumentId, recipient: PeerKey, joiner: PeerKey, nonce: bytes, mac: bytes
    ) -> Invite | None:
        """The invite that the joiner proves to have the secret of; every one is tried, whatever its state."""
        found = None
        for invite in self.all(document):
            if invite.secret_hash is not None and verify_invite_mac(
                invite.secret_hash, document, recipient, joiner, nonce, mac
            ):
                found = invite
        return found

    def redeem(self, invite: Invite, joiner: PeerKey) -> LocalRow | None:
        """The row that notes the use; None if this joiner used it before. Raises why it is not open any more."""
        if joiner in invite.used_by and not invite.revoked:
            return None
        state = invite.state(self._environment.now())
        if state != "open":
            raise _REFUSALS[state]
        return self.row(msgspec.structs.replace(invite, used_by=(*invite.used_by, joiner)))

    def revoke(self, invite: Invite) -> LocalRow:
        return self.row(msgspec.structs.replace(invite, revoked=True))
