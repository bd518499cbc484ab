"""The machine's IP addresses, from the C library's `getifaddrs`.

psutil has them too, at 2.3 MB of every agent's memory.
"""

import ctypes
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

_CACHE_SECONDS = 60.0
_IS_UP = 0x1  # IFF_UP
_ADDRESS_FIELDS = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}
"""Address family -> offset and length of the IP address in `sockaddr_in` or `sockaddr_in6`."""


class _Entry(ctypes.Structure):
    """`struct ifaddrs` as far as it is read."""


_Entry._fields_ = (
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
)


class NetworkReader:
    """Reads the addresses, at most once a minute: they rarely change."""

    def __init__(self) -> None:
        self._addresses: list[tuple[str, str]] = []
        self._read_at = float("-inf")

    def read(self, root: str = "/") -> list[tuple[str, str]]:
        """Return interface and address of all interfaces that are up, without loopback."""
        del root  # addresses belong to the network namespace, not to a folder
        if time.monotonic() - self._read_at > _CACHE_SECONDS:
            self._addresses, self._read_at = _addresses(), time.monotonic()
        return self._addresses


def _addresses() -> list[tuple[str, str]]:
    library = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if library.getifaddrs(ctypes.byref(first)):
        return []
    try:
        return [
            (os.fsdecode(entry.name), address)
            for entry in _entries(first)
            if entry.flags & _IS_UP and entry.name != b"lo" and (address := _address(entry))
        ]
    finally:
        library.freeifaddrs(first)


def _entries(at: Any) -> Iterator[_Entry]:
    while at:
        yield at.contents
        at = at.contents.next


def _address(entry: _Entry) -> str | None:
    """The address as text; `None` for an entry that has none, or a hardware one."""
    if not entry.address:
        return None
    family = ctypes.c_ushort.from_address(entry.address).value
    if family not in _ADDRESS_FIELDS:
        return None
    begin, length = _ADDRESS_FIELDS[socket.AddressFamily(family)]
    return socket.inet_ntop(family, ctypes.string_at(entry.address + begin, length))
