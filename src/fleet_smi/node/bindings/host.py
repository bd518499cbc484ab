"""Host binding: the machine's load, memory and identity, read from /proc."""

import os
import time
from typing import Any

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings.proc_files import (
    CACHE_SECONDS,
    HEAD_BYTES,
    BootTime,
    in_pid_namespace,
    parse_count,
    read_text,
)


class HostReader:
    """Reads the machine; remembers the last CPU counters, since a load needs two."""

    def __init__(self, cache_seconds: float = CACHE_SECONDS) -> None:
        self._cache_seconds = cache_seconds
        self._cpu: tuple[int, int] | None = None
        self._constant: dict[str, Any] = {}
        self._boot = BootTime()
        self._cached: dict[str, Any] = {}
        self._cached_at = float("-inf")

    def read(self, root: str = "/") -> dict[str, Any]:
        now = time.monotonic()
        if now - self._cached_at >= self._cache_seconds:
            self._cached, self._cached_at = self._read(root), now
        return self._cached

    def _read(self, root: str) -> dict[str, Any]:
        stat = read_text(root, "proc/stat", HEAD_BYTES)
        if stat is None:
            raise NotPresent(f"no /proc/stat below {root}")
        self._constant = self._constant or _constant_of_host(root)
        return {
            **self._constant,
            "hostname": os.uname().nodename,
            "booted_at": self._boot.read(root),
            "load": read_text(root, "proc/loadavg", HEAD_BYTES),
            "memory": read_text(root, "proc/meminfo", HEAD_BYTES),
            "cpu_percent": self._cpu_percent(stat),
        }

    def _cpu_percent(self, stat: str) -> float | None:
        try:
            # User to steal, without guest time, which is a part of user time already.
            ticks = [parse_count(word) for word in stat.split("\n", 1)[0].split()[1:9]]
            total, idle = sum(ticks), ticks[3] + ticks[4]
        except (ValueError, IndexError):
            return None
        before, self._cpu = self._cpu, (total, idle)
        # No tick since the last read, or counters that were reset: a load cannot be computed.
        if before is None or total <= before[0]:
            return None
        return 100.0 * (1 - (idle - before[1]) / (total - before[0]))


def _constant_of_host(root: str) -> dict[str, Any]:
    return {
        "kernel": os.uname().release,
        "machine_id": read_text(root, "etc/machine-id")
        or read_text(root, "var/lib/dbus/machine-id"),
        "boot_id": read_text(root, "proc/sys/kernel/random/boot_id"),
        "cpu_count": os.cpu_count(),
        "pid_namespace": in_pid_namespace(root),
    }
