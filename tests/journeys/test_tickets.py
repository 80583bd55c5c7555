"""Tickets that open, and what each one that does not open says."""

from __future__ import annotations

import re

import pytest

from tests.journeys.peers import RealPeer

LOOKS_MAX = 100


def ticket_of(peer: RealPeer, session: str, *options: str) -> str:
    ticket: str = peer.one("share", session, *options)["ticket"]
    return ticket


@pytest.fixture
def session(alice: RealPeer) -> str:
    session: str = alice.start().one("new", "shared")["session"]
    alice.run("send", session, "hello")
    return session


@pytest.mark.parametrize("role", ["read", "write", "admin"])
def test_a_ticket_grants_its_role(role: str, alice: RealPeer, bob: RealPeer, session: str) -> None:
    row = bob.start().one("sync", ticket_of(alice, session, "--role", role))

    assert (row["session"], row["status"], row["entries"]) == (session, "synced", 1)
    assert bob.one("status", session)["role"] == role
    assert bob.try_("send", session, "hi").code == (4 if role == "read" else 0)


def test_a_ticket_is_taken_from_standard_input_and_the_session_named(
    alice: RealPeer, bob: RealPeer, session: str
) -> None:
    row = bob.start().one("sync", "-", "--name", "mine", text=ticket_of(alice, session) + "\n")

    assert row["status"] == "synced"
    assert bob.one("heads", "mine")["session"] == session


def test_a_ticket_works_without_a_running_peer_on_the_joining_side(
    alice: RealPeer, bob: RealPeer, session: str
) -> None:
    assert bob.one("sync", ticket_of(alice, session))["status"] == "synced"
    assert bob.texts(session) == ["hello"]


def test_what_is_no_ticket_is_refused_before_anybody_is_asked(bob: RealPeer) -> None:
    ended = bob.try_("sync", "roost:?db=abc")
    assert ended.code == 2
    assert "ticket" in ended.errors


def test_a_wrong_secret_opens_nothing(alice: RealPeer, bob: RealPeer, session: str) -> None:
    ticket = ticket_of(alice, session)
    secret = re.search(r"s=([A-Za-z0-9_-]+)", ticket)
    assert secret is not None
    wrong = ticket.replace(secret[1], ("B" if secret[1][0] == "A" else "A") + secret[1][1:])

    ended = bob.start().try_("sync", wrong)

    assert ended.code == 4
    assert bob.run("sessions") == []
    assert secret[1] not in ended.errors


def test_a_ticket_for_another_peers_key_opens_nothing(
    alice: RealPeer, bob: RealPeer, carol: RealPeer, session: str
) -> None:
    other = carol.one("init")["peer"]
    wrong = re.sub(r"pk=[0-9a-f]{64}", f"pk={other}", ticket_of(alice, session))
    assert bob.start().try_("sync", wrong).code in (4, 6)


def test_a_ticket_of_a_peer_that_is_gone_says_unreachable(alice: RealPeer, bob: RealPeer, session: str) -> None:
    ticket = ticket_of(alice, session)
    alice.kill()

    ended = bob.start().try_("sync", ticket)

    assert ended.code == 6
    assert "reach" in ended.errors


def test_an_expired_ticket_says_so(alice: RealPeer, bob: RealPeer, session: str) -> None:
    ticket = ticket_of(alice, session, "--expires", "1s")
    assert any(alice.one("tickets")["state"] == "expired" for _ in range(LOOKS_MAX))

    ended = bob.start().try_("sync", ticket)

    assert ended.code == 4
    assert "expired" in ended.errors


def test_a_used_up_ticket_says_so(alice: RealPeer, bob: RealPeer, carol: RealPeer, session: str) -> None:
    ticket = ticket_of(alice, session, "--uses", "1")
    assert bob.start().one("sync", ticket)["status"] == "synced"
    assert bob.one("sync", ticket)["status"] == "synced", "the same peer may use it again"

    ended = carol.start().try_("sync", ticket)

    assert ended.code == 4
    assert "used" in ended.errors


def test_unshare_ends_the_ticket_and_removes_who_came_in_by_it(
    alice: RealPeer, bob: RealPeer, carol: RealPeer, session: str
) -> None:
    ticket = ticket_of(alice, session)
    bob.start().run("sync", ticket)
    key = bob.one("status")["peer"]

    row = alice.one("unshare", session)

    assert row["revoked"] == [key]
    assert key not in row["members"]
    ended = carol.start().try_("sync", ticket)
    assert ended.code == 4
    assert "taken back" in ended.errors
    assert alice.one("tickets")["state"] == "revoked"


def test_unshare_may_keep_the_members(alice: RealPeer, bob: RealPeer, session: str) -> None:
    bob.start().run("sync", ticket_of(alice, session))
    key = bob.one("status")["peer"]

    row = alice.one("unshare", session, "--keep-members")

    assert row["revoked"] == []
    assert key in row["members"]


def test_what_a_removed_key_writes_afterwards_counts_nowhere(alice: RealPeer, bob: RealPeer, session: str) -> None:
    bob.start().run("sync", ticket_of(alice, session))
    key = bob.one("status")["peer"]

    assert alice.one("access", "revoke", session, key, "--yes")["key"] == key

    bob.try_("send", session, "unheard")
    bob.try_("sync", "--wait", "5")
    assert alice.texts(session) == ["hello"]
    members = {row["key"]: row["revoked"] for row in alice.run("access", "list", session)}
    assert members[key] is True


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254", "http://169.254.0.1:80", "http://224.0.0.1:7777", "http://0.0.0.0:7777"]
)
def test_an_address_that_is_never_dialled_is_refused(
    address: str, alice: RealPeer, bob: RealPeer, session: str
) -> None:
    ticket = re.sub(r"pr=[^&]+", f"pr={address}", ticket_of(alice, session))

    ended = bob.start().try_("sync", ticket)

    assert ended.code == 4
    assert "never dials" in ended.errors


def test_a_ticket_that_names_only_this_machine_comes_with_a_warning(alice: RealPeer, session: str) -> None:
    ended = alice.try_("share", session)
    assert ended.code == 0
    assert "--advertise" in ended.errors


def test_sharing_needs_a_running_peer(alice: RealPeer, session: str) -> None:
    alice.stop()
    ended = alice.try_("share", session)
    assert ended.code == 6
    assert "roost up" in ended.errors
