"""Who may do what: the rules of PROTOCOL section 2 as small cases, each with the fault that it answers.

Every case is judged by a peer in several orders of arrival, and by the oracle.
"""

from __future__ import annotations

import pytest

from roost.core import canonical
from roost.core.redaction import effect
from tests.core.model import Peer, Scene, grant, head_of, public, redact, verbs
from tests.core.replay import accepted, peer_of

# --- roles --------------------------------------------------------------------------------------------------------


def test_the_owner_may_do_everything_and_a_stranger_nothing() -> None:
    scene = Scene("owner")
    mine = scene.write("owner", verbs(grant("kim", "write")))
    theirs = scene.write("eve", verbs(grant("eve", "admin")))
    words = scene.write("eve", log="2")

    assert accepted(scene, scene.genesis, mine, theirs, words) == [True, True, False, False]


def test_a_writer_may_write_and_not_grant() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    words = scene.write("kim", proof=given)
    granted = scene.write("kim", verbs(grant("eve", "write")))
    more = scene.write("kim")
    eve = scene.write("eve", proof=granted)

    assert accepted(scene, words, granted, more, eve) == [True, False, True, False]


def test_a_reader_may_read_and_not_write() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "read")))
    words = scene.write("kim", proof=given)
    peer = peer_of(scene)

    assert not peer.accepts(words)
    assert peer.document.access.may_read(public("kim"))
    assert peer.document.access.role(public("kim")) == "read"
    assert not peer.document.access.may_read(public("eve"))


@pytest.mark.parametrize("kind", ["entry", "join", "claim", "whisper"])
def test_what_is_not_named_needs_the_role_write(kind: str) -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write"), grant("ron", "read")))
    by_writer = scene.write("kim", head_of(kind), kind=kind, proof=given)
    by_reader = scene.write("ron", head_of(kind), kind=kind, proof=given)

    assert accepted(scene, by_writer, by_reader) == [True, False]


def test_grants_add_up_so_a_smaller_one_does_not_lower_a_role() -> None:
    scene = Scene("owner")
    first = scene.write("owner", verbs(grant("kim", "write")))
    scene.write("owner", verbs(grant("kim", "read")))
    words = scene.write("kim", proof=first, after=[scene.operations[-1]])

    assert accepted(scene, words) == [True]
    assert peer_of(scene).document.access.role(public("kim")) == "write"


# --- proofs [7; failing case 14] ----------------------------------------------------------------------------------


def test_a_proof_that_gives_the_author_nothing_makes_the_operation_void_and_is_not_refused() -> None:
    scene = Scene("owner")
    entry = scene.write("owner")
    others = scene.write("owner", verbs(grant("kim", "admin")))
    by_genesis = scene.write("eve", log="1")
    by_entry = scene.write("eve", log="2", proof=entry)
    by_others_grant = scene.write("eve", log="3", proof=others)

    assert accepted(scene, by_genesis, by_entry, by_others_grant) == [False, False, False]


def test_a_void_grant_gives_nothing() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("mal", "admin")))
    scene.write("owner", verbs(revoke=["mal"]))
    backdated = scene.write("mal", verbs(grant("fresh", "admin")), proof=given)
    words = scene.write("fresh", proof=backdated)
    removal = scene.write("fresh", verbs(revoke=["owner"]))

    assert accepted(scene, backdated, words, removal) == [False, False, False]


# --- removal ------------------------------------------------------------------------------------------------------


def test_a_removal_keeps_what_the_remover_had_seen_and_voids_the_rest() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    seen = scene.write("kim", proof=given)
    removal = scene.write("owner", verbs(revoke=["kim"]), after=[seen])
    unseen = scene.write("kim")
    backdated = scene.write("kim", log="2", proof=given)

    assert accepted(scene, seen, removal, unseen, backdated) == [True, True, False, False]
    assert peer_of(scene).document.access.role(public("kim")) is None


