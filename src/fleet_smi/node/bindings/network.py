"""The machine's own addresses, through psutil."""

from typing import Any

import psutil


def read(root: str = "/") -> list[tuple[str, str]]:
    """Interface and address of all that is up, the loopback left out."""
    del root  # addresses belong to the network namespace, not to a folder
    import socket

    up: dict[str, Any] = psutil.net_if_stats()
    found = []
    for interface, addresses in psutil.net_if_addrs().items():
        if interface == "lo" or not (interface in up and up[interface].isup):
            continue
        for address in addresses:
            if address.family in (socket.AF_INET, socket.AF_INET6):
                found.append((interface, str(address.address)))
    return found
