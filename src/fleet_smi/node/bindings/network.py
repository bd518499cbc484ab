"""The machine's own addresses, through psutil."""

import socket
import time

import psutil

_KEPT_SECONDS = 60.0


class Network:
    """Addresses change rarely: they are asked for once a minute."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []
        self._asked_at = float("-inf")

    def read(self, root: str = "/") -> list[tuple[str, str]]:
        """Interface and address of all that is up, the loopback left out."""
        del root  # addresses belong to the network namespace, not to a folder
        if time.monotonic() - self._asked_at > _KEPT_SECONDS:
            self._found, self._asked_at = _addresses(), time.monotonic()
        return self._found


def _addresses() -> list[tuple[str, str]]:
    up = psutil.net_if_stats()
    return [
        (interface, str(address.address))
        for interface, addresses in psutil.net_if_addrs().items()
        if interface != "lo" and interface in up and up[interface].isup
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
