"""Clock, rate and token: what lets a request in before anybody looks at what it asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from roost.core.errors import Busy
from roost.node.transcript import Json
from roost.web.guard import ADDRESSES_MAX, RateLimit, SteadyClock
from roost.web.server import API_NAME
from tests.adapters.carrier_suite import BOB, Recorder
from tests.web.served import TOKEN, Served, ask, served

# --- clock ----------------------------------------------------------------------------------------------------------


class Hands:
    """Both clocks of a machine, moved by the test."""

    wall = 1000.0
    monotonic = 0.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.monotonic)


def test_the_clock_follows_the_wall() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.wall, hands.monotonic = 1010.0, 10.0
    assert clock.seconds() == 1010.0
    hands.wall = 5000.0
    assert clock.seconds() == 5000.0


def test_the_clock_goes_on_when_the_wall_is_set_back() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.wall, hands.monotonic = 100.0, 10.0
    assert clock.seconds() == 1010.0
    hands.wall, hands.monotonic = 107.0, 17.0
    assert clock.seconds() == 1017.0
    hands.wall = 1018.0
    assert clock.seconds() == 1018.0


# --- rate -----------------------------------------------------------------------------------------------------------


def taken(rate: RateLimit, address: str, now: float = 0.0) -> bool:
    try:
        rate.take(address, now)
    except Busy:
        return False
    return True


def test_an_address_may_ask_at_once_and_then_as_time_passes() -> None:
    rate = RateLimit(per_second=1.0, at_once=2)
    assert [taken(rate, "192.0.2.1") for _ in range(3)] == [True, True, False]
    assert taken(rate, "192.0.2.2")
    assert [taken(rate, "192.0.2.1", now=1.0) for _ in range(2)] == [True, False]
    assert [taken(rate, "192.0.2.1", now=1000.0) for _ in range(3)] == [True, True, False]


def test_all_addresses_of_one_ipv6_network_are_one() -> None:
    rate = RateLimit(per_second=1.0, at_once=1)
    assert taken(rate, "2001:db8:0:1::1")
    assert not taken(rate, "2001:db8:0:1:ffff::2")
    assert taken(rate, "2001:db8:0:2::1")


def test_an_ipv4_address_is_the_same_when_it_is_written_in_ipv6() -> None:
    rate = RateLimit(per_second=1.0, at_once=1)
    assert taken(rate, "192.0.2.1")
    assert not taken(rate, "::ffff:192.0.2.1")
    assert taken(rate, "::ffff:192.0.2.2")


def test_what_is_remembered_is_bounded() -> None:
    rate = RateLimit(per_second=0.0, at_once=1)
    assert taken(rate, "first")
    assert not taken(rate, "first")
    for number in range(ADDRESSES_MAX):
        taken(rate, f"other {number}")
    assert taken(rate, "first")


async def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_added(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, Recorder(), rate=RateLimit(0.0, 1), behind_proxy=True) as bob:
        seen = [await came_from(bob, names) for names in ("1.1.1.1, 192.0.2.1", "2.2.2.2,192.0.2.1", "192.0.2.2")]
        assert seen == ["bad_request", "busy", "bad_request"]


async def test_without_a_proxy_nobody_chooses_an_address(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, Recorder(), rate=RateLimit(0.0, 1)) as bob:
        seen = [await came_from(bob, name) for name in ("192.0.2.1", "192.0.2.2")]
        assert seen == ["bad_request", "busy"]


async def came_from(bob: Served, forwarded: str) -> str:
    """How a request without a signature is refused."""
    return (await ask(bob.url, "POST", "/roost/join", {"X-Forwarded-For": forwarded})).refusal


# --- token ----------------------------------------------------------------------------------------------------------

ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


async def hello(_arguments: Mapping[str, Json]) -> AsyncIterator[Mapping[str, Json]]:
    yield {"hello": True}


@pytest.fixture
async def bob(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, BOB, Recorder(), {"hello": hello}) as running:
        yield running


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"bearer {TOKEN}"},
        {"Authorization": "Bearer \u00e4"},
        {"Cookie": f"token={TOKEN}"},
        ALLOWED | {"Host": "roost.example"},
        ALLOWED | {"Host": "127.0.0.1"},
        ALLOWED | {"Host": "127.0.0.1:1"},
        ALLOWED | {"Host": ""},
        ALLOWED | {"Origin": "https://example.org"},
        ALLOWED | {"Origin": "null"},
        ALLOWED | {"Origin": "http://localhost"},
    ],
    ids=str,
)
async def test_without_token_own_host_and_own_origin_the_api_is_closed(bob: Served, headers: dict[str, str]) -> None:
    answer = await ask(bob.url, "POST", "/api/v1/hello", headers)
    assert (answer.status, answer.told) == (403, "denied")
    assert TOKEN.encode() not in answer.body
    assert (await ask(bob.url, "POST", "/api/v1/hello", ALLOWED)).status == 200


async def test_whether_a_command_exists_is_told_only_to_who_has_the_token(bob: Served) -> None:
    assert (await ask(bob.url, "POST", "/api/v1/nothing", {})).status == 403
    answer = await ask(bob.url, "POST", "/api/v1/nothing", ALLOWED)
    assert (answer.status, answer.told) == (404, "not_found")


async def test_a_page_of_this_peer_and_the_name_localhost_are_let_in(bob: Served, tmp_path: Path) -> None:
    for url in (bob.url, json.loads((tmp_path / API_NAME).read_text())["url"]):
        local = url.replace("127.0.0.1", "localhost")
        for headers in (
            {"Host": local.removeprefix("http://")},
            {"Origin": url},
            {"Host": local.removeprefix("http://"), "Origin": local},
        ):
            assert (await ask(url, "POST", "/api/v1/hello", ALLOWED | headers)).status == 200
