"""Heads: the plain part of an operation's body, typed by kind. Never erased; all that the rules need stands here.

Source: docs/protocol.md "Heads".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from roost.core import canonical
from roost.core.errors import BadHead, BadKey
from roost.core.keys import check_peer_key

Id: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Run: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=canonical.INTEGER_MAX)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Role: TypeAlias = Literal["read", "write", "admin"]

EDITS_MAX = 64
SPLICE_BYTES_MAX = 64 << 10  # of one splice's characters in UTF-8: 400,000 characters cost 4 s in the merge engine
IDEMPOTENCY_KEY_BYTES_MAX = 256


class GenesisHead(Struct, frozen=True):
    """The first operation of a document. A mode that is not known closes the document (PROTOCOL 5)."""

    kind: Name
    mode: Name
    owner: Id
    created: Count  # microseconds since the epoch, the creator's wall clock
    nonce: Annotated[bytes, Meta(min_length=16, max_length=32)]
    origin: str | UnsetType = UNSET
    app: str | UnsetType = UNSET


class Grant(Struct, frozen=True):
    """Gives ``key`` a role, one step deeper than the authority it was issued under."""

    key: Id
    role: Role


class AccessHead(Struct, frozen=True):
    """Grants, revokes and admits that count together; ``unknown`` verbs have no effect and warn."""

    grants: tuple[Grant, ...]
    revokes: tuple[bytes, ...]
    admits: tuple[bytes, ...]
    unknown: tuple[str, ...] = ()


class _Verb(Struct, frozen=True):
    verb: Name


class _Revoke(Struct, frozen=True):
    key: Id


class _Admit(Struct, frozen=True):
    ids: Annotated[tuple[Id, ...], Meta(min_length=1)]


class Origin(Struct, frozen=True, array_like=True):
    """Where an imported line came from. Equal origins are the same line, also across peers."""

    tool: Annotated[str, Meta(min_length=1, max_length=64)]
    session: Annotated[str, Meta(max_length=512)]
    position: Annotated[str, Meta(max_length=512)]


class EntryHead(Struct, frozen=True):
    """One line of a transcript. ``at`` is the author's wall clock in microseconds: shown, never trusted."""

    type: Name
    parent: Id | None
    branch: Any  # an id, "new" or nil; msgspec knows no such union, so ``decode_head`` checks it
    at: Count
    origin: Origin | UnsetType = UNSET
    agent: Id | UnsetType = UNSET
    turn: Id | UnsetType = UNSET
    run: Run | UnsetType = UNSET
    claim: Id | UnsetType = UNSET
    key: Annotated[str, Meta(min_length=1, max_length=IDEMPOTENCY_KEY_BYTES_MAX)] | UnsetType = UNSET


class Put(Struct, frozen=True, tag_field="do", tag="put"):
    map: Name
    key: Annotated[str, Meta(min_length=1, max_length=512)]


class Delete(Struct, frozen=True, tag_field="do", tag="delete"):
    map: Name
    key: Annotated[str, Meta(min_length=1, max_length=512)]


class Splice(Struct, frozen=True, tag_field="do", tag="splice"):
    """Positions and lengths are code points; the characters stand in the content."""

    text: Name
    index: Count
    remove: Count
    length: Annotated[int, Meta(ge=0, le=SPLICE_BYTES_MAX)]


Edit: TypeAlias = Put | Delete | Splice


class EditHead(Struct, frozen=True):
    """1 to 64 edits of the document's state; the content's ``values`` holds one value per edit."""

    edits: Annotated[tuple[Edit, ...], Meta(min_length=1, max_length=EDITS_MAX)]


class ClaimHead(Struct, frozen=True):
    """Makes its author the home of ``agent`` in this document, if valid and winning (PROTOCOL 6)."""

    agent: Id
    epoch: Annotated[int, Meta(ge=1, le=canonical.INTEGER_MAX)]
    previous: Id | None
    standby: tuple[Id, ...]
    reason: Annotated[str, Meta(max_length=1024)]


class RedactHead(Struct, frozen=True):
    """Erases the content of one entry or edit."""

    target: Id


