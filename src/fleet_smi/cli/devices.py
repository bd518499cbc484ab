"""GPUs that are offered, as they are printed: for CUDA on this machine, by name on others."""

import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.errors import Unmet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.select import Candidate


def cuda_devices(candidates: "Sequence[Candidate]", *, uuid: bool = False) -> list[str]:
    """What CUDA takes: indices or UUIDs, never both; an instance has only a UUID."""
    if not uuid and all(one.part is None for one in candidates):
        return [str(one.index) for one in candidates]
    for one in candidates:
        if one.judged.uuid_is_made:
            raise Unmet(f"{one.label} tells no UUID of its own: it can only go by its index")
    return [one.uuid for one in candidates]


def candidate_labels(candidates: "Sequence[Candidate]") -> list[str]:
    """How people call them: "gpu03:1"."""
    return [_label(one, (one.node_label or "").removeprefix(one.node)) for one in candidates]


def _label(one: "Candidate", mark: str) -> str:
    """With the mark by which its node is told from a namesake.

    Nodes choose their names: none may look like two, or like another's GPU.
    """
    name = "".join([letter if letter.isalnum() or letter in "._-" else "_" for letter in one.node])
    return name + mark + one.label.removeprefix(one.node)


def warn_about_device_order(view: "FleetView", alternative: str = "--uuid") -> None:
    """Say so where the indices of this machine may be others to CUDA."""
    models = {
        gpu.name for node in view.nodes for gpu in node.gpus if gpu.name and gpu.vendor == "nvidia"
    }
    if len(models) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        print(
            "fleet-smi: CUDA counts mixed GPUs in another order: "
            f"set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use {alternative}",
            file=sys.stderr,
        )
