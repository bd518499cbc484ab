"""Builders of occupancies for tests."""

from fleet_smi.model.history import GpuOccupancies, GpuOfNode, Holder, Occupancy, Sums
from fleet_smi.model.units import GIB

START = 1_790_000_000.0
HOUR = 3600.0


def gpu(index: int, node: str = "gpu01", gib: float | None = 79.6) -> GpuOfNode:
    return GpuOfNode(
        uuid=f"GPU-{node}-{index}",
        node_id=f"id-{node}",
        node=node,
        index=index,
        model="NVIDIA H100 80GB HBM3",
        memory_total_bytes=None if gib is None else int(gib * GIB),
    )


def occupancy(
    command: str | None = "python train.py",
    *,
    user: str = "alice",
    pid: int = 1,
    start: float = 0.0,
    hours: float | None = 2.0,
    load: float | None = 0.9,
    idle: float = 0.0,
    peak_gib: float | None = 60.0,
    slurm_job: str | None = None,
) -> Occupancy:
    """Return an occupancy from `start` hours after `START`; `hours=None`: open, for two hours."""
    seconds = (2.0 if hours is None else hours) * HOUR
    return Occupancy(
        holder=Holder(pid=pid, user=user, name="python", command=command, slurm_job=slurm_job),
        start=START + start * HOUR,
        end=None if hours is None else START + (start + hours) * HOUR,
        sums=Sums(
            gpu_seconds=seconds,
            measured_seconds=0.0 if load is None else seconds,
            busy_seconds=seconds * (load or 0.0),
            idle_seconds=idle * HOUR,
            energy_joules=seconds * 400,
        ),
        peak_memory_bytes=None if peak_gib is None else int(peak_gib * GIB),
    )


def gpu_occupancies(gpu_of_node: GpuOfNode, *occupancies: Occupancy) -> GpuOccupancies:
    return GpuOccupancies(gpu=gpu_of_node, occupancies=occupancies)
