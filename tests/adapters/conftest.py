"""Stores of every kind, for the tests that all of them must pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roost.adapters.store.store import Store
from tests.adapters.store_kit import Author


@pytest.fixture(params=["thread", "inline", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = {
        "thread": lambda: Store.open(tmp_path / "home" / "store.db"),
        "inline": lambda: Store.open(tmp_path / "home" / "store.db", writer="inline"),
        "memory": lambda: Store.open(None),
    }[request.param]()
    yield opened
    await opened.close()


@pytest.fixture
async def alice(store: Store) -> Author:
    author = Author(1)
    await store.commit(author.begin())
    return author
