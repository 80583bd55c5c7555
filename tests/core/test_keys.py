"""Keys and signatures, judged against curve arithmetic of the tests' own."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.errors import BadKey, BadSignature
from roost.core.ids import PeerKey
from roost.core.keys import SigningKey, check_peer_key, verify

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
PREFIX = b"roost/test/1\0"
Point = tuple[int, int]


def x_of(y: int, sign: int) -> int | None:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return x if x & 1 == sign or x == 0 else P - x


def add(a: Point, b: Point) -> Point:
    (x, y), (u, v) = a, b
    k = D * x * u * y * v % P
    return (x * v + y * u) * pow(1 + k, -1, P) % P, (y * v + x * u) * pow(1 - k, -1, P) % P


def times(n: int, point: Point) -> Point:
    total = IDENTITY
    while n:
        if n & 1:
            total = add(total, point)
        point, n = add(point, point), n >> 1
    return total


def point_at(y: int) -> Point:
    x = x_of(y, 0)
    assert x is not None
    return x, y


def encode(y: int, sign: int) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


def encoded(point: Point) -> bytes:
    return encode(point[1], point[0] & 1)


IDENTITY = (0, 1)
BASE = point_at(4 * pow(5, -1, P) % P)
ORDER_8 = next(t for t in (times(L, point_at(y)) for y in range(2, 99) if x_of(y, 0)) if times(4, t) != IDENTITY)
SMALL = [times(i, ORDER_8) for i in range(8)]
SMALL_ENCODINGS = sorted({encode(y, s) for _, q in SMALL for y in (q, q + P) if y < 2**255 for s in (0, 1)})
SECRET, NONCE = 0x1234567890ABCDEF, 0xFEDCBA0987654321
KEY = times(SECRET, BASE)


def signed(message: bytes, r: Point | bytes, key: bytes, nonce: int = NONCE, secret: int = SECRET) -> bytes:
    """What a signer makes who chooses R and the key's encoding at will."""
    first = r if isinstance(r, bytes) else encoded(r)
    challenge = int.from_bytes(hashlib.sha512(first + key + PREFIX + message).digest(), "little")
    return first + ((nonce + challenge * secret) % L).to_bytes(32, "little")


def refuse(signature: bytes, key: bytes, message: bytes = b"hello") -> None:
    with pytest.raises(BadSignature):
        verify(signature, PeerKey(key), PREFIX, message)


def test_there_are_fourteen_encodings_of_the_eight_small_order_points() -> None:
    assert len(set(SMALL)) == 8
    assert len(SMALL_ENCODINGS) == 14


@pytest.mark.parametrize("raw", SMALL_ENCODINGS, ids=bytes.hex)
def test_a_small_order_point_is_no_key_in_any_encoding(raw: bytes) -> None:
    with pytest.raises(BadKey):
        check_peer_key(raw)


@pytest.mark.parametrize("excess", range(19))
def test_a_key_with_y_not_below_the_field_is_refused(excess: int) -> None:
    for sign in (0, 1):
        with pytest.raises(BadKey, match="canonical"):
            check_peer_key(encode(P + excess, sign))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(BadKey, match=f"{length} bytes"):
        check_peer_key(bytes([9]) * length)


def test_bytes_that_are_no_point_are_no_key() -> None:
    off_curve = next(y for y in range(2, 99) if x_of(y, 0) is None)
    with pytest.raises(BadKey, match="curve"):
        check_peer_key(encode(off_curve, 0))


def test_a_key_with_a_small_order_part_is_accepted_as_libsodium_does() -> None:
    mixed = encoded(add(KEY, ORDER_8))
    assert check_peer_key(mixed) == mixed


@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=200))
def test_every_generated_key_is_accepted_and_its_signatures_verify(seed: bytes, message: bytes) -> None:
    key = SigningKey.from_seed(seed)
    assert check_peer_key(key.public) == key.public
    verify(key.sign(PREFIX, message), key.public, PREFIX, message)


