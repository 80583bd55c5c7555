"""Messages between peers, and the frames that carry them.

A frame is one byte (0 plain, 1 zstd) and a msgpack array that begins with the message's number. Sizes are checked
before anything is unpacked; what comes out is typed, or refused. Source: docs/protocol.md "Sync".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NamedTuple, Protocol, TypeAlias

import msgspec
import zstandard
from msgspec import Meta, Struct

from roost.core.errors import Malformed, TooLarge
from roost.core.have import Author, Count, Id, Log, LogTips
from roost.core.ids import ID_BYTES, SIGNATURE_BYTES, DocumentId
from roost.core.operation import BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADER_BYTES_MAX, NOT_HELD, Operation, decode

FRAME_BYTES_MAX: Final = 1 << 20  # a frame is held in memory once per link; 100 links = 100 MiB
UNPACKED_BYTES_MAX: Final = 4 << 20  # what a frame may claim memory for before anything in it was looked at
COMPRESS_FROM_BYTES: Final = 512  # below, a frame is one packet anyway, and the compressor costs more than it saves
LEVEL: Final = 3
OPERATIONS_MAX: Final = 4096  # an operation is never below 250 bytes: more do not fit a frame
IDS_MAX: Final = 8192  # 32 bytes each: a quarter of a frame
PARTS_MAX: Final = 64  # half a million ids in one step of a comparison
CONTENTS_MAX: Final = 1024
EPHEMERAL_BYTES_MAX: Final = 64 << 10
URLS_MAX: Final = 8
ADDRESS_PREFIX: Final = b"roost/address/1\0"
_PLAIN, _ZSTD = b"\0", b"\1"

Document: TypeAlias = Annotated[DocumentId, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Hash: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Code: TypeAlias = Annotated[str, Meta(max_length=64)]
Detail: TypeAlias = Annotated[str, Meta(max_length=1024)]
Url: TypeAlias = Annotated[str, Meta(max_length=512)]
Part: TypeAlias = Annotated[int, Meta(ge=0, lt=PARTS_MAX)]
Parts: TypeAlias = Annotated[int, Meta(ge=1, le=PARTS_MAX)]
Content: TypeAlias = Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)]


class Signed(Protocol):
    """An operation as it travels, verbatim. ``content_hash`` is needed where the content is absent only."""

    @property
    def header_bytes(self) -> bytes: ...
    @property
    def signature(self) -> bytes: ...
    @property
    def head_bytes(self) -> bytes: ...
    @property
    def content(self) -> bytes | None: ...
    @property
    def content_hash(self) -> bytes | None: ...
    @property
    def absence(self) -> bytes: ...


class Absent(NamedTuple):
    """A content that does not come along: its hash, and the id of the redact that erased it, or NOT_HELD."""

    content_hash: Hash
    absence: Annotated[bytes, Meta(max_length=32)]


class LogIds(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Some operations of one log."""

    author: Author
    log: Log
    ids: Annotated[tuple[Id, ...], Meta(max_length=IDS_MAX)]


# --- of the link ----------------------------------------------------------------------------------------------------


class Hello(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=0):
    """First on a link, both ways. clock is microseconds; urls are where the sender can be dialled."""

    version: Count
    clock: Count
    urls: Annotated[tuple[Url, ...], Meta(max_length=URLS_MAX)]


