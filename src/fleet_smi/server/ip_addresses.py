"""Addresses of peers and names of this hub: which is loopback, which are one and the same."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from fleet_smi.errors import UsageError

IpAddress = IPv4Address | IPv6Address
WILDCARDS = ("", "*", "0.0.0.0", "::")  # noqa: S104  # to be recognised, not bound


def parse_address(text: str) -> IpAddress | None:
    """The address written there, `None` for a name; an IPv4 one inside IPv6 is the IPv4 one."""
    try:
        address = ip_address(text.strip().removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    address = parse_address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


class IpNetworks:
    """A few networks, written like 10.0.0.0/8 or as single addresses."""

    def __init__(self, networks: Iterable[str]) -> None:
        try:
            self._networks = [ip_network(each, strict=False) for each in networks]
        except ValueError as error:
            raise UsageError(f"trusted proxies: {error}") from None

    def __contains__(self, host: str) -> bool:
        if not self._networks:
            return False
        address = parse_address(host)
        return address is not None and any(address in network for network in self._networks)


def rate_limit_key(host: str) -> str:
    """Who counts as one: an IPv4 address, or the /64 that one IPv6 subscriber has."""
    address = parse_address(host)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return host if address is None else str(address)
