"""The command line on real peers: what the contract says of each command, with a running peer and without one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from roost.cli.rows import ROWS
from tests.journeys.conftest import NewPeer
from tests.journeys.peers import RealPeer, Row

ID = re.compile(r"[0-9a-f]{64}")
NOT_OF_A_CLIENT = ["aiohttp", "asyncio", "automerge", "nacl", "rich", "sqlite3", "tiktoken"]


@pytest.fixture(params=["through a running peer", "without one"])
def peer(request: pytest.FixtureRequest, alice: RealPeer) -> RealPeer:
    return alice.start() if request.param == "through a running peer" else alice


def test_every_command_prints_the_rows_that_the_contract_shows(peer: RealPeer) -> None:
    def check(row: Row, *fields: str, of: str) -> Row:
        assert set(fields) <= row.keys(), f"{of}: {row}"
        assert all(f'"{name}"' in ROWS[of] for name in fields), of
        return row

    check(peer.one("init", "--name", "me"), "peer", "name", "home", of="init")
    session = check(peer.one("new", "s"), "session", "name", of="new")["session"]
    assert ID.fullmatch(session)
    entry = check(peer.one("send", "s", "hi", "--as", "Zoë"), "session", "entry", of="send")["entry"]
    (row,) = peer.run("log", "s")
    check(row, "id", "type", "parent", "branch", "sender", "author", "at", "content", of="log")
    assert (row["id"], row["type"], row["parent"], row["branch"]) == (entry, "message", None, None)
    assert (row["sender"], row["content"]) == ("Zoë", "hi")
    listed = check(peer.one("sessions"), *SESSION_FIELDS, "updated", "origin", of="sessions")
    assert (listed["entries"], listed["role"], listed["kind"]) == (1, "owner", "session")
    assert peer.one("name", "s", "t") == {"session": session, "name": "t"}
    assert peer.one("set", "t", "meta.n", "-5") == {"session": session, "path": "meta.n", "value": -5}
    state = check(peer.one("state", "t"), "meta", "agents", "tags", "notes", "automerge_heads", of="state")
    assert state["meta"] == {"n": -5, "name": "t"}
    heads = check(peer.one("heads", "t"), "session", "heads", "operations", "void", "parked", of="heads")
    assert (heads["void"], heads["parked"], len(heads["heads"])) == (0, 0, 1)
    status = check(peer.one("status"), "peer", "name", "running", "url", "sessions", "links", of="status")
    assert (status["name"], status["sessions"]) == ("me", 1)
    check(peer.one("status", "t"), *SESSION_FIELDS, "operations", "links", "last_sync", of="status")
    verified = check(peer.one("verify", "t"), "session", "operations", "ok", "first_bad", of="verify")
    assert (verified["operations"], verified["ok"], verified["first_bad"]) == (heads["operations"], True, None)
    (member,) = peer.run("access", "list", "t")
    check(member, "key", "role", "by", "rank", "revoked", of="access list")
    assert (member["key"], member["role"]) == (status["peer"], "owner")
    assert peer.run("tickets") == []
    routes = peer.try_("routes")
    assert (routes.code, bool(routes.rows)) == ((0, True) if status["running"] else (6, False))
    for route in routes.rows:
        check(route, "method", "path", "auth", of="routes")
        assert route["auth"] in ("none", "token", "peer")


SESSION_FIELDS = ("session", "name", "kind", "mode", "entries", "role")


def test_init_again_changes_nothing(alice: RealPeer) -> None:
    first = alice.one("init", "--name", "me")
    assert alice.one("init") == first
    assert ID.fullmatch(first["peer"])


def test_a_session_is_found_by_name_id_and_unique_prefix(peer: RealPeer) -> None:
    session = peer.one("new", "plans")["session"]
    assert {peer.one("heads", text)["session"] for text in ("plans", session, session[:8], session[:8].upper())} == {
        session
    }


def test_an_unknown_session_is_told_with_near_names(peer: RealPeer) -> None:
    peer.run("new", "holiday-plans")

    ended = peer.try_("log", "holidy-plans")

    assert ended.code == 3
    assert ended.rows == []
    assert "holiday-plans" in ended.errors


def test_a_taken_name_is_a_conflict(peer: RealPeer) -> None:
    peer.run("new", "one")
    assert peer.try_("new", "one").code == 5


def test_the_same_key_again_gives_the_first_entry(peer: RealPeer) -> None:
    peer.run("new", "s")

    entries = [peer.one("send", "s", text, "--key", "k1")["entry"] for text in ("once", "twice")]

    assert entries[0] == entries[1]
    assert peer.texts("s") == ["once"]


def test_standard_input_is_one_entry(peer: RealPeer) -> None:
    peer.run("new", "s")
    peer.run("send", "s", "-", text="several\nlines, ünïcode ✓")
    assert peer.texts("s") == ["several\nlines, ünïcode ✓"]


def test_data_and_type_come_back(peer: RealPeer) -> None:
    peer.run("new", "s")
    peer.run("send", "s", "x", "--type", "custom", "--data", '{"a": [1, null]}')
    row = peer.one("log", "s")
    assert (row["type"], row["data"]) == ("custom", {"a": [1, None]})


@pytest.mark.parametrize(
    "arguments",
    [["send", "s"], ["send", "s", "x", "--jsonl"], ["send", "s", "x", "--data", "{"], ["set", "s", "nowhere", "1"]],
)
def test_what_is_not_understood_is_a_usage_error(arguments: list[str], peer: RealPeer) -> None:
    peer.run("new", "s")
    ended = peer.try_(*arguments)
    assert ended.code == 2
    assert peer.texts("s") == []


def test_lines_are_sent_in_order_and_acknowledged_each(peer: RealPeer) -> None:
    peer.run("new", "s")
    lines = [{"content": f"line {number}", "sender": "bot", "type": "message"} for number in range(150)]

    rows = peer.run("send", "s", "--jsonl", text="\n".join(map(json.dumps, lines)) + "\n\n")

    entries = peer.run("log", "s", "--all")
    assert [row["entry"] for row in rows] == [entry["id"] for entry in entries]
    assert [entry["content"] for entry in entries] == [line["content"] for line in lines]
    assert {entry["sender"] for entry in entries} == {"bot"}


@pytest.mark.parametrize(
    "bad", ["{", "[]", "{}", '{"content": 1}', '{"content": "x", "key": 1}', '{"content": "\\ud800"}', "\udcff"]
)
def test_a_bad_line_ends_it_and_those_before_are_sent(bad: str, alice: RealPeer) -> None:
    alice.run("new", "s")
    text = f'{{"content": "one"}}\n\n{{"content": "two"}}\n{bad}\n{{"content": "five"}}\n'

    sending = alice.open("send", "s", "--jsonl", stdin=subprocess.PIPE)
    assert sending.process.stdin is not None
    sending.process.stdin.write(text.encode("utf-8", "surrogateescape"))
    sending.process.stdin.close()

    assert len(list(sending.rest())) == 2
    assert sending.wait() == 2
    assert "line 4" in sending.errors()
    assert alice.texts("s") == ["one", "two"]


def test_a_line_that_the_peer_refuses_is_named(peer: RealPeer) -> None:
    peer.run("new", "s")
    ended = peer.try_("send", "s", "--jsonl", text='{"content": "one"}\n{"content": "two", "type": "no type"}\n')
    assert (ended.code, len(ended.rows)) == (2, 1)
    assert "line 2" in ended.errors


def test_lines_are_acknowledged_while_the_input_stays_open(alice: RealPeer) -> None:
    alice.start().run("new", "s")
    sending = alice.open("send", "s", "--jsonl", stdin=subprocess.PIPE)
    assert sending.process.stdin is not None

    for number in range(3):
        sending.process.stdin.write(json.dumps({"content": str(number)}).encode() + b"\n")
        sending.process.stdin.flush()
        assert sending.row()["entry"] == alice.run("log", "s")[-1]["id"]

    sending.process.stdin.close()
    assert sending.wait() == 0


def test_log_pages(peer: RealPeer) -> None:
    peer.run("new", "s")
    ids = [row["entry"] for row in peer.run("send", "s", "--jsonl", text='{"content": "x"}\n' * 60)]

    def log(*options: str) -> list[str]:
        return [row["id"] for row in peer.run("log", "s", *options)]

    assert log() == ids[-50:]
    assert log("--all") == ids
    assert log("--limit", "3") == ids[-3:]
    assert log("--limit", "3", "--after", ids[10]) == ids[11:14]
    assert log("--limit", "3", "--before", ids[10]) == ids[7:10]
    assert log("--after", ids[10], "--before", ids[13]) == ids[11:13]


def test_two_short_commands_at_once_on_one_home_both_succeed(alice: RealPeer) -> None:
    alice.run("new", "s")

    together = [alice.open("send", "s", f"from {number}") for number in range(4)]

    assert [running.wait() for running in together] == [0, 0, 0, 0]
    assert sorted(alice.texts("s")) == [f"from {number}" for number in range(4)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_peer_cleanly(number: signal.Signals, alice: RealPeer) -> None:
    up = alice.open("up", "--listen", "127.0.0.1:0")
    ready = up.row()
    assert ready.keys() == {"event", "peer", "url"}

    up.signal(number)

    assert up.wait() == 0
    assert up.errors() == ""
    assert alice.one("status")["running"] is False


def test_an_interrupted_follow_exits_130(alice: RealPeer) -> None:
    alice.start().run("new", "s")
    alice.run("send", "s", "one")
    following = alice.open("follow", "s")
    following.row()

    following.signal(signal.SIGINT)

    assert following.wait() == 130
    assert following.errors() == ""


@pytest.mark.parametrize(
    "arguments", [["status"], ["send", "s", "x"], ["log", "s"], ["sessions"], ["heads", "s"], ["state", "s"]]
)
def test_a_command_loads_nothing_of_the_peer_that_runs(arguments: list[str], alice: RealPeer) -> None:
    alice.start().run("new", "s")
    program = (
        "import sys; from roost.cli.main import main; code = main(sys.argv[1:]); "
        f"print(code, [name for name in {NOT_OF_A_CLIENT} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "--home", str(alice.home), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr.strip() == "0 []"


def test_what_a_stranger_wrote_cannot_steer_the_terminal(alice: RealPeer) -> None:
    alice.start().run("new", "s")
    alice.run("send", "s", "one\x1b[2J\r\u202etwo\nthree", "--as", "eve\x1b]0;x\x07\n")
    shown = subprocess.run(
        [sys.executable, "-m", "roost", "--home", str(alice.home), "log", "s"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", shown)
    first, second = shown.splitlines()
    assert "eve\\x1b" in first
    assert second == "    three", "a further line cannot pass for an entry"


def test_a_peer_answers_http_and_hides_what_needs_a_key(alice: RealPeer) -> None:
    alice.start()
    with urllib.request.urlopen(f"{alice.url}/healthz", timeout=10) as answer:  # noqa: S310
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{alice.url}/", timeout=10)  # noqa: S310
    with refused.value as error:
        assert error.code in (401, 403, 404)


def test_the_home_may_come_from_the_environment(new_peer: NewPeer) -> None:
    peer = new_peer("env")
    ended = subprocess.run(
        [sys.executable, "-m", "roost", "init", "--json"],
        env={**os.environ, "ROOST_HOME": str(peer.home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ended.stdout)["home"] == str(peer.home)
    assert peer.home.stat().st_mode & 0o777 == 0o700


def test_to_follow_needs_a_running_peer(alice: RealPeer) -> None:
    alice.run("new", "s")
    ended = alice.try_("follow", "s")
    assert ended.code == 6
    assert "roost up" in ended.errors
