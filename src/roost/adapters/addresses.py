"""Which addresses roost dials: a URL from a ticket or a member is someone else's word about where to connect.

The name is resolved once, every result is judged by the table below, and the caller connects to a result, never to
the name again. Loopback and private ranges are allowed, link-local and metadata services are not. Source: PROTOCOL
section 4 "Tickets"; RFC 6890, 6052, 3056, 4380, 5214, 6145.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from roost.core.errors import ForbiddenAddress, Unreachable
from roost.core.ticket import parse_address

RESULTS_MAX: Final = 8  # a name with a thousand addresses must not keep the dialler busy
_HTTP_SCHEME: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}

_FORBIDDEN_V4: Final = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified"),
        ("100.100.100.200/32", "a cloud metadata service"),
        ("168.63.129.16/32", "a cloud metadata service"),
        ("169.254.0.0/16", "link-local"),
        ("192.0.0.192/32", "a cloud metadata service"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved or broadcast"),
    )
)
_FORBIDDEN_V6: Final = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "unspecified"),
        ("64:ff9b:1::/48", "a local translation prefix: where it leads cannot be told"),
        ("fd00:c1::a9fe:a9fe/128", "a cloud metadata service"),
        ("fd00:ec2::/32", "a cloud metadata service"),
        ("fd20:ce::254/128", "a cloud metadata service"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local, which no network uses"),
        ("ff00::/8", "multicast"),
    )
)
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_LOW_32_BITS: Final = (
    _MAPPED,
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
_LOOPBACK_V6: Final = IPv6Address("::1")
_6TO4: Final = IPv6Network("2002::/16")
_TEREDO: Final = IPv6Network("2001::/32")
_ISATAP: Final = 0x00005EFE  # the first half of the interface id
_ISATAP_MASK: Final = 0xFCFFFFFF  # all but its u and g bits

Resolver = Callable[[str], Awaitable[Sequence[str]]]  # a host name to IP addresses, or Unreachable


@dataclass(frozen=True, slots=True)
class VettedAddress:
    """An address that may be dialled. Connect to ip; host is for the Host header and the certificate only."""

    ip: str
    port: int
    host: str
    tls: bool


async def system_resolver(host: str) -> list[str]:
    """The addresses that the system knows for host, in its order of preference. Raises Unreachable."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"the name {host} cannot be resolved") from error
    return [str(address[0]) for *_, address in found]


async def resolve(url: str, resolver: Resolver) -> list[VettedAddress]:
    """Addresses of an http, https, ws or wss URL that may be dialled, at most RESULTS_MAX; the caller bounds the time.

    Raises ForbiddenAddress when there are results but all of them are forbidden, Unreachable when there are none,
    Malformed for what is no such URL.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in _HTTP_SCHEME:
        raise ForbiddenAddress("only http, https, ws and wss are dialled")
    address = parse_address(f"{_HTTP_SCHEME[scheme]}://{rest}")
    results = [address.host] if _parsed(address.host) else list(await resolver(address.host))[:RESULTS_MAX]
    if not results:
        raise Unreachable(f"the name {address.host} has no address")
    ips = _allowed(address.host, results)
    return [VettedAddress(ip=ip, port=address.port, host=address.host, tls=address.tls) for ip in ips]


def _allowed(host: str, results: Sequence[str]) -> list[str]:
    """Those of results that may be dialled, each once; raises ForbiddenAddress when none may."""
    allowed: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for result in results:
        ip = _parsed(result)
        reason = "not an IP address" if ip is None else _why_forbidden(ip)
        if ip is None or reason:
            reasons[reason] = None
        else:
            allowed[str(_plain(ip))] = None
    if not allowed:
        raise ForbiddenAddress(f"{host}: {', '.join(reasons)}")
    return list(allowed)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return IPv4Address(int(ip) & 0xFFFFFFFF) if isinstance(ip, IPv6Address) and ip in _MAPPED else ip


def _why_forbidden(ip: IPv4Address | IPv6Address) -> str:
    """Why ip is never dialled; empty if it may be."""
    if isinstance(ip, IPv4Address):
        return next((reason for network, reason in _FORBIDDEN_V4 if ip in network), "")
    if ip.scope_id is not None:
        return "link-local"  # only such addresses need a zone
    own = next((reason for network, reason in _FORBIDDEN_V6 if ip in network), "")
    return own or next((f"{reason}, wrapped in IPv6" for reason in map(_why_forbidden, _embedded(ip)) if reason), "")


def _embedded(ip: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that a tunnel or translator may read out of ip."""
    bits = int(ip)
    found = []
    if ip != _LOOPBACK_V6 and any(ip in network for network in _LOW_32_BITS):
        found.append(bits)
    if ip in _6TO4:
        found.append(bits >> 80)
    if ip in _TEREDO:
        found += [bits >> 64, ~bits]  # the server; the client, inverted
    if (bits >> 32) & _ISATAP_MASK == _ISATAP:
        found.append(bits)
    return [IPv4Address(value & 0xFFFFFFFF) for value in found]
