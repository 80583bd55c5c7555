"""A verified request is taken once."""

from __future__ import annotations

import pytest

from roost.adapters.replays import CLOCK_SECONDS_MAX, ReplayCache
from roost.core.errors import Busy, Replayed
from roost.core.ids import PeerKey

ALICE, EVE = PeerKey(b"a" * 32), PeerKey(b"e" * 32)
NOW = 1_700_000_000
FIRST, SECOND, THIRD = (bytes([number]) * 16 for number in range(3))


def test_a_request_is_taken_once() -> None:
    replays = ReplayCache()
    replays.admit(ALICE, FIRST, NOW, NOW)
    with pytest.raises(Replayed):
        replays.admit(ALICE, FIRST, NOW, NOW)


def test_the_same_nonce_in_a_later_request_is_a_replay_but_not_that_of_another_peer() -> None:
    replays = ReplayCache()
    replays.admit(ALICE, FIRST, NOW, NOW)
    with pytest.raises(Replayed):
        replays.admit(ALICE, FIRST, NOW + 1, NOW)
    replays.admit(ALICE, SECOND, NOW, NOW)
    replays.admit(EVE, FIRST, NOW, NOW)
    assert len(replays) == 3


def test_a_replay_is_refused_as_long_as_its_clock_would_pass() -> None:
    replays = ReplayCache()
    early = NOW + CLOCK_SECONDS_MAX
    replays.admit(ALICE, FIRST, early, NOW)
    for later in range(0, 2 * CLOCK_SECONDS_MAX + 1, 20):
        with pytest.raises(Replayed):
            replays.admit(ALICE, FIRST, early, NOW + later)


def test_a_full_cache_refuses_rather_than_forgets() -> None:
    replays = ReplayCache(entries_max=2)
    replays.admit(ALICE, FIRST, NOW, NOW)
    replays.admit(ALICE, SECOND, NOW, NOW)
    with pytest.raises(Busy):
        replays.admit(ALICE, THIRD, NOW, NOW)
    with pytest.raises(Replayed):
        replays.admit(ALICE, FIRST, NOW, NOW)


def test_a_full_cache_takes_again_when_the_old_ones_have_expired() -> None:
    replays = ReplayCache(entries_max=1)
    replays.admit(ALICE, FIRST, NOW, NOW)
    later = NOW + CLOCK_SECONDS_MAX + 1
    replays.admit(ALICE, SECOND, later, later)
    assert len(replays) == 1


def test_a_clock_set_back_does_not_let_forgotten_requests_in_again() -> None:
    replays = ReplayCache()
    replays.admit(ALICE, FIRST, NOW, NOW)
    replays.admit(ALICE, SECOND, NOW + 3600, NOW + 3600)
    with pytest.raises(Replayed, match="set back"):
        replays.admit(ALICE, FIRST, NOW, NOW)
