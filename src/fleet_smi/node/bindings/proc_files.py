"""Files below /proc, read with as few system calls as possible.

Directly from the files because every command pays for it: psutil takes 30 ms to import and
several times as long per process, while `fleet-smi free` has 76 ms in all.
"""

import os
import time

from fleet_smi.errors import NotPresent

CACHE_SECONDS = 1.5
"""Loads over less than this say little: more frequent reads get the cached values."""

HEAD_BYTES = 1024
"""Enough for the first lines of a file: a buffer for all of it costs more than the reading."""

_BOOT_CACHE_SECONDS = 60.0

# More than the kernel ever counts; that many pages of 64 KiB still fit into 63 bits.
_MAX_DIGITS = 14


# The fixed number of the initial pid namespace, that of the machine itself.
_INITIAL_NAMESPACE = "pid:[4026531836]"


def in_pid_namespace(root: str) -> bool | None:
    """Whether this process runs in a pid namespace of its own: a container; `None` if unknown."""
    try:
        return os.readlink(f"{root}/proc/self/ns/pid") != _INITIAL_NAMESPACE
    except OSError:
        return None


class BootTime:
    """When the machine was booted; cached briefly, because it moves when the clock is set."""

    def __init__(self) -> None:
        self._known: float | None = None
        self._read_at = float("-inf")

    def read(self, root: str) -> float | None:
        """Return it in seconds since the epoch; `None` where the kernel does not say."""
        if time.monotonic() - self._read_at > _BOOT_CACHE_SECONDS:
            stat = read_text(root, "proc/stat")
            if stat is None:
                raise NotPresent(f"no /proc/stat below {root}")
            self._known, self._read_at = _boot_time(stat), time.monotonic()
        return self._known


def parse_count(word: bytes | str) -> int:
    """Parse a counter of the kernel; raise `ValueError` for anything else."""
    if len(word) > _MAX_DIGITS or not word.isdigit():
        raise ValueError("not a number that the kernel writes")
    return int(word)


def _boot_time(stat: str) -> float | None:
    line = next((line for line in stat.splitlines() if line.startswith("btime ")), None)
    try:
        return float(parse_count(line.split()[1])) if line else None
    except (ValueError, IndexError):
        return None


def read_bytes(root: str, path: str, limit: int = 65536) -> bytes | None:
    """Return the beginning of a file; `None` where it cannot be read."""
    # os.open and os.read: a file object would double the cost.
    try:
        file = os.open(f"{root}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, limit)
    except OSError:
        return None
    finally:
        os.close(file)


def read_text(root: str, path: str, limit: int = 65536) -> str | None:
    """Return the beginning of a file as stripped text; `None` where it cannot be read."""
    data = read_bytes(root, path, limit)
    return None if data is None else data.decode("utf-8", "replace").strip()
