"""Peers for one journey; every process of theirs is ended with it, by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys.peers import RealPeer

NewPeer = Callable[[str], RealPeer]


@pytest.fixture
def new_peer(tmp_path: Path) -> Iterator[NewPeer]:
    """Makes a peer by a name; nothing runs on it yet."""
    made: list[RealPeer] = []

    def make(name: str) -> RealPeer:
        made.append(RealPeer(tmp_path / name))
        return made[-1]

    yield make
    for peer in made:
        peer.close()


@pytest.fixture
def alice(new_peer: NewPeer) -> RealPeer:
    return new_peer("alice")


@pytest.fixture
def bob(new_peer: NewPeer) -> RealPeer:
    return new_peer("bob")


@pytest.fixture
def carol(new_peer: NewPeer) -> RealPeer:
    return new_peer("carol")
