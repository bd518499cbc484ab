"""A story of any size: many alike nodes, to see what a hub can bear."""

from collections.abc import Iterator

from fleet_smi.model.units import GIB
from fleet_smi.simulation.gpu_models import A100, H100, L40S, RTX_4090, make_idle_gpu
from fleet_smi.simulation.gpu_slots import GpuSlot, SharedSlot, UsagePattern
from fleet_smi.simulation.scenario import FleetScenario, MachineModel, SimulatedNode, make_node
from fleet_smi.simulation.seeded_random import seeded_rng
from fleet_smi.simulation.workloads import random_uuid

_CHASSIS = (
    MachineModel(gpu_model=H100, cpu_count=192, memory_total_bytes=2016 * GIB),
    MachineModel(gpu_model=A100, cpu_count=128, memory_total_bytes=1008 * GIB),
    MachineModel(gpu_model=L40S, cpu_count=96, memory_total_bytes=755 * GIB),
    MachineModel(gpu_model=RTX_4090, cpu_count=64, memory_total_bytes=503 * GIB),
)
_GROUPS = (1, 1, 2, 4, 8)
_RACK = 32


def large_fleet(
    nodes: int, gpus: int, *, seed: int, start: float, interval_seconds: float = 1.0
) -> FleetScenario:
    """So many nodes with so many GPUs each, on which people come and go."""
    everyone = [_node(index, gpus, f"crowd-{seed}-{index}", start) for index in range(nodes)]
    story = FleetScenario(everyone, interval_seconds)
    for index in range(nodes):
        story.snapshot(index, start, 0)  # who is where now is thrown before the first second
    return story


def _node(index: int, gpus: int, key: str, began: float) -> SimulatedNode:
    chassis = _CHASSIS[index % len(_CHASSIS)]
    return make_node(
        f"node{index + 1:05d}",
        chassis,
        tuple(_seats(key, chassis, gpus)),
        key=key,
        start=began,
        labels={"rack": f"r{index // _RACK + 1:03d}", "room": f"hall-{index // 512 + 1}"},
    )


def _seats(key: str, chassis: MachineModel, gpus: int) -> Iterator[GpuSlot]:
    thrown, index = seeded_rng(key, "seats"), 0
    while index < gpus:
        group = min(thrown.choice(_GROUPS), gpus - index)
        custom = UsagePattern(
            key=f"{key}-{index}",
            period_seconds=thrown.uniform(240.0, 2400.0),
            gpu_count=group,
            probability=0.85,
            manager=thrown.choice(("slurm", "pod", "bare")),
        )
        for rank in range(group):
            resting = make_idle_gpu(chassis.gpu_model, f"GPU-{random_uuid(thrown)}", index + rank)
            yield SharedSlot(chassis.gpu_model, resting, custom, rank)
        index += group