class Error(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """What was asked for on this document is refused; an error that concerns the whole link names no document."""

    document: Document | None
    code: Code
    detail: Detail


class Close(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """The sender speaks no longer about this document here; what the other remembers of it on this link is void."""

    document: Document


class Address(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """Where a member can be reached, signed by the member: see ``address_bytes``."""

    document: Document
    key: Author
    urls: Annotated[tuple[Url, ...], Meta(max_length=URLS_MAX)]
    time: Count  # microseconds; the latest record of a key counts
    signature: Signature


class Ephemeral(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=4):
    """Presence, signs of life, streamed text: vouched for by the link, never stored, proves nothing."""

    document: Document
    topic: Code
    payload: Annotated[bytes, Meta(max_length=EPHEMERAL_BYTES_MAX)]


# --- comparing: the two sides of a link speak in turns, ``step`` counts them ----------------------------------------


class Digest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=8):
    """Begins a round (step 0), or ends it as nothing differs (step 1). Round 0 asks the other side to begin one."""

    document: Document
    round: Count
    step: Count
    digest: Hash


class AuthorDigests(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=9):
    """Where a have would be long: the digest of each author's part of it."""

    document: Document
    round: Count
    step: Count
    part: Part
    parts: Parts
    digests: Annotated[tuple[tuple[Author, Hash], ...], Meta(max_length=IDS_MAX)]


class AskHave(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=10):
    """Asks for these authors' part of the have."""

    document: Document
    round: Count
    step: Count
    part: Part
    parts: Parts
    authors: Annotated[tuple[Author, ...], Meta(max_length=IDS_MAX)]


class Have(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=11):
    """The sender's have: all of it, or the part that was asked for. A log may go on in the next part."""

    document: Document
    round: Count
    step: Count
    part: Part
    parts: Parts
    logs: Annotated[tuple[LogTips, ...], Meta(max_length=IDS_MAX)]


class Compare(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=12):
    """What is still open on single logs; a log may go on in the next part.

    tips: the sender's, where it lacks what it was told. locate: ids on its branches, of a log that is forked.
    held, extra: of a log that was to be located, the named ids that the sender holds, and all of its own not on their
    chains. common: of what the receiver holds of a log, the sender holds exactly the chains of these.
    """

    document: Document
    round: Count
    step: Count
    part: Part
    parts: Parts
    tips: Annotated[tuple[LogTips, ...], Meta(max_length=IDS_MAX)] = ()
    locate: Annotated[tuple[LogIds, ...], Meta(max_length=IDS_MAX)] = ()
    held: Annotated[tuple[LogIds, ...], Meta(max_length=IDS_MAX)] = ()
    extra: Annotated[tuple[LogIds, ...], Meta(max_length=IDS_MAX)] = ()
    common: Annotated[tuple[LogIds, ...], Meta(max_length=IDS_MAX)] = ()


# --- operations and contents ----------------------------------------------------------------------------------------


class Operations(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=16):
    """Operations in the total order, laid out by columns as that compresses best.

    ``signatures`` are 64 bytes each, one after another; ``absent`` has an item for each content that is nil.
    """

    document: Document
    number: Count  # of this sender, document and link: what Acknowledge names
    headers: Annotated[tuple[Annotated[bytes, Meta(max_length=HEADER_BYTES_MAX)], ...], Meta(max_length=OPERATIONS_MAX)]
    signatures: bytes
    heads: Annotated[tuple[Annotated[bytes, Meta(max_length=HEAD_BYTES_MAX)], ...], Meta(max_length=OPERATIONS_MAX)]
    contents: Annotated[tuple[Content | None, ...], Meta(max_length=OPERATIONS_MAX)]
    absent: Annotated[tuple[Absent, ...], Meta(max_length=OPERATIONS_MAX)]

    @classmethod
    def of(cls, document: DocumentId, number: int, operations: Iterable[Signed]) -> Operations:
        chosen = list(operations)
        return cls(
            document,
            number,
            tuple([one.header_bytes for one in chosen]),
            b"".join([one.signature for one in chosen]),
            tuple([one.head_bytes for one in chosen]),
            tuple([one.content for one in chosen]),
            tuple([Absent(one.content_hash or b"", one.absence) for one in chosen if one.content is None]),
        )

    def __len__(self) -> int:
        return len(self.headers)

    def decode(self, index: int, absent: Absent | None) -> Operation:
        """The operation at ``index``, or raises what ``operation.decode`` refuses. absent: of a nil content."""
        at = index * SIGNATURE_BYTES
        content_hash, absence = absent or (None, NOT_HELD)
        signature = self.signatures[at : at + SIGNATURE_BYTES]
        return decode(self.headers[index], signature, self.heads[index], self.contents[index], content_hash, absence)

    def absences(self) -> Iterator[Absent | None]:
        """One per operation: why and of what hash its content is absent, or None."""
        left = iter(self.absent)
        for content in self.contents:
            yield next(left) if content is None else None


class Acknowledge(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=17):
    """These batches are committed or parked, save for what Withhold and Refuse named before."""

    document: Document
    numbers: Annotated[tuple[Count, ...], Meta(max_length=OPERATIONS_MAX)]


class Wait(NamedTuple):
    """For how long, from now on, the receiver will not take an operation."""

    id: Id
    microseconds: Count


class Withhold(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=18):
    """Operations too far ahead of the sender's clock: keep them, and their descendants, until the time is over."""

    document: Document
    waits: Annotated[tuple[Wait, ...], Meta(max_length=OPERATIONS_MAX)]


class Refusal(NamedTuple):
    """An operation that the receiver never takes, and the code of the error."""

    id: Id
    code: Code


class Refuse(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=19):
    """Operations that are never taken on this link: keep them and their descendants back."""

    document: Document
    refusals: Annotated[tuple[Refusal, ...], Meta(max_length=OPERATIONS_MAX)]


class WantContents(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=20):
    """Asks for contents, once per link; who lacks one owes it while the link lives."""

    document: Document
    ids: Annotated[tuple[Id, ...], Meta(max_length=CONTENTS_MAX)]


class Contents(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=21):
    """Contents that were asked for."""

    document: Document
    contents: Annotated[tuple[tuple[Id, Content], ...], Meta(max_length=CONTENTS_MAX)]


Message: TypeAlias = (
    Hello
    | Error
    | Close
    | Address
    | Ephemeral
    | Digest
    | AuthorDigests
    | AskHave
    | Have
    | Compare
    | Operations
    | Acknowledge
    | Withhold
    | Refuse
    | WantContents
    | Contents
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_address_encoder = msgspec.msgpack.Encoder()
# One of each for the process: they are used by the thread that owns the links, and none other.
_compressor = zstandard.ZstdCompressor(level=LEVEL)
_decompressor = zstandard.ZstdDecompressor(max_window_size=UNPACKED_BYTES_MAX)


def address_bytes(key: bytes, urls: tuple[str, ...], time: int) -> bytes:
    """What an address record's key signs, under ADDRESS_PREFIX: the canonical array [key, urls, time]."""
    return _address_encoder.encode((key, urls, time))


def encode(message: Message) -> bytes:
    """A message as a frame. Raises TooLarge; the sender's limits see to it that none is."""
    payload = _encoder.encode(message)
    if len(payload) > UNPACKED_BYTES_MAX:
        raise TooLarge("frame, unpacked")
    frame = _PLAIN + payload
    if len(payload) >= COMPRESS_FROM_BYTES:
        packed = _compressor.compress(payload)
        if len(packed) < len(payload):
            frame = _ZSTD + packed
    if len(frame) > FRAME_BYTES_MAX:
        raise TooLarge("frame")
    return frame


def fits(message: Message) -> bool:
    """Whether a message fits a frame."""
    try:
        encode(message)
    except TooLarge:
        return False
    return True


def decode_frame(frame: bytes) -> Message:
    """A frame as a message, or raises TooLarge or Malformed. Nothing is unpacked before its size is known."""
    if len(frame) > FRAME_BYTES_MAX:
        raise TooLarge("frame")
    flag, payload = frame[:1], frame[1:]
    if flag == _ZSTD:
        payload = _decompress(payload)
    elif flag != _PLAIN:
        raise Malformed("frame: unknown packing")
    try:
        message = _decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Malformed(f"frame: {error}") from error
    if type(message) is Operations:
        _check_columns(message)
    return message


def _decompress(payload: bytes) -> bytes:
    try:
        size = zstandard.get_frame_parameters(payload).content_size
        if size > UNPACKED_BYTES_MAX:  # also where the frame does not say: the size is then the largest number
            raise TooLarge("frame, unpacked")
        return _decompressor.decompress(payload, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Malformed(f"frame: {error}") from error


def _check_columns(message: Operations) -> None:
    count = len(message.headers)
    if not count == len(message.heads) == len(message.contents):
        raise Malformed("operations: columns of different lengths")
    if len(message.signatures) != count * SIGNATURE_BYTES:
        raise Malformed("operations: signatures")
    if len(message.absent) != message.contents.count(None):
        raise Malformed("operations: absent contents")
    if any(len(absence) not in (0, ID_BYTES) for _, absence in message.absent):
        raise Malformed("operations: why a content is absent")


def document_of(message: Message) -> DocumentId | None:
    """The document that a message is about, or None if it concerns the whole link."""
    return None if type(message) is Hello else message.document  # type: ignore[union-attr]
