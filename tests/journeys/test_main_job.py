"""The main job: a transcript is imported, shared, synced, written on all sides, and outlives the peer it came from."""

from __future__ import annotations

from pathlib import Path

from tests.journeys.peers import RealPeer, settle, share

SAMPLE = Path(__file__).parent.parent / "data" / "pi" / "full_tree_v3.jsonl"
SAMPLE_ENTRIES = 27


def imported(peer: RealPeer) -> str:
    row = peer.one("import", str(SAMPLE))
    assert (row["entries"], row["skipped"], row["existing"]) == (SAMPLE_ENTRIES, 0, 0)
    session: str = row["session"]
    return session


def test_what_one_peer_imports_and_shares_all_write_to_and_all_hold(
    alice: RealPeer, bob: RealPeer, carol: RealPeer
) -> None:
    session = imported(alice.start())
    share(alice, session, bob.start(), carol.start())
    assert len(bob.texts(session)) == len(carol.texts(session)) == SAMPLE_ENTRIES

    for peer in (alice, bob, carol):  # together
        peer.run("send", session, f"together, {peer.home.name}")
    for peer in (alice, bob, carol):
        peer.stop()
    for peer in (alice, bob, carol):  # apart: no peer runs, each command opens the data directory itself
        peer.run("send", session, f"apart, {peer.home.name}")
        peer.run("set", session, f"meta.{peer.home.name}", '"was here"')
    for peer in (alice, bob, carol):  # where the others know them: all were away, so nobody could have told
        peer.start(port=peer.port)

    heads, entries, state = settle(session, alice, bob, carol)

    texts = [entry["content"] for entry in entries]
    for name in ("alice", "bob", "carol"):
        assert {f"together, {name}", f"apart, {name}"} <= set(texts)
        assert state["meta"][name] == "was here"
    assert len(entries) == SAMPLE_ENTRIES + 6
    assert heads["void"] == 0
    for peer in (alice, bob, carol):
        assert peer.one("verify", session)["ok"] is True
        listed = {row["session"]: row for row in peer.run("sessions")}
        assert listed[session]["entries"] == SAMPLE_ENTRIES + 6


def test_when_the_sharer_is_gone_for_good_the_others_go_on_also_on_other_ports(
    alice: RealPeer, bob: RealPeer, carol: RealPeer
) -> None:
    session = imported(alice.start())
    share(alice, session, bob.start(), carol.start())
    settle(session, alice, bob, carol)
    alice.kill()

    for peer, other in ((bob, carol), (carol, bob)):  # in turn, so that there is somebody to tell of the new port
        before = peer.url
        peer.stop()
        assert peer.start().url != before
        peer.run("send", session, f"without alice, {peer.home.name}")
        other.await_text(session, f"without alice, {peer.home.name}")

    _, entries, _ = settle(session, bob, carol)
    assert [entry["content"] for entry in entries][-2:] == ["without alice, bob", "without alice, carol"]


def test_two_peers_that_both_come_back_on_other_ports_meet_again_on_one_machine(
    alice: RealPeer, bob: RealPeer, carol: RealPeer
) -> None:
    session = imported(alice.start())
    share(alice, session, bob.start(), carol.start())
    settle(session, alice, bob, carol)
    alice.kill()
    before = {bob.url, carol.url}
    for peer in (bob, carol):
        peer.stop()
    for peer in (bob, carol):
        assert peer.start().url not in before
        peer.run("send", session, f"moved, {peer.home.name}")

    _, entries, _ = settle(session, bob, carol)
    assert {entry["content"] for entry in entries[-2:]} == {"moved, bob", "moved, carol"}


def test_an_entry_sent_on_one_peer_is_pushed_to_who_follows_on_another(alice: RealPeer, bob: RealPeer) -> None:
    session = alice.start().one("new", "talk")["session"]
    alice.run("send", session, "before")
    share(alice, session, bob.start())
    following = bob.open("follow", session)
    assert following.row()["content"] == "before"

    for text in ("first", "second"):
        sent = alice.one("send", "talk", text)
        row = following.row()
        assert (row["id"], row["content"]) == (sent["entry"], text)


def test_a_synced_session_is_listed_like_an_own_one_and_named_as_its_members_call_it(
    alice: RealPeer, bob: RealPeer
) -> None:
    session = alice.start().one("new", "plans")["session"]

    share(alice, session, bob.start())

    (row,) = bob.run("sessions")
    assert (row["session"], row["name"], row["role"], row["origin"]) == (session, "plans", "write", "sync")
