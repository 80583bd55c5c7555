"""A member with a true key and its own program: it backdates, forks its log, equivocates, forges, and sends rubbish.

It knows what everybody holds, which no real attacker does, and speaks the protocol of the links by hand.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from random import Random
from typing import Final

import msgspec

from roost.adapters.carriers.carrier import Wire
from roost.adapters.carriers.memory import Network
from roost.core import operation as operations
from roost.core import wire
from roost.core.edits import encode_edits
from roost.core.entry import encode_content
from roost.core.errors import RoostError
from roost.core.have import LogTips, Tip
from roost.core.heads import EntryHead, Grant, Put, Splice, encode_access, encode_head
from roost.core.ids import DocumentId, LogId, OperationId, PeerKey
from roost.core.keys import SigningKey
from roost.core.operation import Header, Operation
from roost.node.replica import Replica
from tests.simulation.loop import Body
from tests.simulation.machine import Clock, Machine

URL: Final = "http://127.0.0.1:6666"
STAYS_SECONDS_MAX: Final = 12.0
_encoder = msgspec.msgpack.Encoder()
_headers = msgspec.msgpack.Decoder(Header)


class Rogue:
    """Its acts are named as they are counted."""

    def __init__(self, seed: str, network: Network, fired: Counter[str], *, odd_clocks: bool) -> None:
        self.key = SigningKey.from_seed(sha256(f"{seed}/rogue".encode()).digest())
        self.body = Body("rogue")
        self._chance = Random(f"{seed}/rogue")
        self._network = network
        self._fired = fired
        self._odd_clocks = odd_clocks
        self._chains: dict[DocumentId, list[list[Operation]]] = {}
        self._proofs: dict[DocumentId, OperationId] = {}
        self._carrier = network.attach(URL, self.key.public, self, Clock(f"{seed}/rogue/clock"))

    def leave(self) -> None:
        """For good."""
        self._network.detach(URL)
        for task in self.body.running():
            task.cancel()

    # --- being dialled ----------------------------------------------------------------------------------------------

    async def on_wire(self, wire: Wire) -> None:
        while True:
            await wire.receive()

    async def on_request(self, peer: PeerKey, path: str, body: bytes, nonce: bytes) -> tuple[int, bytes]:
        return 500, self._chance.randbytes(20)

    # --- acts -------------------------------------------------------------------------------------------------------

    def act(self, document: DocumentId, machines: Sequence[Machine]) -> None:
        """Do something to some of the machines, which run and hold the document."""
        one, other = self._chance.choice(machines), self._chance.choice(machines)
        replica = one.peer.documents.get(document)
        held = [proof for proof, _ in replica.document.access.held(self.key.public)]
        if held:
            self._proofs[document] = self._chance.choice(held)
        if document not in self._proofs:
            return
        acts: list[Callable[[Replica, Machine, Machine], str]] = [
            self._backdate, self._fork, self._equivocate, self._sign_falsely, self._forge, self._talk_rubbish,
            self._lie, self._jump, self._seize,
        ]  # fmt: skip
        self._fired[self._chance.choice(acts)(replica, one, other)] += 1

    def _backdate(self, replica: Replica, one: Machine, other: Machine) -> str:
        """As if it had seen no more than some old operation; others may have removed it since."""
        chain = self._chain(replica, None, [self._some_old(replica)], self._chance.randint(1, 4))
        self._chains.setdefault(replica.id, []).append(chain)
        self._send(one, replica.id, chain)
        return "backdate"

    def _fork(self, replica: Replica, one: Machine, other: Machine) -> str:
        """A second branch somewhere on an earlier chain."""
        known = self._chains.setdefault(replica.id, [])
        if not known:
            known.append(self._chain(replica, None, [self._some_old(replica)], 2))
        base = self._chance.choice(self._chance.choice(known))
        chain = self._chain(replica, base, [], self._chance.randint(1, 3))
        known.append(chain)
        self._send(one, replica.id, [*self._below(replica.id, base), *chain])
        return "fork"

    def _equivocate(self, replica: Replica, one: Machine, other: Machine) -> str:
        """One branch for one peer, another for another, and away."""
        first = self._chain(replica, None, [self._some_old(replica)], self._chance.randint(1, 3))
        base = self._chance.choice(first)
        branches = [self._chain(replica, base, [], self._chance.randint(1, 3)) for _ in range(2)]
        self._chains.setdefault(replica.id, []).extend([first, *branches])
        for target, branch in zip((one, other), branches, strict=True):
            self._send(target, replica.id, [*first, *branch], stays=0.2)
        return "equivocate"

    def _sign_falsely(self, replica: Replica, one: Machine, other: Machine) -> str:
        """A false signature, vouched for by what follows it, perhaps later, perhaps elsewhere, perhaps never."""
        chain = self._chain(replica, None, [self._some_old(replica)], 3)
        chain[1] = msgspec.structs.replace(chain[1], signature=self._chance.randbytes(64))
        if self._chance.random() < 0.5:
            self._send(one, replica.id, chain[:2])
        if self._chance.random() < 0.5:
            self._send(other, replica.id, chain)
        self._chains.setdefault(replica.id, []).append(chain)
        return "false_signature"

    def _forge(self, replica: Replica, one: Machine, other: Machine) -> str:
        """The next operation of somebody else's log."""
        graph = replica.document.graph
        stretch = self._chance.choice([one for one in graph.stretches.values() if one.log.author != self.key.public])
        tip = replica.document.graph.tips(stretch.log)[0]
        before = replica.document.id_at(tip)
        proof = replica.document.access.by_number[replica.document.known(before).group].proof_id
        mine = self._operation(replica, "entry", stretch.log.log, tip.seq + 1, before, (), proof)
        forged = msgspec.structs.replace(_headers.decode(mine.header_bytes), author=stretch.log.author)
        header = _encoder.encode(forged)
        signature = self.key.sign(operations.SIGNATURE_PREFIX, header)
        self._send(one, replica.id, [operations.decode(header, signature, mine.head_bytes, mine.content)])
        return "forge"

    def _jump(self, replica: Replica, one: Machine, other: Machine) -> str:
        """Far ahead of every clock."""
        log = LogId(self._chance.randbytes(8))
        proof = self._proofs[replica.id]
        ahead = 200 * 3600 * 1_000_000
        self._send(one, replica.id, [self._operation(replica, "entry", log, 0, None, (proof,), proof, ahead)])
        return "jump"

    def _seize(self, replica: Replica, one: Machine, other: Machine) -> str:
        """Remove somebody, which has effect if it is an admin and senior; else the operation is void."""
        members = sorted(member.key for member in replica.document.access.members())
        victim = self._chance.choice(members)
        verbs = (
            encode_access(revokes=(victim,))
            if self._chance.random() < 0.6
            else encode_access((Grant(victim, self._chance.choice(("read", "write"))),))
        )
        proof = self._proofs[replica.id]
        deps = tuple(sorted({self._some_old(replica), proof}))
        seized = self._operation(replica, "access", LogId(self._chance.randbytes(8)), 0, None, deps, proof, 0, verbs)
        self._send(one, replica.id, [seized])
        return "seize"

    def _talk_rubbish(self, replica: Replica, one: Machine, other: Machine) -> str:
        """Frames that are none."""
        good = wire.encode(wire.Digest(replica.id, 1, 0, bytes(32)))
        rubbish = [
            self._chance.randbytes(self._chance.randint(0, 200)),
            good[: self._chance.randrange(len(good))],
            b"\1" + self._chance.randbytes(50),
            b"\0" + _encoder.encode([self._chance.randrange(40), replica.id, self._chance.randrange(9)]),
            b"\0" + b"\x91" * 3000,
        ]
        self._visit(one, [self._chance.choice(rubbish) for _ in range(self._chance.randint(1, 3))], 3.0)
        return "malformed"

    def _lie(self, replica: Replica, one: Machine, other: Machine) -> str:
        """Well-formed frames that are not true."""
        nowhere = OperationId(self._chance.randbytes(32))
        some = self._some_old(replica)
        author = self._chance.choice([stretch.log for stretch in replica.document.graph.stretches.values()])
        number = self._chance.randrange(4)
        ids = wire.LogIds(author.author, author.log, (nowhere, some))
        lies: list[wire.Message] = [
            wire.Digest(replica.id, number, 0, bytes(32)),
            wire.Digest(replica.id, number, 1, replica.holdings.digest()),
            wire.Have(replica.id, number, 1, 0, 1, (LogTips(author.author, author.log, (Tip(10_000, nowhere),)),)),
            wire.Compare(replica.id, number, 2, 0, 1, (), (ids,), (ids,), (ids,), (ids,)),
            wire.Acknowledge(replica.id, (0, 1, 2, 3)),
            wire.Refuse(replica.id, (wire.Refusal(some, "bad_head"), wire.Refusal(nowhere, "?"))),
            wire.WantContents(replica.id, (some, nowhere)),
            wire.Contents(replica.id, ((some, b"not what was said"),)),
            wire.Address(replica.id, other.key.public, ("http://127.0.0.1:1",), 10**15, bytes(64)),
            wire.Close(replica.id),
            wire.Error(replica.id, "not_a_reader", ""),
            wire.Ephemeral(replica.id, "presence", b"!"),
        ]
        if self._odd_clocks:  # honest authors believe it: they hold back what they wrote and write it again
            lies.append(wire.Withhold(replica.id, (wire.Wait(some, 10**11), wire.Wait(nowhere, 5))))
        told = [self._chance.choice(lies) for _ in range(self._chance.randint(1, 6))]
        self._visit(one, [wire.encode(message) for message in told], 4.0)
        return "lie"

    # --- writing ----------------------------------------------------------------------------------------------------

    def _some_old(self, replica: Replica) -> OperationId:
        """An operation that the other side holds, rather an early one; void ones too."""
        stretch = self._chance.choice(list(replica.document.graph.stretches.values()))
        last = replica.holdings.last(stretch.number)
        if last < stretch.first:
            return OperationId(replica.id)
        seq = self._chance.randint(stretch.first, last)
        return next(iter(replica.ids_between(stretch.number, seq, seq)), OperationId(replica.id))

    def _below(self, document: DocumentId, end: Operation) -> list[Operation]:
        """The chain up to an own operation, itself included."""
        mine = {one.id: one for chain in self._chains[document] for one in chain}
        chain = [end]
        while chain[0].backlink in mine:
            chain.insert(0, mine[chain[0].backlink])
        return chain

    def _chain(
        self, replica: Replica, base: Operation | None, seen: Sequence[OperationId], length: int
    ) -> list[Operation]:
        proof = self._proofs[replica.id] if base is None else base.proof
        log = LogId(self._chance.randbytes(8)) if base is None else base.log
        chain: list[Operation] = []
        for _ in range(length):
            before = chain[-1] if chain else base
            kind = self._chance.choice(("entry", "entry", "edit"))
            if before is None:
                deps = tuple(sorted({*seen, proof}))
                chain.append(self._operation(replica, kind, log, 0, None, deps, proof))
            else:
                chain.append(self._operation(replica, kind, log, before.seq + 1, before.id, (), proof, before.time + 1))
        return chain

    def _operation(
        self,
        replica: Replica,
        kind: str,
        log: LogId,
        seq: int,
        backlink: OperationId | None,
        deps: tuple[OperationId, ...],
        proof: OperationId,
        earliest: int = 0,
        head: bytes | None = None,
    ) -> Operation:
        """As early as its parents allow, and not before ``earliest``."""
        parents = [known for one in (*deps, backlink) if one and (known := replica.find(one)) is not None]
        time = max([earliest, *(known.time + 1 for known in parents)])
        text = f"rogue {self._chance.randrange(10**6)}"
        content = b""
        if kind == "entry":
            head = encode_head(EntryHead("message", None, None, time))
            content = encode_content(self._chance.randbytes(16), "rogue", text)
        elif kind == "edit":
            edits = (Put("meta", f"key {self._chance.randrange(3)}"), Splice("notes", 0, 0, len(text)))
            edit_head, content = encode_edits(edits, (text, text), self._chance.randbytes(16))
            head = encode_head(edit_head)
        assert head is not None
        return operations.create(
            self.key, document=replica.id, log=log, seq=seq, backlink=backlink, deps=deps, proof=proof, kind=kind,
            time=time, head_bytes=head, content=content,
        )  # fmt: skip

    # --- telling ----------------------------------------------------------------------------------------------------

    def _send(self, target: Machine, document: DocumentId, chain: Sequence[Operation], stays: float = 3.0) -> None:
        whole = [wire.encode(wire.Operations.of(document, 0, chain))]
        single = [wire.encode(wire.Operations.of(document, number, [one])) for number, one in enumerate(chain)]
        self._visit(target, self._chance.choice((whole, single, single[::-1])), stays)

    def _visit(self, target: Machine, frames: Sequence[bytes], stays: float) -> None:
        stays += self._chance.random() * STAYS_SECONDS_MAX if stays > 1 else 0.0
        self.body.start(self._talk(target.url, target.key.public, frames, stays))

    async def _talk(self, url: str, key: PeerKey, frames: Sequence[bytes], stays: float) -> None:
        try:
            connection = await self._carrier.dial(url, key)
            await connection.send(wire.encode(wire.Hello(1, 0, ())))
            for frame in frames:
                await connection.send(frame)
            async with asyncio.timeout(stays):
                await self.on_wire(connection)
        except (RoostError, TimeoutError):
            pass
