"""Messages and frames: what is sent comes back; what is too large or has no form is refused before it costs much."""

from __future__ import annotations

import zlib
from contextlib import suppress
from random import Random
from time import perf_counter

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from roost.core import canonical, operation, wire
from roost.core.errors import Malformed, Refused, TooLarge
from roost.core.have import LogTips, Tip
from roost.core.ids import DocumentId, LogId, OperationId, PeerKey
from roost.core.keys import verify
from roost.core.operation import NOT_HELD, Operation
from tests.core.model import BIRTH, Scene, genesis, head_of, key_of, log_of, public

DOCUMENT = DocumentId(b"d" * 32)
A, B = PeerKey(b"a" * 32), PeerKey(b"b" * 32)
LOG = LogId(b"l" * 8)
ONE, TWO = OperationId(b"1" * 32), OperationId(b"2" * 32)
IDS = wire.LogIds(A, LOG, (ONE, TWO))
TIPS = LogTips(A, LOG, (Tip(4, ONE), Tip(7, TWO)))

MESSAGES: list[wire.Message] = [
    wire.Hello(1, BIRTH, ("https://one.example:4000",)),
    wire.Error(DOCUMENT, "not_a_reader", ""),
    wire.Error(None, "busy", "later"),
    wire.Close(DOCUMENT),
    wire.Address(DOCUMENT, A, ("http://127.0.0.1:1",), BIRTH, b"s" * 64),
    wire.Ephemeral(DOCUMENT, "presence", b"here"),
    wire.Digest(DOCUMENT, 1, 0, b"h" * 32),
    wire.AuthorDigests(DOCUMENT, 1, 1, 0, 1, ((A, b"h" * 32), (B, b"i" * 32))),
    wire.AskHave(DOCUMENT, 1, 2, 0, 1, (A,)),
    wire.Have(DOCUMENT, 1, 1, 0, 2, (TIPS,)),
    wire.Compare(DOCUMENT, 1, 2, 0, 1, (TIPS,), (IDS,), (), (IDS,), ()),
    wire.Acknowledge(DOCUMENT, (1, 2)),
    wire.Withhold(DOCUMENT, (wire.Wait(ONE, 5_000_000),)),
    wire.Refuse(DOCUMENT, (wire.Refusal(ONE, "bad_head"),)),
    wire.WantContents(DOCUMENT, (ONE, TWO)),
    wire.Contents(DOCUMENT, ((ONE, b"text"),)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: wire.Message) -> None:
    assert wire.decode_frame(wire.encode(message)) == message
    assert wire.document_of(message) in (DOCUMENT, None)


def test_operations_travel_verbatim_whether_their_content_comes_along_or_not() -> None:
    scene = Scene()
    said = scene.write("owner")
    lost, erased = said.without_content(), scene.write("owner").without_content(absence=b"r" * 32)

    batch = wire.decode_frame(wire.encode(wire.Operations.of(DOCUMENT, 7, [scene.genesis, said, lost, erased])))

    assert isinstance(batch, wire.Operations)
    assert batch.number == 7
    assert decoded(batch) == [scene.genesis, said, lost, erased]


def test_the_hash_of_a_content_is_sent_only_where_the_content_is_absent() -> None:
    said = Scene().write("owner")

    assert wire.Operations.of(DOCUMENT, 1, [said]).absent == ()
    assert said.content_hash not in wire.encode(wire.Operations.of(DOCUMENT, 1, [said]))
    assert wire.Operations.of(DOCUMENT, 1, [said.without_content()]).absent == ((said.content_hash, NOT_HELD),)


def test_small_frames_are_not_compressed_and_large_ones_are() -> None:
    assert wire.encode(wire.Acknowledge(DOCUMENT, (1,)))[0] == 0
    large = wire.encode(wire.Ephemeral(DOCUMENT, "text", b"a" * 10_000))
    assert large[0] == 1
    assert len(large) < 200


def test_what_does_not_compress_is_sent_plain() -> None:
    noise = Random(1).randbytes(10_000)
    assert wire.encode(wire.Ephemeral(DOCUMENT, "noise", noise))[0] == 0


def test_the_largest_operation_fits_a_frame_however_badly_it_compresses() -> None:
    head = head_of("entry")
    content = Random(2).randbytes(operation.BODY_BYTES_MAX - len(head))
    first = genesis("owner")
    largest = operation.create(
        key_of("owner"), document=first.document, log=log_of("1"), seq=0, backlink=None, deps=(first.id,),
        proof=first.id, kind="entry", time=BIRTH + 1, head_bytes=head, content=content,
    )  # fmt: skip

    frame = wire.encode(wire.Operations.of(first.document, 1, [largest]))

    assert len(frame) <= wire.FRAME_BYTES_MAX
    assert isinstance(wire.decode_frame(frame), wire.Operations)


# --- refused ----------------------------------------------------------------------------------------------------------


def test_a_frame_over_the_cap_is_refused_before_anything_is_decoded() -> None:
    beyond = b"\xff" + bytes(wire.FRAME_BYTES_MAX)  # its first byte alone would be refused as malformed
    with pytest.raises(TooLarge):
        wire.decode_frame(beyond)


@pytest.mark.parametrize("says_its_size", [True, False])
def test_a_compressed_bomb_is_refused_without_being_unpacked(says_its_size: bool) -> None:
    compressor = zstandard.ZstdCompressor(level=3, write_content_size=says_its_size)
    bomb = b"\1" + compressor.compress(bytes(256 << 20))
    assert len(bomb) < wire.FRAME_BYTES_MAX

    begin = perf_counter()
    with pytest.raises(TooLarge):
        wire.decode_frame(bomb)
    assert perf_counter() - begin < 0.05, "256 MiB take longer to unpack"


def test_a_frame_that_unpacks_to_more_than_it_says_is_refused() -> None:
    payload = bytes(100_000)
    packed = bytearray(zstandard.ZstdCompressor(level=3).compress(payload))
    assert int.from_bytes(packed[5:9], "little") == len(payload)
    packed[5:9] = (1_000).to_bytes(4, "little")
    with pytest.raises(Malformed):
        wire.decode_frame(b"\1" + bytes(packed))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\1",
        b"\2\x90",
        b"\0\x93\x63\x01\x02",  # no such message
        b"\0\xdd\xff\xff\xff\xff\x10",  # an array of 2^32 items
        b"\0\x80",
        b"\0\x91\xc0",
        b"\1" + zstandard.ZstdCompressor().compress(b"\x90") + b"x",
        wire.encode(wire.Close(DOCUMENT)) + b"x",
        wire.encode(wire.Close(DOCUMENT))[:-1],
        b"\0" + canonical.pack([2, b"d" * 31]),  # a document's id of 31 bytes
        b"\0" + canonical.pack([2, b"d" * 32, 1]),  # a field too many
        b"\0" + canonical.pack([8, b"d" * 32, -1, 0, b"h" * 32]),
        b"\0" + canonical.pack([17, b"d" * 32, [True]]),
    ],
)
def test_a_frame_without_the_prescribed_form_is_refused(frame: bytes) -> None:
    with pytest.raises(Malformed):
        wire.decode_frame(frame)


