"""DRM clients: the processes that have a GPU's device file open, with their memory.

The kernel writes this into `/proc/<pid>/fdinfo`. To find the files, every descriptor of every
process has to be read, which costs a tenth of a core on a big machine at one sample a second.
So a full scan is made every ten seconds; in between only processes that are known to have one,
that could not be read, or that are new.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from fleet_smi.node.bindings.drm import SysfsFolder, parse_key_values

_FULL_SCAN_SECONDS = 10.0
_MAX_PROCESSES = 65_536
_MAX_DESCRIPTORS = 500_000
# Seat managers hold the device file open for the session that draws on the screen.
_SEAT_MANAGERS = frozenset({"systemd-logind", "elogind-daemon", "seatd"})
# i915 and amdgpu count nanoseconds, xe cycles.
_ENGINES = {
    "drm-engine-compute": "compute",
    "drm-cycles-ccs": "compute",
    "drm-engine-render": "render",
    "drm-engine-gfx": "render",
    "drm-cycles-rcs": "render",
}

_pids_without_gpu: dict[str, tuple[float, set[int]]] = {}
"""Root -> the time of the last full scan, and the pids that had no GPU open then."""


def read_clients(
    root: str, nodes: dict[str, str], clock: Callable[[], float] = time.monotonic
) -> dict[str, Any]:
    """Return the clients of these device files (`renderD128` -> PCI address).

    `refused` counts the processes that could not be read, `whole` says that no limit was
    reached, `listed` that there was a list of processes at all.
    """
    now = clock()
    scanned_at, pids_without_gpu = _pids_without_gpu.get(root, (float("-inf"), set()))
    if now - scanned_at >= _FULL_SCAN_SECONDS:
        pids_without_gpu = set()
        _pids_without_gpu[root] = (now, pids_without_gpu)
    scan = _Scan(root, nodes, pids_without_gpu)
    pids = _pids(root)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for pid in pids[:_MAX_PROCESSES]:
        for client in scan.clients_of(pid):
            # A client that several processes share (inherited by a fork) counts once.
            found.setdefault((client["pci"], client["id"]), client)
    return {
        "clients": list(found.values()),
        "refused": scan.refused,
        "whole": scan.descriptors_left >= 0 and len(pids) <= _MAX_PROCESSES,
        "listed": bool(pids),
    }


def _pids(root: str) -> list[int]:
    try:
        names = os.listdir(os.path.join(root, "proc"))
    except OSError:
        return []
    return sorted(int(n) for n in names if n.isascii() and n.isdigit() and len(n) < 8)


class _Scan:
    """One scan of the processes below a root."""

    def __init__(self, root: str, nodes: dict[str, str], pids_without_gpu: set[int]) -> None:
        self._root = root
        self._nodes = nodes
        self._pids_without_gpu = pids_without_gpu
        self.refused = 0
        self.descriptors_left = _MAX_DESCRIPTORS

    def clients_of(self, pid: int) -> Iterator[dict[str, Any]]:
        if pid in self._pids_without_gpu or self.descriptors_left < 0:
            return
        process = SysfsFolder(self._root, "proc", str(pid))
        try:
            opened = self._opened(process)
        except PermissionError:
            self.refused += 1
            return
        except OSError:  # it ended meanwhile
            return
        if self.descriptors_left < 0:  # not read: it may have a GPU open
            return
        # Remembered until the next full scan; one that was refused costs a single call anyway.
        if not opened:
            self._pids_without_gpu.add(pid)
            return
        if process.read_text("comm") in _SEAT_MANAGERS:
            return
        for descriptor, node in opened:
            pci = self._nodes.get(node)
            if pci is not None:
                yield from _client(pid, pci, process.read_text(f"fdinfo/{descriptor}"))

    def _opened(self, process: SysfsFolder) -> list[tuple[str, str]]:
        """Return (descriptor, device file) pairs of GPUs of any kind."""
        folder = os.path.join(process.path, "fd")
        descriptors = os.listdir(folder)
        self.descriptors_left -= len(descriptors)
        if self.descriptors_left < 0:
            return []
        pairs = []
        for descriptor in descriptors:
            try:
                target = os.readlink(os.path.join(folder, descriptor))
            except PermissionError:  # root in a container may list descriptors but not read them
                raise
            except OSError:
                continue
            if target.startswith(("/dev/dri/", "/dev/kfd")):
                pairs.append((descriptor, os.path.basename(target)))
        return pairs


def _client(pid: int, pci: str, text: str | None) -> Iterator[dict[str, Any]]:
    fields = parse_key_values(text, ":")
    number = fields.get("drm-client-id")
    # Without a client id it is no DRM client: a descriptor of KFD, or a driver without fdinfo.
    if number is not None and fields.get("drm-pdev", pci).lower() == pci:
        engines = {name: fields[key] for key, name in _ENGINES.items() if key in fields}
        yield {"pid": pid, "pci": pci, "id": number, "memory": _memory(fields), "engines": engines}


def _memory(fields: dict[str, str]) -> dict[str, str]:
    """Return region -> text such as "12 KiB": resident memory where the driver gives it."""
    regions: dict[str, str] = {}
    # Each prefix overrides those before it: `total` includes what is swapped out, and
    # `drm-memory-` is the older name of resident memory.
    for prefix in ("drm-total-", "drm-memory-", "drm-resident-"):
        for key, value in fields.items():
            if key.startswith(prefix) and not key.startswith("drm-total-cycles-"):
                regions[key.removeprefix(prefix)] = value
    return regions
