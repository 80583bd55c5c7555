"""How one peer writes into a document: joins, logs, proofs."""

from __future__ import annotations

import pytest

from roost.core.document import Document
from roost.core.errors import NotAnAdmin, NotAWriter
from roost.core.ids import OperationId
from roost.core.index import Known
from roost.core.operation import DEPS_MAX
from tests.core.model import NOW, Honest, Scene, grant, head_of, verbs
from tests.core.oracle import Oracle


def test_a_removal_on_a_hundred_heads_keeps_all_that_was_seen() -> None:
    """[7]; failing case 11: with 32 heads and the proof there would be 33."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "admin"), grant("kim", "write")))
    words = [scene.write("kim", log=str(number), proof=given) for number in range(100)]
    ann = Honest("ann", scene.genesis)
    ann.peer.deliver(scene.operations[1:])
    below = ann.write("access", verbs(grant("lee", "write")), NOW)

    written = ann.write("access", verbs(revoke=["lee"]), NOW)

    assert all(len(operation.deps) <= DEPS_MAX for operation in below + written)
    assert [operation.kind for operation in below + written].count("join") >= 3
    assert ann.peer.document.heads == [written[-1].id]
    assert all(ann.peer.accepts(operation) for operation in words)
    oracle = Oracle(scene.operations + below + written)
    removal = oracle.number[written[-1].id]
    assert all(oracle.past[removal] >> oracle.number[operation.id] & 1 for operation in words)


def test_joins_over_any_number_of_heads_look_each_up_a_fixed_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 heads, 3 MB of a removed key's making, held a peer up for 75 s at its next entry."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "write"), grant("kim", "write")))
    for number in range(500):
        scene.write("kim", log=str(number), proof=given)
    ann = Honest("ann", scene.genesis)
    ann.peer.deliver(scene.operations[1:])
    looked_up = 0
    known = Document.known

    def counting(document: Document, identity: OperationId) -> Known:
        nonlocal looked_up
        looked_up += 1
        return known(document, identity)

    monkeypatch.setattr(Document, "known", counting)
    written = ann.write("entry", head_of("entry"), NOW)

    assert [operation.kind for operation in written].count("join") == 16
    assert looked_up < 500 * 4


def test_a_log_whose_tip_is_void_is_left_for_a_new_one() -> None:
    """Failing case 12: here without a re-grant, by a second and senior grant."""
    scene = Scene("owner")
    given = scene.write("owner", verbs(grant("ann", "admin"), grant("bob", "admin")))
    junior = scene.write("bob", verbs(grant("kim", "write")), proof=given)
    kim = Honest("kim", scene.genesis)
    kim.peer.deliver(scene.operations[1:])
    void = kim.write("entry", head_of("entry"), NOW)[0]
    second = scene.write("owner", verbs(grant("kim", "admin")), after=[junior])
    removal = scene.write("ann", verbs(revoke=["kim"]), proof=given, after=[junior])
    kim.peer.deliver([second, removal])
    assert not kim.peer.accepts(void)

    after = kim.write("entry", head_of("entry"), NOW)[-1]

    assert (after.log == void.log, after.seq, after.proof) == (False, 0, second.id)
    assert void.id not in after.deps
    assert kim.peer.accepts(after)


def test_whoever_holds_no_role_is_told_before_signing() -> None:
    scene = Scene("owner")
    scene.write("owner", verbs(grant("kim", "write")))
    kim, eve = Honest("kim", scene.genesis), Honest("eve", scene.genesis)
    kim.peer.deliver(scene.operations[1:])
    with pytest.raises(NotAnAdmin):
        kim.write("access", verbs(revoke=["owner"]), NOW)
    with pytest.raises(NotAWriter):
        eve.write("entry", head_of("entry"), NOW)
