"""What carries frames and requests between peers, whatever it is made of.

Keys are proven before a wire exists and before a request is seen; what frames mean is not known here. Every carrier
passes tests/adapters/carrier_suite.py.
"""

from __future__ import annotations

from typing import Final, Protocol

from roost.core.errors import Unreachable
from roost.core.ids import PeerKey

FRAME_BYTES_MAX: Final = 1 << 20  # a frame is held in memory once per wire: 100 wires hold 100 MiB at most
BUFFER_BYTES_MAX: Final = 1 << 18  # what a wire holds of frames not yet taken, one frame more; then send waits
REQUEST_BYTES_MAX: Final = 1 << 16  # a join request has some 300 bytes, an answer not more
DIAL_SECONDS_MAX: Final = 5.0  # until both keys are proven, or until the request is answered
HEARTBEAT_SECONDS: Final = 20.0  # of silence, then a sign of life is asked for; half as long without one closes
PEER_PATHS: Final = frozenset({"/roost/join"})  # what is asked by a signed POST
LINK_PATH: Final = "/roost/link"


class LinkClosed(Unreachable):
    """The connection to the peer is closed."""

    code = "link_closed"


class Wire(Protocol):
    """One authenticated, ordered connection that keeps frames apart."""

    @property
    def peer(self) -> PeerKey:
        """Whose key was proven at the other end."""

    @property
    def dialled(self) -> bool:
        """Whether this end began it."""

    @property
    def address(self) -> str:
        """The URL that was dialled, or where the other end came from: for people."""

    async def send(self, frame: bytes) -> None:
        """Returns when the frame is handed over; waits while too much is on its way. Raises LinkClosed."""

    async def receive(self) -> bytes:
        """The next frame. One over FRAME_BYTES_MAX closes the wire. Raises LinkClosed. One task receives at a time."""

    async def close(self, code: str = "") -> None:
        """Tell the other end why, as an error's code, and let go; closing again does nothing."""


class Carrier(Protocol):
    """Begins wires and requests, in the name of one peer."""

    async def dial(self, address: str, expected: PeerKey, fingerprint: bytes | None = None) -> Wire:
        """A wire to the peer that proves to be expected at address, an http or https URL.

        fingerprint is the SHA-256 of its certificate, if one is pinned. Raises Unreachable, ForbiddenAddress,
        Malformed, BadSignature when another peer answers, and what the other end refuses with.
        """

    async def request(
        self, address: str, expected: PeerKey, path: str, body: bytes, fingerprint: bytes | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the answer that expected gave to a POST, at most REQUEST_BYTES_MAX. Raises as dial."""


class Acceptor(Protocol):
    """What serves the other end: the node."""

    async def on_wire(self, wire: Wire) -> None:
        """Serve an accepted wire; it is closed when this returns, with the error's code when it raises RoostError."""

    async def on_request(self, peer: PeerKey, path: str, body: bytes, nonce: bytes) -> tuple[int, bytes]:
        """Answer a request with a status and a body; what is raised of RoostError is a refusal with its code."""


def check_request(path: str, body: bytes) -> None:
    """Assert what the caller of ``request`` must keep to."""
    assert path in PEER_PATHS, path
    assert len(body) <= REQUEST_BYTES_MAX, len(body)


def closed_because(code: str) -> LinkClosed:
    """What a wire raises after the other end closed it with this code, which is anybody's text."""
    return LinkClosed(f"the other side said: {code[:64]}" if code else "")
