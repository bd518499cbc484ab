"""NVIDIA devices as the Linux kernel lists them in /proc and /sys, without NVML."""

import os
from typing import Any

from fleet_smi.errors import NotPresent


def read(root: str = "/") -> dict[str, Any]:
    """Return the devices that the kernel module lists, and the module's version.

    Raise `NotPresent` where it is not loaded.
    """
    devices = list_devices(root)
    version = module_version(root)
    if not devices and version is None:
        raise NotPresent("no NVIDIA kernel module is loaded")
    return {"version": version, "devices": devices}


def list_devices(root: str = "/") -> list[dict[str, Any]]:
    """PCI address, model, UUID and power state of each device, in PCI order."""
    folder = os.path.join(root, "proc/driver/nvidia/gpus")
    try:
        addresses = sorted(os.listdir(folder))
    except OSError:
        return []
    return [_device(root, folder, address) for address in addresses]


def has_persistence_daemon(root: str) -> bool:
    """Whether NVIDIA's daemon keeps the devices open, so that they stay initialised."""
    return os.path.exists(os.path.join(root, "run/nvidia-persistenced"))


def is_suspended(root: str, address: str) -> bool:
    """Whether the device sleeps, so that touching it would wake it."""
    path = f"sys/bus/pci/devices/{address.lower()}/power/runtime_status"
    return _text(os.path.join(root, path)) == "suspended"


def may_suspend(root: str, address: str) -> bool:
    """Whether the kernel may suspend the device; on servers it usually may not."""
    path = f"sys/bus/pci/devices/{address.lower()}/power/control"
    return _text(os.path.join(root, path)) == "auto"


def _device(root: str, folder: str, address: str) -> dict[str, Any]:
    facts: dict[str, str] = {}
    for line in (_text(os.path.join(folder, address, "information")) or "").splitlines():
        key, _, value = line.partition(":")
        facts[key.strip()] = value.strip()
    uuid = facts.get("GPU UUID", "")
    return {
        "pci": address,
        "name": facts.get("Model") or None,
        # The kernel writes question marks until a program has opened the device.
        "uuid": uuid if uuid and "?" not in uuid else None,
        "asleep": is_suspended(root, address),
        "may_sleep": may_suspend(root, address),
    }


def module_version(root: str = "/") -> str | None:
    """The version of the kernel module; `None` if it is not loaded."""
    loaded = _text(os.path.join(root, "sys/module/nvidia/version"))
    if loaded:
        return loaded
    # A line of text in which the first token like 535.104 is the version.
    tokens = (_text(os.path.join(root, "proc/driver/nvidia/version")) or "").split()
    return next((token for token in tokens if token[:1].isdigit() and "." in token), None)


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536).strip()
    except OSError:
        return None
