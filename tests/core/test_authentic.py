"""One signature per log and frame vouches for what lies below it; what nothing vouches for is parked, never refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from roost.core.authentic import authenticate, cut, is_signed, signatures_to_verify
from roost.core.operation import Operation, create
from tests.core.model import Scene, grant, key_of, log_of, redact, verbs


def true(operation: Operation) -> bool:
    return is_signed(operation, operation.author)


def falsely(operation: Operation) -> Operation:
    """The same operation, as somebody sends it who has no true signature."""
    return replace(operation, signature=bytes(64))


def a_log(length: int, author: str = "ann", log: str = "1") -> list[Operation]:
    scene = Scene()
    granted = scene.write("owner", verbs(grant(author, "write")))
    return [scene.write(author, proof=granted, log=log) for _ in range(length)]


def test_a_log_needs_one_signature_however_long_it_is() -> None:
    log = a_log(50)
    assert signatures_to_verify(log) == [49]

    result = authenticate(log, true)

    assert list(result.operations) == log
    assert result.verified == {log[-1].id}
    assert result.parked == ()


def test_each_log_of_a_frame_needs_its_own_signature() -> None:
    first, second = a_log(3), a_log(2, author="bob")
    mixed = [first[0], second[0], first[1], second[1], first[2]]
    assert signatures_to_verify(mixed) == [3, 4]


def test_each_branch_of_a_forked_log_needs_its_own_signature() -> None:
    scene = Scene()
    base = scene.write("owner", back=scene.genesis)
    left, right = scene.write("owner", back=base), scene.write("owner", back=base)
    assert signatures_to_verify([base, left, right]) == [1, 2]


def test_access_claim_and_redact_are_always_verified_by_themselves() -> None:
    scene = Scene()
    access = scene.write("owner", verbs(grant("ann", "write")))
    entry = scene.write("owner")
    erased = scene.write("owner", redact(entry), kind="redact")
    claim = scene.write("owner", kind="claim")
    last = scene.write("owner")
    batch = [access, entry, erased, claim, last]
    assert signatures_to_verify(batch) == [0, 2, 3, 4]

    for index in (0, 2, 3):
        result = authenticate([*batch[:index], falsely(batch[index]), *batch[index + 1 :]], true)
        assert [one.id for one in result.parked] == [batch[index].id]


def test_a_false_signature_is_no_fault_once_an_authentic_operation_follows() -> None:
    log = a_log(3)
    result = authenticate([falsely(log[0]), falsely(log[1]), log[2]], true)
    assert [one.id for one in result.operations] == [one.id for one in log]
    assert result.verified == {log[2].id}


def test_a_false_end_is_parked_and_what_lies_below_is_verified_by_itself() -> None:
    log = a_log(4)
    result = authenticate([log[0], log[1], falsely(log[2]), falsely(log[3])], true)
    assert list(result.operations) == log[:2]
    assert result.verified == {log[1].id}
    assert [one.id for one in result.parked] == [log[2].id, log[3].id]


def test_an_operation_of_another_log_or_author_vouches_for_nothing() -> None:
    scene = Scene()
    granted = scene.write("owner", verbs(grant("ann", "write"), grant("mal", "write")))
    victim = falsely(scene.write("ann", proof=granted))
    for author, log in (("mal", "ann 1"), ("ann", "another")):
        claims_to_follow = create(
            key_of(author), document=victim.document, log=log_of(log), seq=1, backlink=victim.id, deps=(),
            proof=granted.id, kind="join", time=victim.time + 1, head_bytes=b"\x80",
        )  # fmt: skip
        assert authenticate([victim, claims_to_follow], true).parked == (victim,)


def test_a_deferred_operation_becomes_authentic_in_the_batch_that_brings_its_successor() -> None:
    log = a_log(2)
    doubtful = authenticate([falsely(log[0])], true).parked
    assert authenticate([*doubtful, log[1]], true).parked == ()


# --- cutting a log to send it -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk", "true_at", "length"),
    [
        ([(1, True), (1, True)], set(), 2),
        ([(1, True), (1, False)], {1}, 2),  # the sender verifies it now: one signature per log and frame
        ([(1, True), (1, False)], set(), 1),
        ([(1, True), (1, False), (1, False), (1, True)], set(), 4),  # within a log nothing is to be verified
        ([(1, False), (1, False)], set(), 0),
        ([(1, True), (2, False), (1, True), (2, True)], set(), 4),
        ([(1, True), (2, False), (1, True)], set(), 1),
        ([(1, True), (2, True), (1, False), (2, False), (1, True)], {2}, 3),
        ([], set(), 0),
    ],
)
def test_a_chunk_is_cut_where_every_log_ends_in_a_true_signature(
    chunk: list[tuple[int, bool]], true_at: set[int], length: int
) -> None:
    assert cut(chunk, lambda index: index in true_at) == length


def test_a_chunk_of_an_honest_log_costs_the_sender_at_most_one_signature() -> None:
    asked: list[int] = []

    def verified(index: int) -> bool:
        asked.append(index)
        return True

    assert cut([(1, False)] * 500, verified) == 500
    assert asked == [499]