class JoinHead(Struct, frozen=True):
    """Says nothing: it binds heads together, so that at most 32 are left."""


class LaterHead(Struct, frozen=True):
    """The head of a kind that this version does not know: stored, forwarded, without effect."""


Head: TypeAlias = GenesisHead | AccessHead | EntryHead | EditHead | ClaimHead | RedactHead | JoinHead | LaterHead


class _RawAccess(Struct, frozen=True):
    verbs: Annotated[tuple[msgspec.Raw, ...], Meta(min_length=1, max_length=256)]


_decoders: dict[str, msgspec.msgpack.Decoder[Head]] = {
    "genesis": msgspec.msgpack.Decoder(GenesisHead),
    "entry": msgspec.msgpack.Decoder(EntryHead),
    "edit": msgspec.msgpack.Decoder(EditHead),
    "claim": msgspec.msgpack.Decoder(ClaimHead),
    "redact": msgspec.msgpack.Decoder(RedactHead),
    "join": msgspec.msgpack.Decoder(JoinHead),
}
_access = msgspec.msgpack.Decoder(_RawAccess)
_verb = msgspec.msgpack.Decoder(_Verb)
_grant = msgspec.msgpack.Decoder(Grant)
_revoke = msgspec.msgpack.Decoder(_Revoke)
_admit = msgspec.msgpack.Decoder(_Admit)

KNOWN_KINDS = frozenset([*_decoders, "access"])
KINDS_WITH_CONTENT = frozenset(["entry", "edit"])


def decode_head(kind: str, raw: bytes) -> Head:
    """Decode and check a head, or raise Malformed, NotCanonical, BadHead or BadKey. Unknown fields are ignored."""
    canonical.unpack_map(raw)
    try:
        if kind == "access":
            return _decode_access(raw)
        decoder = _decoders.get(kind)
        head = LaterHead() if decoder is None else decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadHead(str(error)) from error
    if type(head) is EntryHead:
        branch = head.branch
        if branch is not None and branch != "new" and (type(branch) is not bytes or len(branch) != 32):
            raise BadHead("branch")
    elif type(head) is GenesisHead:
        check_peer_key(head.owner)
    elif type(head) is ClaimHead and sorted(set(head.standby)) != list(head.standby):
        raise BadHead("standby keys do not ascend")
    return head


def _decode_access(raw: bytes) -> AccessHead:
    grants: list[Grant] = []
    revokes: list[bytes] = []
    admits: list[bytes] = []
    unknown: list[str] = []
    for item in _access.decode(raw).verbs:
        name = _verb.decode(item).verb
        if name == "grant":
            grant = _grant.decode(item)
            _check_granted(grant.key)
            grants.append(grant)
        elif name == "revoke":
            revokes.append(_revoke.decode(item).key)
        elif name == "admit":
            admits.extend(_admit.decode(item).ids)
        else:
            unknown.append(name)
    if len({grant.key for grant in grants}) != len(grants):
        raise BadHead("a key is granted twice")
    return AccessHead(tuple(grants), tuple(revokes), tuple(admits), tuple(unknown))


def _check_granted(key: bytes) -> None:
    try:
        check_peer_key(key)
    except BadKey as error:
        raise BadHead("a granted key is not canonical or of small order") from error


def encode_access(
    grants: tuple[Grant, ...] = (), revokes: tuple[bytes, ...] = (), admits: tuple[bytes, ...] = ()
) -> bytes:
    """The head of an ``access`` operation with these verbs."""
    verbs: list[canonical.Value] = [{"verb": "grant", "key": grant.key, "role": grant.role} for grant in grants]
    verbs += [{"verb": "revoke", "key": key} for key in revokes]
    if admits:
        verbs.append({"verb": "admit", "ids": list(admits)})
    return canonical.pack({"verbs": verbs})


def encode_head(head: Struct) -> bytes:
    """The canonical bytes of any other head; optional fields that are unset stay out."""
    value: canonical.Value = msgspec.to_builtins(head, builtin_types=(bytes,))
    return canonical.pack(value)
