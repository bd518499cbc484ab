"""NVIDIA GPUs as the kernel lists them, by identity alone: a fallback for a failing driver."""

from typing import Any

from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Host
from fleet_smi.node.collector import SnapshotPart


class NvidiaKernelCollector:
    """Identity only; used when the driver hangs or does not match its library."""

    name = "nvidia_kernel"

    def parse(self, raw: Any) -> SnapshotPart:
        version = raw["version"]
        return SnapshotPart(
            gpus=tuple(_gpu(index, device) for index, device in enumerate(raw["devices"])),
            host=Host(driver_version=sanitize_text(version, 64) if version else None),
        )


def _gpu(index: int, device: dict[str, Any]) -> Gpu:
    address = normalize_pci_address(device["pci"] or "")
    return Gpu(
        uuid=sanitize_text(device["uuid"] or f"GPU-at-{address or index}", 96),
        uuid_is_made=not device["uuid"],
        index=index,
        vendor="nvidia",
        name=sanitize_text(device["name"], 128) if device["name"] else None,
        pci_bus_id=address,
        asleep=device["asleep"],
    )
