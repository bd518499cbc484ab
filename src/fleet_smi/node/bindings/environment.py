"""What limits the view of this machine: device permissions, a container, `hidepid`."""

import os
import sys
from typing import Any

from fleet_smi.node.bindings import nvidia_kernel


def read(root: str = "/") -> dict[str, Any]:
    """Return facts for `doctor`; `hidepid` is `None` if unknown.

    `in_container` is true only if a sign of one can be read.
    """
    return {
        "python": sys.version.split()[0],
        "user": os.geteuid(),
        "devices": _devices(root),
        "persistence_daemon": nvidia_kernel.has_persistence_daemon(root),
        "hidepid": _hidepid(root),
        "in_container": _in_container(root),
    }


def _devices(root: str) -> dict[str, bool]:
    """Return the device files of GPUs, and whether this user may open them."""
    found = {}
    for folder, prefixes in (("dev", ("nvidia", "kfd")), ("dev/dri", ("render",))):
        try:
            names = os.listdir(os.path.join(root, folder))
        except OSError:
            continue
        for name in sorted(names):
            path = os.path.join(root, folder, name)
            if name.startswith(prefixes) and not os.path.isdir(path):
                found[f"/{folder}/{name}"] = os.access(path, os.R_OK | os.W_OK)
    return found


def _hidepid(root: str) -> str | None:
    for line in (_text(root, "proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/proc":
            options = dict(option.partition("=")[::2] for option in fields[3].split(","))
            return options.get("hidepid", "0")
    return None


def _in_container(root: str) -> bool:
    markers = (".dockerenv", "run/.containerenv")
    if any(os.path.exists(os.path.join(root, marker)) for marker in markers):
        return True
    # systemd-nspawn, LXC and podman set it for the first process.
    return b"container=" in (_bytes(root, "proc/1/environ") or b"")


def _text(root: str, path: str) -> str | None:
    data = _bytes(root, path)
    return None if data is None else data.decode("utf-8", "replace")


def _bytes(root: str, path: str) -> bytes | None:
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return None
