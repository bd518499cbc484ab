"""NVIDIA GPUs as `nvidia-smi` tells them, where NVML cannot be loaded."""

from typing import Any

from fleet_smi.model.snapshot import Host
from fleet_smi.node.collecting import Part
from fleet_smi.wire.dialects.nvidia_answers import parse_answers


class NvidiaSmiCollector:
    """The devices, and the versions of what drives them."""

    name = "nvidia_smi"

    def part(self, raw: Any) -> Part:
        reading = parse_answers(raw)
        return Part(
            gpus=reading.gpus,
            host=Host(driver_version=reading.driver_version, cuda_version=reading.cuda_version),
        )
