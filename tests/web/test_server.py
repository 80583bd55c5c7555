"""The peer's HTTP side on real sockets: who is let in where, and what the others are told."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roost.adapters.carriers.carrier import LINK_PATH, REQUEST_BYTES_MAX
from roost.adapters.signatures import sign_request, signature_of, verify_answer
from roost.core.errors import Busy, Conflict, StoreFailed, Usage
from roost.core.ids import PeerKey
from roost.core.keys import SigningKey
from roost.web.guard import RateLimit
from roost.web.server import API_NAME, routes
from tests.adapters.carrier_suite import ALICE, BOB, EVE, JOIN, Recorder
from tests.web.served import TOKEN, Answer, Served, ask, raw, served, unstarted


@pytest.fixture
async def bob(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, BOB, Recorder()) as running:
        yield running


def signed(
    url: str,
    body: bytes = b"ask",
    *,
    path: str = JOIN,
    method: str = "POST",
    recipient: PeerKey = BOB.public,
    key: SigningKey = ALICE,
) -> dict[str, str]:
    return sign_request(
        key, method, url + path, body, recipient, time.time() + 1, os.urandom(16)
    )  # not before its start


async def is_taken(url: str) -> bool:
    """Whether a valid request passes: the neighbour of each refused one."""
    answer = await ask(url, "POST", JOIN, signed(url), b"ask")
    return (answer.status, answer.body) == (200, b"answer")


def verified(answer: Answer, request: dict[str, str]) -> Answer:
    verify_answer(
        answer.status,
        answer.headers.items(),
        answer.body,
        request_signature=signature_of(request.items()),
        server=BOB.public,
    )
    return answer


def test_the_routes_are_those_of_the_router_and_each_says_who_may_ask(tmp_path: Path) -> None:
    shown = routes(unstarted(tmp_path, BOB, Recorder()).app)
    assert {(row["method"], row["path"], row["auth"]) for row in shown} == {
        ("GET", "/healthz", "none"),
        ("GET", "/readyz", "none"),
        ("GET", "/roost/link", "peer"),
        ("POST", "/roost/join", "peer"),
        ("POST", "/api/v1/{command}", "token"),
    }


async def test_health_and_readiness_are_for_everybody_and_other_paths_are_refused_by_type(bob: Served) -> None:
    assert json.loads((await ask(bob.url, "GET", "/healthz")).body) == {"ok": True}
    assert json.loads((await ask(bob.url, "GET", "/readyz")).body) == {"ready": True}
    for method, path, status, code in (
        ("GET", "/nothing", 404, "not_found"),
        ("POST", "/healthz", 405, "usage"),
        ("HEAD", "/healthz", 405, "usage"),
    ):
        answer = await ask(bob.url, method, path)
        assert answer.status == status
        assert method == "HEAD" or answer.told == code


# --- what peers ask -------------------------------------------------------------------------------------------------


async def test_a_signed_request_gets_a_signed_answer(bob: Served) -> None:
    request = signed(bob.url)
    assert verified(await ask(bob.url, "POST", JOIN, request, b"ask"), request).body == b"answer"
    assert bob.gate.refusals == {}


async def test_an_unsigned_request_is_refused_without_a_signature(bob: Served) -> None:
    answer = await ask(bob.url, "POST", JOIN, {}, b"ask")
    assert (answer.status, answer.refusal) == (401, "bad_request")
    assert "signature" not in answer.headers
    assert bob.gate.refusals == {"bad_request": 1}
    assert await is_taken(bob.url)


async def test_what_is_tampered_with_is_refused_and_the_refusal_is_signed(bob: Served) -> None:
    request = signed(bob.url)
    other = signed(bob.url, b"other")
    for headers, body, path, code in (
        (request, b"ask.", JOIN, "bad_request"),
        (request, b"ask", JOIN + "?more", "bad_signature"),
        (request | {"Content-Digest": other["Content-Digest"]}, b"other", JOIN, "bad_signature"),
        (request | {"Signature-Input": other["Signature-Input"]}, b"ask", JOIN, "bad_signature"),
        (signed(bob.url, recipient=EVE.public), b"ask", JOIN, "bad_request"),
        (signed("http://eve.example"), b"ask", JOIN, "bad_signature"),
        (signed(bob.url, method="PUT"), b"ask", JOIN, "bad_signature"),
    ):
        answer = verified(await ask(bob.url, "POST", path, headers, body), headers)
        assert (answer.status, answer.refusal) == (401, code)
    assert bob.gate.refusals == {"bad_request": 2, "bad_signature": 5}
    assert await is_taken(bob.url)


async def test_a_request_that_was_made_for_another_address_is_refused_even_if_it_says_so(bob: Served) -> None:
    headers = {"Host": "eve.example"} | signed("http://eve.example")
    answer = verified(await ask(bob.url, "POST", JOIN, headers, b"ask"), headers)
    assert answer.refusal == "bad_request"
    bob.gate.advertise(["http://eve.example"])
    assert (await ask(bob.url, "POST", JOIN, headers, b"ask")).status == 200


async def test_two_hosts_are_none(bob: Served) -> None:
    host = bob.url.removeprefix("http://")
    headers = [("Host", host), ("Host", host), *signed(bob.url).items()]
    assert (await ask(bob.url, "POST", JOIN, headers, b"ask")).status in (400, 401)
    assert await is_taken(bob.url)


async def test_a_replayed_request_is_refused(bob: Served) -> None:
    request = signed(bob.url)
    assert (await ask(bob.url, "POST", JOIN, request, b"ask")).status == 200
    answer = verified(await ask(bob.url, "POST", JOIN, request, b"ask"), request)
    assert (answer.status, answer.refusal) == (401, "replayed")
    assert await is_taken(bob.url)


async def test_a_body_that_is_too_large_is_refused_by_its_length_and_by_what_comes(bob: Served) -> None:
    body = bytes(REQUEST_BYTES_MAX + 1)
    request = signed(bob.url, body)
    answer = await ask(bob.url, "POST", JOIN, request, body)
    assert (answer.status, answer.refusal) == (413, "too_large")
    chunked = request | {"Transfer-Encoding": "chunked"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in chunked.items())
    head = f"POST {JOIN} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n".encode()
    answer = await raw(bob.url, head + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
    assert (answer.status, answer.refusal) == (413, "too_large")
    at_most = bytes(REQUEST_BYTES_MAX)
    assert (await ask(bob.url, "POST", JOIN, signed(bob.url, at_most), at_most)).status == 200


async def test_what_is_no_upgrade_is_no_link(bob: Served) -> None:
    request = signed(bob.url, b"", path=LINK_PATH, method="GET")
    answer = verified(await ask(bob.url, "GET", LINK_PATH, request), request)
    assert (answer.status, answer.refusal) == (400, "malformed")


async def test_an_unsigned_upgrade_is_refused(bob: Served) -> None:
    upgrade = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    answer = await ask(bob.url, "GET", LINK_PATH, upgrade)
    assert (answer.status, answer.refusal) == (401, "bad_request")


async def test_what_fails_inside_is_told_by_its_code_only(tmp_path: Path) -> None:
    acceptor = Recorder(reply=StoreFailed("/secret/path"))
    async with served(tmp_path, BOB, acceptor) as bob:
        request = signed(bob.url)
        answer = verified(await ask(bob.url, "POST", JOIN, request, b"ask"), request)
        assert (answer.status, answer.refusal) == (507, "store_failed")
        assert b"secret" not in answer.body
        acceptor.reply = Busy()
        request = signed(bob.url)
        assert verified(await ask(bob.url, "POST", JOIN, request, b"ask"), request).refusal == "busy"


async def test_an_address_that_asks_too_much_is_refused_before_anything_is_verified(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, Recorder(), rate=RateLimit(per_second=0.0, at_once=2)) as bob:
        for _ in range(2):
            assert (await ask(bob.url, "POST", JOIN, {}, b"")).refusal == "bad_request"
        answer = await ask(bob.url, "POST", JOIN, signed(bob.url), b"ask")
        assert (answer.status, answer.refusal) == (429, "busy")
        assert "signature" not in answer.headers


# --- where it listens -----------------------------------------------------------------------------------------------


async def test_this_machines_programs_find_the_api_in_a_private_file_until_a_clean_stop(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, Recorder()) as bob:
        told = json.loads((tmp_path / API_NAME).read_text())
        assert told == {"url": told["url"], "token": TOKEN, "pid": os.getpid(), "peer": BOB.public.hex()}
        assert told["url"].startswith("http://127.0.0.1:")
        assert told["url"] != bob.url
        assert (tmp_path / API_NAME).stat().st_mode & 0o777 == 0o600
        assert (await ask(told["url"], "GET", "/healthz")).status == 200
    assert list(tmp_path.iterdir()) == []


async def test_a_stop_leaves_the_file_of_another_peer_alone(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, Recorder()):
        (tmp_path / API_NAME).write_text('{"token": "other"}')
    assert (tmp_path / API_NAME).exists()


async def test_a_port_in_use_is_named_and_nothing_listens_then(tmp_path: Path) -> None:
    async with served(tmp_path, BOB, Recorder()) as bob:
        port = int(bob.url.rpartition(":")[2])
        (tmp_path / "other").mkdir()
        second = unstarted(tmp_path / "other", EVE, Recorder())
        with pytest.raises(Conflict, match=str(port)):
            await second.start([("127.0.0.1", 0), ("127.0.0.1", port)])
        assert list((tmp_path / "other").iterdir()) == []


async def test_beyond_loopback_it_listens_only_behind_a_proxy_or_when_told_so(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "", "example.org", "192.0.2.1"):
        with pytest.raises(Usage, match=r"--behind-proxy.*--insecure"):
            await unstarted(tmp_path, BOB, Recorder()).start([("127.0.0.1", 0), (host, 0)])
    for allowed in ({"behind_proxy": True}, {"insecure": True}):
        server = unstarted(tmp_path, BOB, Recorder())
        (url,) = await server.start([("0.0.0.0", 0)], **allowed)
        assert await is_taken(url)
        await server.stop()


async def test_localhost_is_one_address(tmp_path: Path) -> None:
    server = unstarted(tmp_path, BOB, Recorder())
    (url,) = await server.start([("localhost", 0)])
    assert await is_taken(url)
    assert await is_taken(url.replace("127.0.0.1", "localhost"))
    await server.stop()


@pytest.mark.parametrize("listen", [("127.0.0.1", 70_000), ("192.0.2.1", 0), ("name.invalid", 0)])
async def test_where_nobody_can_listen_is_told(tmp_path: Path, listen: tuple[str, int]) -> None:
    with pytest.raises(Usage, match=listen[0]):
        await unstarted(tmp_path, BOB, Recorder()).start([listen], insecure=True)
