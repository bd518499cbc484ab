"""AMD GPUs from the output of `rocm-smi`, where there is no `amd-smi`."""

from typing import Any

from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers import rocm_smi


class RocmSmiCollector:
    """AMD GPUs from the output of `rocm-smi`, where there is no `amd-smi`."""

    name = "rocm_smi"

    def parse(self, raw: Any) -> SnapshotPart:
        """Parse what `bindings.rocm_smi.read` returned."""
        return SnapshotPart(gpus=rocm_smi.parse(raw["texts"][0]))
