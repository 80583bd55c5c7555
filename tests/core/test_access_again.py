"""How a removed key, or what it wrote, comes back: re-grants and admits (PROTOCOL section 2)."""

from __future__ import annotations

from roost.core.operation import Operation
from tests.core.model import NOW, Scene, grant, public, verbs
from tests.core.replay import accepted, peer_of

# --- re-grants [13] -----------------------------------------------------------------------------------------------


def test_a_removed_key_comes_back_only_by_someone_as_senior_as_who_removed_it() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "admin"), grant("kim", "write")))
    removal = scene.write("owner", verbs(revoke=["kim"]))
    by_junior = scene.write("ann", verbs(grant("kim", "write")), proof=given, after=[removal])
    walked_in = scene.write("kim", log="1", proof=by_junior)
    by_owner = scene.write("owner", verbs(grant("kim", "write")))
    invited = scene.write("kim", log="2", proof=by_owner)

    assert accepted(scene, by_junior, walked_in, by_owner, invited) == [True, False, True, True]
    assert peer_of(scene).document.access.was_removed(public("kim"))
    assert not peer_of(scene).document.access.was_removed(public("ann"))


def test_a_grant_that_had_not_seen_the_removal_is_no_re_grant() -> None:
    scene = Scene("owner")
    scene.write("owner", verbs(grant("kim", "write")))
    concurrent = scene.write("owner", verbs(grant("kim", "write")), log="2")
    scene.write("owner", verbs(revoke=["kim"]))
    words = scene.write("kim", proof=concurrent)

    assert accepted(scene, words) == [False]


# --- admits [15] --------------------------------------------------------------------------------------------------


def stale_removal() -> tuple[Scene, Operation, list[Operation]]:
    """The owner's tablet, a week offline, removes the phone; what the phone granted since, and Kim's week, is void."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("phone", "admin"), grant("ann", "admin")))
    kims = scene.write("phone", verbs(grant("kim", "write")), proof=given)
    week = [kims, scene.write("kim", proof=kims), scene.write("kim")]
    removal = scene.write("owner", verbs(revoke=["phone"]), log="tablet", after=[given])
    return scene, removal, week


def test_a_stale_removal_by_a_senior_is_undone_by_an_admit() -> None:
    scene, removal, week = stale_removal()
    assert accepted(scene, *week) == [False, False, False]

    admit = scene.write("owner", verbs(admit=week[:1]), log="tablet", after=[week[-1]])

    assert accepted(scene, removal, admit, *week) == [True, True, True, True, True]
    later = scene.write("kim")
    assert accepted(scene, later) == [True]


def test_an_admit_brings_back_what_it_lists_and_nothing_else() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    removal = scene.write("owner", verbs(revoke=["kim"]))
    work = [scene.write("kim", proof=given), scene.write("kim"), scene.write("kim")]
    scene.write("owner", verbs(admit=[work[1]]), after=[work[2]])
    peer = peer_of(scene)

    assert [peer.accepts(operation) for operation in work] == [False, True, False]
    assert [peer.is_live(operation) for operation in work] == [True, True, True]
    assert peer.accepts(removal)


def test_an_admit_by_a_junior_of_the_remover_has_no_effect() -> None:
    scene, removal, week = stale_removal()
    given = scene.operations[1]
    scene.write("ann", verbs(admit=week), proof=given, after=[removal, week[-1]])

    assert accepted(scene, *week) == [False, False, False]


def test_an_admit_needs_the_removal_and_what_it_lists_among_its_ancestors() -> None:
    scene, removal, week = stale_removal()
    scene.write("owner", verbs(admit=week), log="blind to the removal", after=[week[-1]])
    scene.write("owner", verbs(admit=week), log="blind to the week", after=[removal])

    assert accepted(scene, *week) == [False, False, False]


def test_an_admit_may_be_older_by_the_clock_than_what_others_wrote_since() -> None:
    """Failing case 10: time is 1 + the latest *parent*; void operations of a fast clock are among the parents."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    scene.write("owner", verbs(revoke=["kim"]))
    ahead = scene.write("kim", proof=given, time=NOW)
    admit = scene.write("owner", verbs(admit=[ahead]), after=[ahead])

    assert admit.time == NOW + 1
    assert accepted(scene, ahead) == [True]


def test_a_listed_access_operation_of_a_writer_stays_void() -> None:
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("kim", "write")))
    scene.write("owner", verbs(revoke=["kim"]))
    grab = scene.write("kim", verbs(grant("kim", "admin")), proof=given)
    scene.write("owner", verbs(admit=[grab]), after=[grab])

    assert accepted(scene, grab) == [False]
