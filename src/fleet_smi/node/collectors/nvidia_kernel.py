"""NVIDIA GPUs as the kernel lists them: who they are, where the driver would not say more."""

from typing import Any

from fleet_smi.model.pci import normal_pci
from fleet_smi.model.snapshot import Gpu, Host
from fleet_smi.model.text import clean
from fleet_smi.node.collecting import Part


class NvidiaKernelCollector:
    """Identity only; used when the driver hangs or does not match its library."""

    name = "nvidia_kernel"

    def part(self, raw: Any) -> Part:
        version = raw["version"]
        return Part(
            gpus=tuple(_gpu(index, device) for index, device in enumerate(raw["devices"])),
            host=Host(driver_version=clean(version, 64) if version else None),
        )


def _gpu(index: int, device: dict[str, Any]) -> Gpu:
    address = normal_pci(device["pci"] or "")
    return Gpu(
        uuid=clean(device["uuid"] or f"GPU-at-{address or index}", 96),
        uuid_is_made=not device["uuid"],
        index=index,
        vendor="nvidia",
        name=clean(device["name"], 128) if device["name"] else None,
        pci_bus_id=address,
        asleep=device["asleep"],
    )
