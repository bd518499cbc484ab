"""Parse network addresses in settings: listen addresses, URLs, hosts, fingerprints.

Each function raises `ValueError` with a message that follows the name of the setting.
"""

import re
from typing import Any, NamedTuple

_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})"
_IPV6 = r"[0-9A-Fa-f:.]{2,45}"
# Not compiled here but at the first use: most commands need none of them.
_ADDRESS = rf"(?:({_HOST})?:|\[({_IPV6})\]:|)([0-9]{{1,5}})"
_URL = rf"https?://(?:{_HOST}|\[{_IPV6}\])(?::([0-9]{{1,5}}))?(?:/[\x21-\x7e]*)?"
_TARGET = rf"(?:{_HOST}|\[{_IPV6}\])(?::([0-9]{{1,5}}))?"
_FINGERPRINT = r"[0-9a-f]{64}"
_MAX_PORT = 65535


class ListenAddress(NamedTuple):
    """Where to listen; an empty host means every address of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(value: Any) -> ListenAddress:
    """Parse a listen address; a port alone is loopback, ":7070" is every address."""
    match = None if isinstance(value, bool) else re.fullmatch(_ADDRESS, str(value))
    if match is None:
        raise ValueError("is not an address: write it like 127.0.0.1:7070, :7070 or [::1]:7070")
    # A bare port must not open the machine to the network.
    is_port_only = ":" not in match[0]
    return ListenAddress(
        "127.0.0.1" if is_port_only else match[1] or _ipv6(match[2]), _port(match[3])
    )


def parse_url(value: Any) -> str:
    """Parse the URL of a hub; a trailing slash is removed."""
    text = str(value)
    # A password in a URL would end up in logs and in the list of processes.
    if "@" in text:
        raise ValueError("must not have a user or password in it: give a token instead")
    match = re.fullmatch(_URL, text)
    if match is None:
        raise ValueError("is not a URL: write it like https://hub:7070")
    _check_remote_port(match[1])
    return text.rstrip("/")


def parse_urls(value: Any) -> str:
    """Parse the URL of a hub, or of several as a list; return them separated by commas."""
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    urls = [parse_url(str(item).strip()) for item in items if str(item).strip()]
    if not urls:
        raise ValueError("is not a URL: write it like https://hub:7070")
    return ",".join(dict.fromkeys(urls))


def parse_nats_url(value: Any) -> str:
    """Parse the address of a NATS server; a host alone is enough."""
    match = re.fullmatch(rf"(?:(nats|tls)://)?({_TARGET})/?", str(value))
    if match is None:
        raise ValueError("is not the address of a NATS server: write it like nats://nats1:4222")
    _check_remote_port(match[3])
    return f"{match[1] or 'nats'}://{match[2]}"


def parse_target(value: Any) -> str:
    """Parse a machine to poll: a URL, host:port, or a host alone."""
    if "://" in str(value):
        return parse_url(value)
    match = re.fullmatch(_TARGET, str(value))
    if match is None:
        raise ValueError("is not a machine to poll: write it like gpu01:7071")
    _check_remote_port(match[1])
    return match[0]


def parse_host(value: Any) -> str:
    """Parse the name or IP address of a host, without a port."""
    match = re.fullmatch(rf"{_HOST}|\[({_IPV6})\]", str(value))
    if match is None:
        raise ValueError("is not the name of a host")
    return _ipv6(match[1]) or match[0].lower()


def parse_network(value: Any) -> str:
    """Parse an IP address, or a network like 10.0.0.0/8."""
    import ipaddress

    if isinstance(value, str):
        try:
            # Strict: 10.0.0.1/8 is rather a typing error than a network to trust.
            return str(ipaddress.ip_network(value))
        except ValueError:
            pass
    raise ValueError("is not an IP address or a network, like 10.0.0.0/8")


def parse_fingerprint(value: Any) -> str:
    """Parse the SHA-256 fingerprint of a certificate; return it as "sha256:…"."""
    digits = str(value).strip().lower().removeprefix("sha256:").replace(":", "")
    if not re.fullmatch(_FINGERPRINT, digits):
        raise ValueError("is not a fingerprint: copy it from the hub's join line")
    return f"sha256:{digits}"


def _port(digits: str) -> int:
    if int(digits) > _MAX_PORT:
        raise ValueError(f"has a port above {_MAX_PORT}")
    return int(digits)


def _check_remote_port(digits: str | None) -> None:
    if digits is not None and not _port(digits):
        raise ValueError("has port 0, which cannot be connected to")


def _ipv6(text: str | None) -> str:
    if not text:
        return ""
    import ipaddress

    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        raise ValueError("has no IPv6 address between its brackets") from None
