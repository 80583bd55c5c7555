"""Ed25519 keys: which are accepted, how they sign, how a signature is judged.

Every use of a key has its own prefix and a fixed shape, so that a signature made for one use never passes for another.
Judged as libsodium 1.0.18 does it: S < L, the key canonical, key and R not of small order, the cofactorless equation.
Source: PROTOCOL section 1; RFC 8032.
"""

from __future__ import annotations

from typing import Final

from nacl.bindings import crypto_core_ed25519_add, crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import BadSignatureError
from nacl.exceptions import RuntimeError as NotAPoint

from roost.core.errors import BadKey, BadSignature
from roost.core.ids import SIGNATURE_BYTES, PeerKey

KEY_BYTES: Final = 32
SEED_BYTES: Final = 32

_FIELD: Final = 2**255 - 19
_Y_MASK: Final = 2**255 - 1  # the top bit of an encoding is the sign of x

# The eight points whose order divides 8, by their y: identity, order 2, both of order 4, two pairs of order 8.
# One signature by such a "key" fits many messages. The encodings y + FIELD are not canonical, so refused before.
_SMALL_ORDER_Y: Final = frozenset(
    {
        1,
        _FIELD - 1,
        0,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)


def check_peer_key(raw: bytes) -> PeerKey:
    """Raise BadKey unless raw is 32 bytes, canonical, a point of the curve, and not of small order.

    A key with a small-order part beside its large one passes, as it does in libsodium's verification.
    """
    if len(raw) != KEY_BYTES:
        raise BadKey(f"{len(raw)} bytes instead of {KEY_BYTES}")
    y = int.from_bytes(raw, "little") & _Y_MASK
    if y >= _FIELD:
        raise BadKey("not a canonical encoding")
    if y in _SMALL_ORDER_Y:
        raise BadKey("of small order")
    try:
        crypto_core_ed25519_add(raw, raw)  # the only binding that tells "on the curve" without the subgroup test
    except NotAPoint as error:
        raise BadKey("not a point of the curve") from error
    return PeerKey(raw)


class SigningKey:
    """An Ed25519 private key. Its repr shows the public half only."""

    __slots__ = ("_secret", "public")

    def __init__(self, secret: bytes, public: PeerKey) -> None:
        """secret is libsodium's 64 bytes: the seed, then the public key. Use from_seed."""
        self._secret = secret
        self.public: Final = public

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """seed is 32 bytes, uniformly random."""
        if len(seed) != SEED_BYTES:
            raise BadKey(f"a seed of {len(seed)} bytes instead of {SEED_BYTES}")
        public, secret = crypto_sign_seed_keypair(seed)
        return cls(secret, PeerKey(public))

    def sign(self, prefix: bytes, message: bytes) -> bytes:
        """64 bytes over prefix + message. No prefix may be the beginning of another."""
        assert prefix, "without a prefix a signature for one use passes for another"
        return crypto_sign(prefix + message, self._secret)[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()})"


def verify(signature: bytes, key: PeerKey, prefix: bytes, message: bytes) -> None:
    """Raise BadSignature unless key signed prefix + message."""
    if len(signature) != SIGNATURE_BYTES or len(key) != KEY_BYTES:  # the binding would read past a short key
        raise BadSignature("wrong length")
    try:
        crypto_sign_open(signature + prefix + message, key)
    except BadSignatureError as error:
        raise BadSignature from error
