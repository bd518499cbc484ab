"""Intel GPUs from the output of `xpu-smi`, where the kernel's files give no figures."""

from typing import Any

from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers import xpu_smi


class XpuSmiCollector:
    """Intel GPUs from the output of `xpu-smi`, where the kernel's files give no figures."""

    name = "xpu_smi"

    def parse(self, raw: Any) -> SnapshotPart:
        """Parse what `bindings.xpu_smi.read` returned."""
        return SnapshotPart(gpus=xpu_smi.parse(*raw["texts"]))