def test_counts_are_bounded() -> None:
    ids = [b"i" * 32] * (wire.CONTENTS_MAX + 1)
    with pytest.raises(Malformed):
        wire.decode_frame(b"\0" + canonical.pack([20, DOCUMENT, ids]))
    assert wire.decode_frame(b"\0" + canonical.pack([20, DOCUMENT, ids[1:]]))


@pytest.mark.parametrize("column", range(5))
def test_columns_of_different_lengths_are_refused(column: int) -> None:
    said = Scene().write("owner").without_content()
    columns: list[canonical.Value] = [
        [said.header_bytes],
        said.signature,
        [said.head_bytes],
        [None],
        [[said.content_hash, b""]],
    ]
    assert wire.decode_frame(b"\0" + canonical.pack([16, DOCUMENT, 1, *columns]))

    columns[column] = [] if column != 1 else b""
    with pytest.raises(Malformed):
        wire.decode_frame(b"\0" + canonical.pack([16, DOCUMENT, 1, *columns]))


def test_the_reason_for_an_absence_is_an_id_or_nothing() -> None:
    said = Scene().write("owner").without_content()
    columns: list[canonical.Value] = [
        [said.header_bytes],
        said.signature,
        [said.head_bytes],
        [None],
        [[said.content_hash, b"because"]],
    ]
    with pytest.raises(Malformed):
        wire.decode_frame(b"\0" + canonical.pack([16, DOCUMENT, 1, *columns]))


@given(st.binary(max_size=300), st.sampled_from(MESSAGES), st.data())
def test_arbitrary_bytes_are_decoded_or_refused_and_nothing_else(
    noise: bytes, message: wire.Message, data: st.DataObject
) -> None:
    frame = wire.encode(message)
    at = data.draw(st.integers(0, len(frame) - 1))
    for candidate in (noise, b"\0" + noise, b"\1" + noise, frame[:at] + noise[:1] + frame[at + 1 :]):
        with suppress(Refused):
            wire.decode_frame(candidate)


def test_an_address_record_is_signed_over_its_canonical_array() -> None:
    urls = ("http://127.0.0.1:4000",)
    signed = wire.address_bytes(public("ann"), urls, BIRTH)
    assert signed == canonical.pack([public("ann"), list(urls), BIRTH])
    verify(key_of("ann").sign(wire.ADDRESS_PREFIX, signed), public("ann"), wire.ADDRESS_PREFIX, signed)


# --- cost -------------------------------------------------------------------------------------------------------------

TEXT = """session agent tool result please the build fails because path is missing in config and then we tried again
with another model which returned an empty list so check whether value matches key before writing it"""


def a_line(chance: Random) -> str:
    words = TEXT.split()
    said = (chance.choice(words) if chance.random() < 0.7 else f"{chance.getrandbits(40):x}" for _ in range(70))
    return " ".join(said)[:330]


def test_a_catch_up_costs_little_more_than_its_bodies() -> None:
    chance = Random(4)
    scene = Scene()
    head = canonical.pack({"at": BIRTH, "branch": None, "parent": scene.genesis.id, "type": "message"})
    lines = [scene.genesis]
    for number in range(1, 2_000):
        content = canonical.pack({"content": a_line(chance), "salt": chance.randbytes(16), "sender": "ann"})
        before = lines[-1]
        made = operation.create(
            key_of("owner"),
            document=scene.genesis.document,
            log=scene.genesis.log,
            seq=number,
            backlink=before.id,
            deps=(),
            proof=scene.genesis.id,
            kind="entry",
            time=before.time + chance.randrange(1, 90_000_000),
            head_bytes=head,
            content=content,
        )
        lines.append(made)
    bodies = b"".join(line.head_bytes + (line.content or b"") for line in lines)

    sent = sum(len(wire.encode(wire.Operations.of(DOCUMENT, 1, lines[at : at + 500]))) for at in range(0, 2_000, 500))

    assert sent <= 1.15 * len(zlib.compress(bodies, 6)) + 190 * len(lines)


def decoded(batch: wire.Operations) -> list[Operation]:
    return [batch.decode(index, absent) for index, absent in enumerate(batch.absences())]
