"""Heads by kind: what each must have, what each may have, and what a later version may add."""

from __future__ import annotations

import msgspec
import pytest

from roost.core import canonical
from roost.core.canonical import Value
from roost.core.errors import Refused
from roost.core.heads import (
    AccessHead,
    ClaimHead,
    EditHead,
    EntryHead,
    GenesisHead,
    Grant,
    JoinHead,
    LaterHead,
    RedactHead,
    Splice,
    decode_head,
    encode_access,
    encode_head,
)
from tests.core.model import public

ID, OTHER = b"i" * 32, b"o" * 32
KIM, LEE = sorted([public("kim"), public("lee")])
SMALL_ORDER = bytes([1]) + bytes(31)
PUT: dict[str, Value] = {"do": "put", "key": "name", "map": "meta"}
SPLICE: dict[str, Value] = {"do": "splice", "index": 0, "length": 1, "remove": 0, "text": "notes"}

VALID: dict[str, dict[str, Value]] = {
    "genesis": {"created": 1, "kind": "session", "mode": "persistent", "nonce": bytes(16), "owner": KIM},
    "entry": {"at": 1, "branch": None, "parent": None, "type": "message"},
    "claim": {"agent": ID, "epoch": 1, "previous": None, "reason": "", "standby": []},
    "redact": {"target": ID},
    "join": {},
    "edit": {"edits": [{"do": "put", "key": "name", "map": "meta"}]},
    "access": {"verbs": [{"key": KIM, "role": "write", "verb": "grant"}]},
    "whisper": {},
}
TYPES = {
    "genesis": GenesisHead, "entry": EntryHead, "claim": ClaimHead, "redact": RedactHead, "join": JoinHead,
    "edit": EditHead, "access": AccessHead, "whisper": LaterHead,
}  # fmt: skip


def changed(kind: str, field: str, value: Value) -> bytes:
    return canonical.pack({**VALID[kind], field: value})


def verbs(*items: dict[str, Value]) -> bytes:
    return canonical.pack({"verbs": items})


@pytest.mark.parametrize("kind", VALID)
def test_a_head_becomes_a_value_of_its_kind_and_unknown_fields_are_ignored(kind: str) -> None:
    head = decode_head(kind, canonical.pack(VALID[kind]))
    assert type(head) is TYPES[kind]
    assert decode_head(kind, changed(kind, "zzz", [1, {"x": True}])) == head


@pytest.mark.parametrize("kind", [kind for kind in VALID if VALID[kind]])
def test_a_head_that_lacks_a_field_is_refused(kind: str) -> None:
    for field in VALID[kind]:
        lacking = {name: value for name, value in VALID[kind].items() if name != field}
        with pytest.raises(Refused) as refusal:
            decode_head(kind, canonical.pack(lacking))
        assert refusal.value.code == "bad_head", field


