"""AMD GPUs as files of `amdgpu` and `amdkfd`, read and parsed by the real binding and collector."""

from pathlib import Path
from typing import Any

from fleet_smi.model.snapshot import Gpu
from fleet_smi.node.bindings import amdgpu
from fleet_smi.node.collectors.amd import AmdCollector
from tests.node.file_trees import Content, drm_card, write_tree

KFD = "sys/class/kfd/kfd"


def read_gpus(root: str) -> tuple[Gpu, ...]:
    """The GPUs of a machine whose files are below `root`."""
    return AmdCollector().parse(amdgpu.read(root)).gpus


def read_gpu(tmp_path: Path, files: dict[str, Content], **extra: Any) -> Gpu:
    """The GPU of a machine with one card, which has these files."""
    (gpu,) = read_gpus(write_tree(tmp_path, drm_card("amdgpu", files=files, **extra)))
    return gpu


def compute_nodes(*locations: int) -> dict[str, Content]:
    """The files of `amdkfd` for GPUs at these PCI locations, in the order in which HIP counts."""
    tree: dict[str, Content] = {f"{KFD}/topology/nodes/0/properties": "simd_count 0\n"}
    for node, location in enumerate(locations, 1):
        tree[f"{KFD}/topology/nodes/{node}/gpu_id"] = f"{1000 + node}\n"
        tree[f"{KFD}/topology/nodes/{node}/properties"] = (
            f"simd_count 24\nvendor_id 4098\nlocation_id {location}\ndomain 0\n"
        )
    return tree | {f"{KFD}/proc": None}
