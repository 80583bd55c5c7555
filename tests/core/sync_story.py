"""Operations to be held by this peer and that, for conversations about one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roost.core import wire
from roost.core.heads import Grant
from roost.core.ids import LogId, OperationId
from roost.core.operation import Operation, create
from tests.core.model import Scene, grant, head_of, key_of, log_of, verbs
from tests.core.sync_world import World

WRITERS = ("ann", "bob", "cid", "mal")


class Story(Scene):
    """A scene in which all writers hold write."""

    def __init__(self, *more: Grant) -> None:
        super().__init__("owner")
        self.granted = self.write("owner", verbs(*(grant(name, "write") for name in WRITERS), *more))

    def long(self, author: str, contents: Iterable[bytes]) -> list[Operation]:
        """A log of entries with these contents."""
        made: list[Operation] = []
        for content in contents:
            before = made[-1] if made else None
            made.append(
                create(
                    key_of(author),
                    document=self.genesis.document,
                    log=log_of("long"),
                    seq=len(made),
                    backlink=before.id if before else None,
                    deps=() if before else (self.granted.id,),
                    proof=self.granted.id,
                    kind="entry",
                    time=1 + (before or self.granted).time,
                    head_bytes=head_of("entry"),
                    content=content,
                )
            )
        return made

    def log(self, author: str, length: int, *, log: str = "1", back: Operation | None = None) -> list[Operation]:
        """Entries one after another, after ``back`` or at the log's beginning."""
        made = []
        for _ in range(length):
            back = self.write(author, log=log, back=back, proof=self.granted)
            made.append(back)
        return made

    def log_id(self, name: str) -> LogId:
        """The log of that name: the author's, then its own."""
        return log_of(name)

    def forget_tip(self, author: str, log: str) -> None:
        """Let the next operation of a log begin anew, unless it names what it follows."""
        self._tips.pop((author, log), None)

    @property
    def start(self) -> list[Operation]:
        return [self.genesis, self.granted]

    def world(self, holds: Mapping[str, Iterable[Operation]], *links: tuple[str, str], seed: int = 0) -> World:
        """Peers that hold the beginning and these operations, and links; the first of each pair dials."""
        world = World(self.genesis.document, *holds, seed=seed)
        for name, operations in holds.items():
            world.write(name, *sorted({*self.start, *operations}, key=lambda one: (one.time, one.id)))
        for one, other in links:
            world.link(one, other)
        return world


def two(story: Story, mine: Iterable[Operation], theirs: Iterable[Operation], *, seed: int = 0) -> World:
    return story.world({"ann": mine, "bob": theirs}, ("ann", "bob"), seed=seed)


def ids(operations: Iterable[Operation]) -> set[OperationId]:
    return {one.id for one in operations}


def batches(world: World, sender: str) -> list[wire.Operations]:
    return [message for one, _, message in world.sent if one == sender and isinstance(message, wire.Operations)]


def ids_in(batch: wire.Operations) -> list[OperationId]:
    return [batch.decode(index, absent).id for index, absent in enumerate(batch.absences())]


def quiet(world: World) -> None:
    """Peers that hold the same say one small message each way in a round, and send no operation."""
    world.tick()
    world.tick()
    world.forget()
    world.tick()
    links = {frozenset(said[:2]) for said in world.said()}
    assert {kind for _, _, kind in world.said()} == {"Digest"}
    assert len(world.said()) <= 2 * len(links)
