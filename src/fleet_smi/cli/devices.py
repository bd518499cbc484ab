"""Names of offered GPUs: values for CUDA_VISIBLE_DEVICES, or `node:index` for a fleet."""

import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.errors import Unmet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet_smi.model.candidates import Candidate, OfferedDevice
    from fleet_smi.model.fleet import FleetView


def cuda_devices(
    candidates: "Sequence[Candidate | OfferedDevice]", *, uuid: bool = False
) -> list[str]:
    """Return values for CUDA_VISIBLE_DEVICES: all indices, or all UUIDs.

    CUDA does not accept a mix of both, and a MIG instance has only a UUID, so one instance
    turns the whole list into UUIDs. Raise `Unmet` where a GPU has none.
    """
    if not uuid and all(candidate.part is None for candidate in candidates):
        return [str(candidate.index) for candidate in candidates]
    for candidate in candidates:
        if candidate.uuid_is_made:
            raise Unmet(f"{candidate.label} has no UUID: it can only be selected by its index")
    return [candidate.uuid for candidate in candidates]


def candidate_labels(candidates: "Sequence[Candidate | OfferedDevice]") -> list[str]:
    """Return a label for each candidate, like "gpu03:1"."""
    return [
        _label(candidate, (candidate.node_label or "").removeprefix(candidate.node))
        for candidate in candidates
    ]


def _label(candidate: "Candidate | OfferedDevice", suffix: str) -> str:
    """Return node, the suffix that tells nodes of one name apart, and index.

    Nodes choose their own names. Characters outside a safe set are replaced, so that no name
    can look like two labels or like another node's GPU.
    """
    node = candidate.node
    name = "".join([letter if letter.isalnum() or letter in "._-" else "_" for letter in node])
    return name + suffix + candidate.label.removeprefix(node)


def require_a_gpu(view: "FleetView") -> None:
    """Raise `Unmet` where the local machine has no GPU at all, which waiting does not change.

    One whose driver fails may have some.
    """
    if not any(node.gpus or node.failures for node in view.nodes):
        raise Unmet(
            "this machine has no GPU that fleet-smi can see: look at others with --hub URL or "
            "--ssh HOSTS, or see `fleet-smi doctor`"
        )


def warn_about_device_order(view: "FleetView", alternative: str = "--uuid") -> None:
    """Warn on stderr if CUDA may number this machine's GPUs differently.

    By default CUDA orders by speed, NVML by PCI bus: with several models the two differ.
    """
    models = {
        gpu.name for node in view.nodes for gpu in node.gpus if gpu.name and gpu.vendor == "nvidia"
    }
    if len(models) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        print(
            "fleet-smi: CUDA may number mixed GPUs differently: "
            f"set CUDA_DEVICE_ORDER=PCI_BUS_ID, or use {alternative}",
            file=sys.stderr,
        )
