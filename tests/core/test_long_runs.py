"""Who signs a long run falsely, and its end truly, divides nobody: who took it in one frame passes it on in one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from roost.core import sync, wire
from roost.core.authentic import cut
from tests.core.model import NOW
from tests.core.sync_story import Story


@pytest.mark.parametrize(("count", "size"), [(900, 20), (1500, 600)])
def test_a_long_run_with_one_true_signature_at_its_end_reaches_everybody(count: int, size: int) -> None:
    story = Story()
    log = story.long("mal", [bytes(size)] * count)
    false = [replace(one, signature=bytes(64)) for one in log[:-1]]
    world = story.world({"ann": [], "bob": [], "cid": []}, ("ann", "bob"))
    world.settle()
    message = wire.Operations.of(world["bob"].id, 999, [*false, log[-1]])
    world.event(world["bob"], "ann", sync.Received(message, NOW))
    assert {one.id for one in log} <= world["bob"].holds()

    world.link("cid", "bob")
    world.settle()

    assert {one.id for one in log} <= world["cid"].holds()


def test_a_run_without_a_true_signature_is_cut_to_nothing_with_one_check_each() -> None:
    asked: list[int] = []

    def verify(index: int) -> bool:
        asked.append(index)
        return False

    assert cut([(0, False)] * 500, verify) == 0
    assert asked == [*range(499, -1, -1)]