# kind, field, a value that is refused, the code, and a neighbour that is not
MUTATIONS: list[tuple[str, str, Value, str, Value]] = [
    ("genesis", "kind", "", "bad_head", "memory"),
    ("genesis", "mode", "", "bad_head", "of a later version"),
    ("genesis", "owner", SMALL_ORDER, "bad_key", LEE),
    ("genesis", "owner", KIM[1:], "bad_head", LEE),
    ("genesis", "created", -1, "malformed", 0),
    ("genesis", "created", 1.0, "bad_head", 2),
    ("genesis", "nonce", bytes(15), "bad_head", bytes(32)),
    ("genesis", "origin", 1, "bad_head", "pi"),
    ("genesis", "app", None, "bad_head", "notes"),
    ("entry", "type", "", "bad_head", "t" * 64),
    ("entry", "type", "t" * 65, "bad_head", "note"),
    ("entry", "parent", b"short", "bad_head", ID),
    ("entry", "branch", b"short", "bad_head", ID),
    ("entry", "branch", "old", "bad_head", "new"),
    ("entry", "branch", 1, "bad_head", None),
    ("entry", "at", True, "bad_head", 2),
    ("entry", "at", 1 << 53, "malformed", (1 << 53) - 1),
    ("entry", "origin", ["pi", "s"], "bad_head", ["pi", "s", "4"]),
    ("entry", "agent", b"", "bad_head", ID),
    ("entry", "turn", "t" * 32, "bad_head", ID),
    ("entry", "run", bytes(15), "bad_head", bytes(16)),
    ("entry", "claim", None, "bad_head", ID),
    ("entry", "key", "", "bad_head", "k" * 256),
    ("entry", "key", "k" * 257, "bad_head", "k"),
    ("claim", "agent", b"", "bad_head", OTHER),
    ("claim", "epoch", 0, "bad_head", (1 << 53) - 1),
    ("claim", "epoch", True, "bad_head", 1),
    ("claim", "previous", b"", "bad_head", ID),
    ("claim", "standby", [OTHER, ID], "bad_head", [ID, OTHER]),
    ("claim", "standby", [ID, ID], "bad_head", [ID]),
    ("claim", "reason", "r" * 1025, "bad_head", "r" * 1024),
    ("redact", "target", b"short", "bad_head", OTHER),
    ("edit", "edits", [], "bad_head", [{"do": "delete", "key": "name", "map": "meta"}]),
    ("edit", "edits", [{**PUT, "key": ""}], "bad_head", [PUT]),
    ("edit", "edits", [PUT] * 65, "bad_head", [PUT] * 64),
    ("edit", "edits", [{**PUT, "do": "increment"}], "bad_head", [{**PUT, "do": "delete"}]),
    ("edit", "edits", [{**SPLICE, "length": (64 << 10) + 1}], "bad_head", [{**SPLICE, "length": 64 << 10}]),
    ("access", "verbs", [], "bad_head", [{"verb": "promote"}]),
    ("access", "verbs", ["grant"], "bad_head", [{"key": KIM, "verb": "revoke"}]),
    ("access", "verbs", [{"key": KIM}], "bad_head", [{"key": KIM, "verb": "revoke"}]),
    ("access", "verbs", [{"key": KIM, "verb": "grant"}], "bad_head", [{"key": KIM, "role": "read", "verb": "grant"}]),
    ("access", "verbs", [{"key": KIM, "role": "owner", "verb": "grant"}], "bad_head",
     [{"key": KIM, "role": "admin", "verb": "grant"}]),
    ("access", "verbs", [{"key": SMALL_ORDER, "role": "read", "verb": "grant"}], "bad_head",
     [{"key": LEE, "role": "read", "verb": "grant"}]),
    ("access", "verbs", [{"verb": "revoke"}], "bad_head", [{"key": SMALL_ORDER, "verb": "revoke"}]),
    ("access", "verbs", [{"key": KIM[1:], "verb": "revoke"}], "bad_head", [{"key": KIM, "verb": "revoke"}]),
    ("access", "verbs", [{"ids": [], "verb": "admit"}], "bad_head", [{"ids": [ID], "verb": "admit"}]),
    ("access", "verbs", [{"ids": [b"short"], "verb": "admit"}], "bad_head", [{"ids": [ID, ID], "verb": "admit"}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "field", "bad", "code", "good"), MUTATIONS)
def test_a_head_with_one_wrong_field_is_refused_and_its_neighbour_is_not(
    kind: str, field: str, bad: Value, code: str, good: Value
) -> None:
    with pytest.raises(Refused) as refusal:
        decode_head(kind, changed(kind, field, bad))
    assert refusal.value.code == code
    assert type(decode_head(kind, changed(kind, field, good))) is TYPES[kind]


def test_a_key_granted_twice_in_one_operation_is_refused() -> None:
    """Failing case 1: in any order means that none of the two comes later."""
    once: dict[str, Value] = {"key": KIM, "role": "read", "verb": "grant"}
    with pytest.raises(Refused) as refusal:
        decode_head("access", verbs(once, {"key": KIM, "role": "write", "verb": "grant"}))
    assert refusal.value.code == "bad_head"
    head = decode_head(
        "access", verbs(once, {"key": LEE, "role": "write", "verb": "grant"}, {"key": KIM, "verb": "revoke"})
    )
    assert head == AccessHead((Grant(KIM, "read"), Grant(LEE, "write")), (KIM,), ())


def test_an_unknown_verb_is_named_and_what_it_holds_does_not_matter() -> None:
    head = decode_head("access", verbs({"key": 5, "verb": "promote"}, {"key": KIM, "verb": "revoke"}))
    assert head == AccessHead((), (KIM,), (), ("promote",))


@pytest.mark.parametrize("raw", [b"", b"\xc0", b"\x90", b"\x81\xa1a", b"\x80\x80"])
def test_a_head_is_one_map(raw: bytes) -> None:
    for kind in VALID:
        with pytest.raises(Refused) as refusal:
            decode_head(kind, raw)
        assert refusal.value.code == "malformed"


def test_heads_survive_their_bytes() -> None:
    granted = encode_access((Grant(KIM, "admin"),), (LEE,), (ID, OTHER))
    assert decode_head("access", granted) == AccessHead((Grant(KIM, "admin"),), (LEE,), (ID, OTHER))
    for kind in ("genesis", "entry", "claim", "redact", "join", "edit"):
        head = decode_head(kind, canonical.pack(VALID[kind]))
        assert isinstance(head, msgspec.Struct)
        assert encode_head(head) == canonical.pack(VALID[kind])
    edit = EditHead((Splice("notes", 0, 0, 4),))
    assert decode_head("edit", encode_head(edit)) == edit
