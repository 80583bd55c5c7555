"""Which addresses are dialled: a rule per range, with the neighbours just outside it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from roost.adapters.addresses import RESULTS_MAX, VettedAddress, resolve, system_resolver
from roost.core.errors import ForbiddenAddress, Malformed, Unreachable


class Names:
    """A resolver with a fixed answer, which counts how often it is asked."""

    def __init__(self, *results: str) -> None:
        self.results = results
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.results


def dial(url: str, *results: str) -> list[VettedAddress]:
    return asyncio.run(resolve(url, Names(*results)))


def ips(*results: str) -> list[str]:
    return [address.ip for address in dial("http://peer.example:7777", *results)]


FORBIDDEN = {
    "unspecified": ["0.0.0.0", "0.0.0.1", "0.255.255.255"],
    "link-local": [
        "169.254.0.0",
        "169.254.1.1",
        "169.254.255.255",
        "fe80::",
        "fe80::1",
        "fe80::1%eth0",
        "febf:ffff::1",
    ],
    "a cloud metadata service": [
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd00:c1::a9fe:a9fe",
        "fd20:ce::254",
    ],
    "multicast": ["224.0.0.0", "224.0.0.251", "239.255.255.255", "ff00::", "ff02::fb", "ffff::1"],
    "reserved or broadcast": ["240.0.0.0", "255.255.255.254", "255.255.255.255"],
    "site-local": ["fec0::1", "feff::1"],
    "a local translation prefix": ["64:ff9b:1::", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"],
}
WRAPPED = {
    "mapped": "::ffff:{v4}",
    "compatible": "::{v4}",
    "translated": "::ffff:0:{v4}",
    "NAT64": "64:ff9b::{v4}",
    "ISATAP": "2001:db8::5efe:{v4}",
    "ISATAP, global": "2001:db8::200:5efe:{v4}",
}
ALLOWED = [
    "1.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.199",
    "100.100.100.201",
    "127.0.0.1",
    "127.255.255.255",
    "169.253.255.255",
    "169.255.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "172.16.0.1",
    "192.0.0.191",
    "192.0.0.193",
    "192.168.1.1",
    "223.255.255.255",
    "8.8.8.8",
    "::1",
    "2001:db8::1",
    "2606:4700::1111",
    "64:ff9b:2::1",
    "fc00::1",
    "fd00:c1::a9fe:a9fd",
    "fd00:ec1::254",
    "fd00:ec3::254",
    "fd20:ce::253",
    "fe7f:ffff::1",
]


@pytest.mark.parametrize(("reason", "ip"), [(reason, ip) for reason, found in FORBIDDEN.items() for ip in found])
def test_a_forbidden_range_is_not_dialled(reason: str, ip: str) -> None:
    with pytest.raises(ForbiddenAddress, match=reason):
        ips(ip)


@pytest.mark.parametrize("ip", ALLOWED)
def test_everything_beside_the_forbidden_ranges_is_dialled(ip: str) -> None:
    assert ips(ip) == [ip]


@pytest.mark.parametrize("form", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize("v4", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "100.100.100.200"])
def test_a_forbidden_address_wrapped_in_ipv6_is_not_dialled(form: str, v4: str) -> None:
    with pytest.raises(ForbiddenAddress):
        ips(form.format(v4=v4))


@pytest.mark.parametrize("form", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize("v4", ["10.0.0.1", "127.0.0.1", "8.8.8.8"])
def test_an_allowed_address_wrapped_in_ipv6_is_dialled(form: str, v4: str) -> None:
    assert len(ips(form.format(v4=v4))) == 1


def test_a_tunnel_to_a_forbidden_address_is_not_dialled() -> None:
    inverted = f"{0xA9FE ^ 0xFFFF:x}:{0xA9FE ^ 0xFFFF:x}"
    for ip in ("2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", f"2001:0:808:808:0:0:{inverted}"):
        with pytest.raises(ForbiddenAddress, match="link-local"):
            ips(ip)


def test_a_tunnel_to_an_allowed_address_is_dialled() -> None:
    assert ips("2002:808:808::1", "2001:0:808:808:0:0:f7f7:f7f7") == ["2002:808:808::1", "2001:0:808:808::f7f7:f7f7"]


def test_a_mapped_address_is_dialled_as_the_ipv4_address_that_it_is() -> None:
    assert ips("::ffff:127.0.0.1", "127.0.0.1") == ["127.0.0.1"]


def test_forbidden_results_are_left_out_when_others_remain() -> None:
    assert ips("fe80::1", "192.168.1.5", "169.254.169.254") == ["192.168.1.5"]


def test_a_name_is_resolved_once_and_the_result_is_what_is_dialled() -> None:
    names = Names("10.0.0.7")
    found = asyncio.run(resolve("https://peer.example/roost", names))
    assert found == [VettedAddress(ip="10.0.0.7", port=443, host="peer.example", tls=True)]
    assert names.asked == ["peer.example"]


@pytest.mark.parametrize(
    ("scheme", "port", "tls"), [("http", 80, 0), ("ws", 80, 0), ("https", 443, 1), ("wss", 443, 1)]
)
def test_web_sockets_use_the_ports_of_http(scheme: str, port: int, tls: int) -> None:
    assert dial(f"{scheme}://a.example", "10.0.0.7") == [VettedAddress("10.0.0.7", port, "a.example", bool(tls))]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_an_ip_address_needs_no_resolver(host: str) -> None:
    names = Names("169.254.169.254")
    assert asyncio.run(resolve(f"http://{host}:7777", names))[0].ip == host.strip("[]")
    assert names.asked == []


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[::]", "0.0.0.0"])
def test_a_forbidden_ip_address_in_the_url_is_not_dialled(host: str) -> None:
    with pytest.raises(ForbiddenAddress):
        dial(f"http://{host}/")


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"])
def test_an_odd_spelling_of_a_forbidden_address_is_judged_by_what_it_resolves_to(host: str) -> None:
    with pytest.raises(ForbiddenAddress):
        asyncio.run(resolve(f"http://{host}/", system_resolver))


@pytest.mark.parametrize("url", ["file:///etc/passwd", "gopher://a", "HTTP://a", "a:1", "", "unix://x"])
def test_only_http_and_web_sockets_are_dialled(url: str) -> None:
    with pytest.raises(ForbiddenAddress, match="only http"):
        dial(url)


@pytest.mark.parametrize(
    "url", ["http://", "http://u@a", "http://a:0", "http://a:99999", "ws://a\\b", "http://[fe80::1%25eth0]"]
)
def test_what_is_no_plain_url_is_malformed(url: str) -> None:
    with pytest.raises(Malformed):
        dial(url)


def test_a_name_without_addresses_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        ips()


def test_a_resolver_that_answers_nonsense_is_not_followed() -> None:
    with pytest.raises(ForbiddenAddress, match="not an IP address"):
        ips("metadata.internal")


def test_a_name_with_many_addresses_gives_only_a_few() -> None:
    assert len(ips(*(f"10.0.0.{i}" for i in range(100)))) == RESULTS_MAX


def test_the_system_knows_localhost() -> None:
    assert {"127.0.0.1", "::1"} & set(asyncio.run(system_resolver("localhost")))


def test_a_name_that_cannot_be_a_name_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        asyncio.run(system_resolver("a" * 64 + ".invalid"))
