"""IP addresses of peers and listeners: loopback, wildcard, trusted networks, rate-limit keys."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from fleet_smi.errors import UsageError

IpAddress = IPv4Address | IPv6Address
WILDCARDS = ("", "*", "0.0.0.0", "::")  # noqa: S104  # to be recognised, not bound


def parse_address(text: str) -> IpAddress | None:
    """Parse an IP address, `None` for a host name; IPv4 mapped into IPv6 becomes IPv4."""
    try:
        address = ip_address(text.strip().removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None
    # A dual-stack socket reports IPv4 peers as ::ffff:a.b.c.d: they must match IPv4 rules.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Whether a server that listens on this host is reachable from this machine only."""
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


@lru_cache(4096)  # it is called for every report
def remote_address(host: str) -> str | None:
    """Return the address of another machine; `None` for loopback, which is no machine's own."""
    address = parse_address(host)
    return None if address is None or address.is_loopback else str(address)


class IpNetworks:
    """A set of networks, written like 10.0.0.0/8 or as single addresses."""

    def __init__(self, networks: Iterable[str]) -> None:
        try:
            self._networks = [ip_network(text, strict=False) for text in networks]
        except ValueError as error:
            raise UsageError(f"trusted proxies: {error}") from None

    def __contains__(self, host: str) -> bool:
        if not self._networks:
            return False
        address = parse_address(host)
        return address is not None and any(address in network for network in self._networks)


def rate_limit_key(host: str) -> str:
    """The key that failed logins are counted under: an IPv4 address, or an IPv6 /64 network."""
    address = parse_address(host)
    # One IPv6 subscriber has a whole /64: by single addresses they could guess without limit.
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return host if address is None else str(address)
