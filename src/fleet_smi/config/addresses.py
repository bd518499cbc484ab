"""Places on the network as people write them: addresses, URLs, hosts, certificates."""

import re
from typing import Any, NamedTuple

_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})"
_IPV6 = r"[0-9A-Fa-f:.]{2,45}"
# Texts, so that they are compiled when first used: most starts need none.
_ADDRESS = rf"(?:({_HOST})?:|\[({_IPV6})\]:|)([0-9]{{1,5}})"
_URL = rf"https?://(?:{_HOST}|\[{_IPV6}\])(?::([0-9]{{1,5}}))?(?:/[\x21-\x7e]*)?"
_TARGET = rf"(?:{_HOST}|\[{_IPV6}\])(?::([0-9]{{1,5}}))?"
_FINGERPRINT = r"[0-9a-f]{64}"
_MOST_PORT = 65535


class ListenAddress(NamedTuple):
    """Where to listen; no host is every address of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(value: Any) -> ListenAddress:
    """An address to listen on; a port alone is this machine's alone, ":7070" is everybody's."""
    match = None if isinstance(value, bool) else re.fullmatch(_ADDRESS, str(value))
    if match is None:
        raise ValueError("is not an address: write it like 127.0.0.1:7070, :7070 or [::1]:7070")
    alone = ":" not in match[0]
    return ListenAddress("127.0.0.1" if alone else match[1] or _ipv6(match[2]), _port(match[3]))


def parse_url(value: Any) -> str:
    """The URL of a hub, without a slash at its end."""
    written = str(value)
    if "@" in written:
        raise ValueError("must not have a user or password in it: give a token instead")
    match = re.fullmatch(_URL, written)
    if match is None:
        raise ValueError("is not a URL: write it like https://hub:7070")
    _check_asked_port(match[1])
    return written.rstrip("/")


def parse_target(value: Any) -> str:
    """A machine to ask: a URL, host:port, or a host alone."""
    if "://" in str(value):
        return parse_url(value)
    match = re.fullmatch(_TARGET, str(value))
    if match is None:
        raise ValueError("is not a machine to ask: write it like gpu01:7071")
    _check_asked_port(match[1])
    return match[0]


def parse_host(value: Any) -> str:
    """The name or IP address of a host, without a port."""
    match = re.fullmatch(rf"{_HOST}|\[({_IPV6})\]", str(value))
    if match is None:
        raise ValueError("is not the name of a host")
    return _ipv6(match[1]) or match[0].lower()


def parse_network(value: Any) -> str:
    """An IP address, or a network like 10.0.0.0/8."""
    import ipaddress

    if isinstance(value, str):
        try:
            return str(ipaddress.ip_network(value))
        except ValueError:
            pass
    raise ValueError("is not an IP address or a network, like 10.0.0.0/8")


def parse_fingerprint(value: Any) -> str:
    """The SHA-256 of a certificate as "sha256:…", whichever way it was written."""
    digits = str(value).strip().lower().removeprefix("sha256:").replace(":", "")
    if not re.fullmatch(_FINGERPRINT, digits):
        raise ValueError("is not a fingerprint: copy it from the hub's join line")
    return f"sha256:{digits}"


def _port(digits: str) -> int:
    if int(digits) > _MOST_PORT:
        raise ValueError(f"has a port above {_MOST_PORT}")
    return int(digits)


def _check_asked_port(digits: str | None) -> None:
    if digits is not None and not _port(digits):
        raise ValueError("has port 0, at which nobody can be asked")


def _ipv6(written: str | None) -> str:
    if not written:
        return ""
    import ipaddress

    try:
        return str(ipaddress.IPv6Address(written))
    except ValueError:
        raise ValueError("has no IPv6 address between its brackets") from None
