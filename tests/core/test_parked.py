"""What cannot be taken yet waits within bounds, and is tried again when what it waits for has come."""

from __future__ import annotations

from msgspec.structs import replace

from roost.core.ids import OperationId
from roost.core.operation import Operation
from roost.core.parked import PARKED_BYTES_MAX, PARKED_MAX, Parked, Space
from tests.core.model import Scene


def a_log(length: int) -> list[Operation]:
    scene = Scene()
    return [scene.write("owner") for _ in range(length)]


def nothing(_: OperationId) -> bool:
    return False


def test_an_operation_waits_until_its_last_missing_parent_comes() -> None:
    parked = Parked(Space())
    one, two, child = a_log(3)
    parked.wait(child, {one.id, two.id}, verified=True)

    assert parked.ready([one.id], nothing) is None
    ready = parked.ready([two.id], nothing)

    assert ready is not None
    assert ready.operations == (child,)
    assert ready.verified == {child.id}
    assert len(parked) == 0


def test_what_follows_what_is_ready_is_ready_with_it_in_the_total_order() -> None:
    parked = Parked(Space())
    first, *rest = a_log(10)
    for before, one in reversed(list(zip([first, *rest], rest, strict=False))):
        parked.wait(one, {before.id}, verified=one is rest[-1])
    ready = parked.ready([first.id], nothing)
    assert ready is not None
    assert list(ready.operations) == rest
    assert ready.verified == {rest[-1].id}


def test_at_most_256_wait_and_the_oldest_goes_first() -> None:
    space = Space()
    parked = Parked(space)
    log = a_log(PARKED_MAX + 3)
    for one in log:
        parked.wait(one, {OperationId(b"m" * 32)}, verified=False)
    assert len(parked) == PARKED_MAX == space.operations
    assert [one.id in parked for one in log[:4]] == [False, False, False, True]


def test_at_most_4_mib_wait() -> None:
    space = Space()
    parked = Parked(space)
    large = [replace(one, content=bytes(900 << 10)) for one in a_log(6)]
    for one in large:
        parked.wait(one, {OperationId(b"m" * 32)}, verified=False)
    assert space.size <= PARKED_BYTES_MAX
    assert len(parked) == 4


def test_the_documents_of_one_link_share_the_bounds() -> None:
    space = Space()
    pools = [Parked(space) for _ in range(4)]
    for pool in pools:
        for one in a_log(100):
            pool.wait(one, {OperationId(b"m" * 32)}, verified=False)
    assert sum(len(pool) for pool in pools) == PARKED_MAX
    for pool in pools:
        pool.clear()
    assert (space.operations, space.size) == (0, 0)


def test_a_parked_operation_that_comes_again_is_counted_once() -> None:
    space = Space()
    parked = Parked(space)
    (one,) = a_log(1)
    for _ in range(3):
        parked.wait(one, {OperationId(b"m" * 32)}, verified=False)
        parked.doubt(one)
    assert (len(parked), space.operations, space.size) == (1, 1, one.size)


def test_doubtful_operations_come_back_with_whatever_might_vouch_for_them() -> None:
    parked = Parked(Space())
    one, two, three, four = a_log(4)
    parked.doubt(one)
    parked.doubt(two)
    assert parked.followed_by([four]) == []
    assert parked.followed_by([three, four]) == [two, one]
    assert len(parked) == 0


def test_doubtful_operations_give_way_first() -> None:
    parked = Parked(Space())
    honest, *doubtful = a_log(PARKED_MAX + 1)
    parked.wait(honest, {OperationId(b"m" * 32)}, verified=True)
    for one in doubtful:
        parked.doubt(one)
    assert honest.id in parked
    assert doubtful[0].id not in parked
