"""Thousands of random Byzantine histories: every order of arrival, batch and restart gives what the oracle says.

The generators are in world.py, the rule by brute force in oracle.py, a delivery with its comparisons in replay.py; that
they reach every rule is shown in test_access_mutants.py.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.core.model import NOW, Peer
from tests.core.oracle import Oracle
from tests.core.replay import compare, count, judged, replay
from tests.core.world import history

BLOCKS = 24
HISTORIES = 85  # in each block
LEAST = {
    "grants": 250,
    "revokes": 200,  # 4,800 in all blocks
    "lowerings": 40,
    "re-grants": 40,
    "admits": 80,
    "admitted again": 8,
    "forked logs": 80,
    "live but void": 250,
}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_any_order_of_arrival_gives_what_the_oracle_says(block: int, capsys: pytest.CaptureFixture[str]) -> None:
    totals: Counter[str] = Counter()
    for seed in range(block * HISTORIES, (block + 1) * HISTORIES):
        known = history(seed)
        oracle, verdicts = judged(known.operations)
        totals += count(known, oracle, verdicts)
        chance = Random(seed)
        try:
            for _ in range(2):
                replay(known, oracle, chance)
            fresh = Peer(known.genesis)
            fresh.deliver(known.operations[1:])
            compare(fresh, oracle, (1 << len(known.operations)) - 1)
        except AssertionError as failure:
            failure.add_note(f"history {seed}")
            raise
    with capsys.disabled():
        print(f"\nblock {block}: " + ", ".join(f"{number} {what}" for what, number in sorted(totals.items())))  # noqa: T201 - figures to read
    assert totals["void"] >= 0.05 * totals["operations"]
    assert {what: totals[what] for what, least in LEAST.items() if totals[what] < least} == {}


@pytest.mark.parametrize("block", range(8))
def test_what_is_held_back_counts_as_if_it_were_not_there(block: int) -> None:
    withheld = 0
    for seed in range(block * 30, (block + 1) * 30):
        known = history(seed)
        oracle, chance = Oracle(known.operations), Random(seed)
        peer, place = Peer(known.genesis), 1
        while place < len(known.operations):
            step = chance.choice([1, 2, 5])
            peer.deliver(known.operations[place : place + step])
            place += step
            if chance.random() < 0.3:
                peer.park(chance.choice(peer.arrived[1:]), NOW + chance.randrange(1, 100))
            if chance.random() < 0.2:
                peer.unpark(NOW + chance.randrange(1, 100))
            if chance.random() < 0.2:
                peer.reopen()
            held_back = _held_back(peer, oracle)
            withheld += held_back.bit_count()
            compare(peer, oracle, oracle.mask([operation.id for operation in peer.arrived]), held_back)
        peer.unpark(NOW + 100)
        compare(peer, oracle, (1 << len(known.operations)) - 1)
    assert withheld > 1_000


def _held_back(peer: Peer, oracle: Oracle) -> int:
    """What the peer holds back; whatever builds on that must be held back too."""
    held_back = 0
    for operation in peer.arrived:
        number = oracle.number[operation.id]
        if peer.document.liveness.is_parked(peer.position(operation)):
            held_back |= 1 << number
        else:
            assert not held_back & oracle.past[number], "built on what is held back"
    return held_back
