"""NVIDIA GPUs from the output of `nvidia-smi`, where NVML cannot be loaded."""

from typing import Any

from fleet_smi.model.snapshot import Host
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers.nvidia_smi_output import parse_nvidia_smi


class NvidiaSmiCollector:
    """The devices, and the versions of driver and CUDA."""

    name = "nvidia_smi"

    def parse(self, raw: Any) -> SnapshotPart:
        reading = parse_nvidia_smi(raw)
        return SnapshotPart(
            gpus=reading.gpus,
            host=Host(driver_version=reading.driver_version, cuda_version=reading.cuda_version),
        )
