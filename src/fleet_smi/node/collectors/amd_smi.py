"""AMD GPUs from the output of `amd-smi`, where the kernel's files give no figures."""

from typing import Any

from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers import amd_smi


class AmdSmiCollector:
    """AMD GPUs from the output of `amd-smi`, where the kernel's files give no figures."""

    name = "amd_smi"

    def parse(self, raw: Any) -> SnapshotPart:
        """Parse what `bindings.amd_smi.read` returned."""
        return SnapshotPart(gpus=amd_smi.parse(*raw["texts"]))