def test_a_removed_writer_who_forks_below_what_was_seen_is_void_on_that_branch() -> None:
    """[1]: compared by number in the log, all of it would count."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("mal", "admin")))
    chain = [scene.write("mal", proof=given)]
    chain += [scene.write("mal") for _ in range(5)]
    scene.write("owner", verbs(revoke=["mal"]), after=[chain[-1]])
    branch = scene.write("mal", back=chain[2])
    handed_on = scene.write("mal", verbs(grant("fresh", "admin")), back=branch)
    fresh = scene.write("fresh", proof=handed_on)

    assert accepted(scene, *chain) == [True] * 6
    assert accepted(scene, branch, handed_on, fresh) == [False] * 3


def test_both_branches_count_if_the_remover_had_seen_both() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("mal", "write")))
    stem = scene.write("mal", proof=given)
    one, other = scene.write("mal", back=stem), scene.write("mal", back=stem)
    scene.write("owner", verbs(revoke=["mal"]), after=[one, other])
    late = [scene.write("mal", back=one), scene.write("mal", back=other), scene.write("mal", back=stem)]

    assert accepted(scene, one, other, *late) == [True, True, False, False, False]


def test_what_a_void_operation_is_followed_by_counts_and_makes_it_live() -> None:
    """[2a]: B answers v, not knowing of the removal; refusing v would park everything after it for ever."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write"), grant("bob", "write")))
    void = scene.write("kim", proof=given)
    answer = scene.write("bob", proof=given, after=[void])
    scene.write("owner", verbs(revoke=["kim"]))
    peer = peer_of(scene)

    assert not peer.accepts(void)
    assert peer.is_live(void)
    assert peer.accepts(answer)
    assert answer.id in peer.document.heads


