"""A fleet of any size with similar nodes, for load tests of a hub."""

from collections.abc import Iterator

from fleet_smi.model.units import GIB
from fleet_smi.simulation.gpu_models import A100, H100, L40S, RTX_4090, make_idle_gpu
from fleet_smi.simulation.gpu_slots import GpuSlot, JobSlot, UsagePattern
from fleet_smi.simulation.scenario import FleetScenario, MachineModel, SimulatedNode, make_node
from fleet_smi.simulation.seeded_random import seeded_rng
from fleet_smi.simulation.workloads import random_uuid

_MACHINE_MODELS = (
    MachineModel(gpu_model=H100, cpu_count=192, memory_total_bytes=2016 * GIB),
    MachineModel(gpu_model=A100, cpu_count=128, memory_total_bytes=1008 * GIB),
    MachineModel(gpu_model=L40S, cpu_count=96, memory_total_bytes=755 * GIB),
    MachineModel(gpu_model=RTX_4090, cpu_count=64, memory_total_bytes=503 * GIB),
)
_JOB_SIZES = (1, 1, 2, 4, 8)
_NODES_PER_RACK = 32


def large_fleet(
    nodes: int, gpus: int, *, seed: int, start: float, interval_seconds: float = 1.0
) -> FleetScenario:
    """Return a scenario of `nodes` nodes with `gpus` GPUs each, on which jobs start and end."""
    all_nodes = [_node(index, gpus, f"crowd-{seed}-{index}", start) for index in range(nodes)]
    scenario = FleetScenario(all_nodes, interval_seconds)
    for index in range(nodes):
        # Initialise the slots now, not during the first second of load.
        scenario.snapshot(index, start, 0)
    return scenario


def _node(index: int, gpus: int, key: str, start: float) -> SimulatedNode:
    machine_model = _MACHINE_MODELS[index % len(_MACHINE_MODELS)]
    return make_node(
        f"node{index + 1:05d}",
        machine_model,
        tuple(_slots(key, machine_model, gpus)),
        key=key,
        start=start,
        labels={"rack": f"r{index // _NODES_PER_RACK + 1:03d}", "room": f"hall-{index // 512 + 1}"},
    )


def _slots(key: str, machine_model: MachineModel, gpus: int) -> Iterator[GpuSlot]:
    rng, index = seeded_rng(key, "seats"), 0
    while index < gpus:
        group = min(rng.choice(_JOB_SIZES), gpus - index)
        pattern = UsagePattern(
            key=f"{key}-{index}",
            period_seconds=rng.uniform(240.0, 2400.0),
            gpu_count=group,
            probability=0.85,
            manager=rng.choice(("slurm", "pod", "bare")),
        )
        for rank in range(group):
            idle_gpu = make_idle_gpu(
                machine_model.gpu_model, f"GPU-{random_uuid(rng)}", index + rank
            )
            yield JobSlot(machine_model.gpu_model, idle_gpu, pattern, rank)
        index += group