def test_signatures_are_those_of_rfc_8032() -> None:
    key = SigningKey.from_seed(bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"))
    assert key.public.hex() == "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"
    assert key.sign(b"\xaf", b"\x82").hex() == (
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )


def test_a_signature_for_one_prefix_does_not_pass_for_another() -> None:
    key = SigningKey.from_seed(bytes(32))
    signature = key.sign(PREFIX, b"hello")
    with pytest.raises(BadSignature):
        verify(signature, key.public, b"roost/other/1\0", b"hello")


def test_signing_without_a_prefix_is_a_mistake_in_the_program() -> None:
    with pytest.raises(AssertionError):
        SigningKey.from_seed(bytes(32)).sign(b"", b"hello")


@pytest.mark.parametrize("byte", range(64))
def test_a_signature_with_any_byte_altered_is_refused(byte: int) -> None:
    key = SigningKey.from_seed(bytes(32))
    signature = bytearray(key.sign(PREFIX, b"hello"))
    signature[byte] ^= 1
    refuse(bytes(signature), key.public)


@pytest.mark.parametrize("length", [0, 1, 63, 65])
def test_a_signature_of_another_length_is_refused(length: int) -> None:
    key = SigningKey.from_seed(bytes(32))
    refuse((key.sign(PREFIX, b"hello") + b"h")[:length], key.public)


def test_a_short_key_is_refused_before_it_is_read() -> None:
    key = SigningKey.from_seed(bytes(32))
    refuse(key.sign(PREFIX, b"hello"), key.public[:31])


def test_the_tests_own_signer_makes_good_signatures() -> None:
    verify(signed(b"hello", times(NONCE, BASE), encoded(KEY)), PeerKey(encoded(KEY)), PREFIX, b"hello")


@pytest.mark.parametrize("multiple", [1, 2, 15])
def test_s_not_below_the_group_order_is_refused(multiple: int) -> None:
    good = signed(b"hello", times(NONCE, BASE), encoded(KEY))
    s = int.from_bytes(good[32:], "little") + multiple * L
    refuse(good[:32] + s.to_bytes(32, "little"), encoded(KEY))


@pytest.mark.parametrize("r", SMALL_ENCODINGS, ids=bytes.hex)
def test_a_small_order_r_is_refused_though_the_equation_may_hold(r: bytes) -> None:
    refuse(signed(b"hello", r, encoded(KEY), nonce=0), encoded(KEY))


@pytest.mark.parametrize("i", range(1, 8))
def test_an_r_with_a_small_order_part_is_refused(i: int) -> None:
    """Verification with the cofactor, and in batches, accepts it: peers would split over one signature."""
    refuse(signed(b"hello", add(times(NONCE, BASE), SMALL[i]), encoded(KEY)), encoded(KEY))


@pytest.mark.parametrize("key", SMALL_ENCODINGS, ids=bytes.hex)
def test_a_small_order_key_signs_nothing(key: bytes) -> None:
    """With the identity as key S = r fits every message, so all of these are tried under several messages."""
    for i in range(16):
        message = b"%d" % i
        refuse(signed(message, times(NONCE, BASE), key, secret=0), key, message)


def test_a_mixed_order_key_is_judged_without_the_cofactor() -> None:
    """Exactly the messages whose challenge is a multiple of 8 verify; with the cofactor all would."""
    key = encoded(add(KEY, ORDER_8))
    r = encoded(times(NONCE, BASE))
    for i in range(24):
        message = b"%d" % i
        challenge = int.from_bytes(hashlib.sha512(r + key + PREFIX + message).digest(), "little") % L
        if challenge % 8:
            refuse(signed(message, r, key), key, message)
        else:
            verify(signed(message, r, key), PeerKey(key), PREFIX, message)


def test_repr_never_shows_the_secret() -> None:
    seed = bytes(range(32))
    key = SigningKey.from_seed(seed)
    assert key.public.hex() in repr(key)
    assert seed.hex() not in repr(key) + str(key)
    assert str(seed) not in repr(key)