def test_work_that_a_junior_had_removed_is_back_when_the_junior_is_removed() -> None:
    """[2b]: so nothing void may be dropped."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("mel", "admin"), grant("bob", "admin")))
    below = scene.write("bob", verbs(grant("kim", "write")), proof=given)
    work = [scene.write("kim", proof=below), scene.write("kim"), scene.write("kim")]
    removal = scene.write("mel", verbs(revoke=["kim"]), proof=given)
    peer = Peer(scene.genesis)
    peer.deliver(scene.operations[1:])
    assert [peer.accepts(operation) for operation in work] == [False] * 3

    last = scene.write("owner", verbs(revoke=["mel"]))
    peer.deliver([last])

    assert not peer.accepts(removal)
    assert [peer.accepts(operation) for operation in work] == [True] * 3
    assert [peer.index.accepted[operation.id] for operation in work] == [True] * 3
    assert work[-1].id in peer.document.heads
    peer_of(scene)


def test_equals_do_not_remove_each_other() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "admin"), grant("bob", "admin"), grant("wim", "write")))
    scene.write("ann", verbs(revoke=["bob", "wim"]), proof=given)
    scene.write("bob", verbs(revoke=["ann"]), proof=given)
    ann, bob = scene.write("ann"), scene.write("bob")
    wim = scene.write("wim", proof=given)

    assert accepted(scene, ann, bob, wim) == [True, True, False]  # admins of a depth stand above its writers


def test_a_junior_does_not_remove_a_senior_and_nobody_the_owner() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "admin")))
    below = scene.write("ann", verbs(grant("bob", "admin")), proof=given)
    removal = scene.write("bob", verbs(revoke=["ann", "owner"]), proof=below)
    ann, owner = scene.write("ann"), scene.write("owner")

    assert accepted(scene, removal, ann, owner) == [True, True, True]


def test_a_removal_of_an_admin_takes_along_whom_it_admitted_later() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "admin")))
    early = scene.write("ann", verbs(grant("kim", "write")), proof=given)
    scene.write("owner", verbs(revoke=["ann"]), after=[early])
    late = scene.write("ann", verbs(grant("lee", "write")))
    kim, lee = scene.write("kim", proof=early), scene.write("lee", proof=late)

    assert accepted(scene, kim, lee) == [True, False]


# --- lowering [failing case 1] ------------------------------------------------------------------------------------


def test_a_revoke_and_grant_in_one_operation_lower_a_role() -> None:
    scene = Scene("owner")
    high = scene.write("owner", verbs(grant("kim", "admin")))
    low = scene.write("owner", verbs(grant("kim", "write"), revoke=["kim"]))
    words = scene.write("kim", proof=low)
    power = scene.write("kim", verbs(grant("eve", "read")), log="2", proof=high)

    assert accepted(scene, words, power) == [True, False]
    assert peer_of(scene).document.access.role(public("kim")) == "write"


def test_the_verbs_of_one_operation_count_in_any_order() -> None:
    scene = Scene("owner")
    scene.write("owner", verbs(grant("kim", "admin")))
    key = public("kim")
    turned = canonical.pack({"verbs": [{"key": key, "verb": "revoke"}, {"key": key, "role": "write", "verb": "grant"}]})
    low = scene.write("owner", turned)
    words = scene.write("kim", proof=low)

    assert accepted(scene, words) == [True]


def test_two_concurrent_lowerings_leave_no_role_until_a_grant_that_has_seen_both() -> None:
    scene = Scene("owner")
    high = scene.write("owner", verbs(grant("kim", "admin")))
    lower = verbs(grant("kim", "write"), revoke=["kim"])
    one = scene.write("owner", lower, log="2", after=[high])
    other = scene.write("owner", lower, log="3", after=[high])
    words = [scene.write("kim", log="a", proof=one), scene.write("kim", log="b", proof=other)]
    assert accepted(scene, *words) == [False, False]
    assert peer_of(scene).document.access.role(public("kim")) is None

    again = scene.write("owner", verbs(grant("kim", "write")), log="4", after=[one, other])
    at_last = scene.write("kim", log="c", proof=again)
    assert accepted(scene, *words, at_last) == [False, False, True]


# --- owner and creator [14] ---------------------------------------------------------------------------------------


def test_the_owner_removes_the_device_that_made_the_session() -> None:
    scene = Scene("laptop", owner="recovery")
    before = scene.write("laptop", verbs(grant("kim", "write"), grant("thief", "admin")))
    removal = scene.write("recovery", verbs(revoke=["laptop", "thief"]), after=[before])
    stolen = scene.write("laptop", verbs(revoke=["recovery", "kim"]))
    kim = scene.write("kim", proof=before)

    assert accepted(scene, scene.genesis, before, removal, stolen, kim) == [True, True, True, False, True]
    peer = peer_of(scene)
    assert peer.document.access.role(public("laptop")) is None
    assert peer.document.access.role(public("recovery")) == "admin"
    assert {member.key for member in peer.document.access.members() if member.revoked} == {
        public("laptop"), public("thief"),
    }  # fmt: skip


def test_the_creator_does_not_remove_another_owner_and_stands_with_the_first_admins() -> None:
    scene = Scene("laptop", owner="recovery")
    given = scene.write("recovery", verbs(grant("ann", "admin")))
    vain = scene.write("laptop", verbs(revoke=["recovery", "ann"]))
    owner, ann = scene.write("recovery"), scene.write("ann", proof=given)
    taken = scene.write("laptop", verbs(grant("bob", "admin")))
    below = scene.write("bob", proof=taken)
    scene.write("ann", verbs(revoke=["laptop", "bob"]))
    creator, bob = scene.write("laptop"), scene.write("bob")

    assert accepted(scene, vain, owner, ann, below, creator, bob) == [True, True, True, False, True, False]


# --- redact [failing case 15] -------------------------------------------------------------------------------------


def test_a_redact_is_accepted_with_write_and_has_effect_for_authors_and_admins() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write"), grant("lee", "write")))
    target = scene.write("kim", proof=given)
    redacts = [
        scene.write("kim", redact(target), kind="redact"),
        scene.write("owner", redact(target), kind="redact", after=[target]),
        scene.write("lee", redact(target), kind="redact", proof=given),
        scene.write("owner", redact(given), kind="redact"),
        scene.write("eve", redact(target), kind="redact"),
    ]
    peer = peer_of(scene)

    assert [peer.accepts(operation) for operation in redacts] == [True, True, True, True, False]
    effects = [effect(peer.document, operation) for operation in redacts]
    assert effects == ["erase", "hide", None, None, None]
    assert peer.accepts(given), "only contents of entries and edits can be redacted"


# --- kinds and verbs of a later version [4] -----------------------------------------------------------------------


def test_an_unknown_verb_has_no_effect_and_those_beside_it_have() -> None:
    scene = Scene("owner")
    head = canonical.pack(
        {"verbs": [{"key": 5, "verb": "promote"}, {"key": public("kim"), "role": "write", "verb": "grant"}]}
    )
    given = scene.write("owner", head)
    words = scene.write("kim", proof=given)

    assert accepted(scene, given, words) == [True, True]
    assert peer_of(scene).document.access.operations[given.id].unknown == ("promote",)


def test_an_unknown_kind_is_stored_and_built_on() -> None:
    scene = Scene("owner")
    whisper = scene.write("owner", canonical.pack({"to": "kim"}), kind="whisper")
    after = scene.write("owner")

    assert accepted(scene, whisper, after) == [True, True]
