"""Builders of GPUs, processes and snapshots: a healthy, idle H100 by default."""

from typing import Any

from fleet_smi.model.snapshot import Gpu, Instance, Process, Snapshot
from fleet_smi.model.units import GIB, MIB

NOON = 1_750_000_000.0
H100_BYTES = 85_520_809_984  # 79.6 GiB, as the driver reports it
MINUTE, HOUR = 60.0, 3600.0


def gpu(index: int = 0, **fields: Any) -> Gpu:
    """An idle H100 without processes."""
    healthy: dict[str, Any] = {
        "uuid": f"GPU-{index:08x}",
        "index": index,
        "vendor": "nvidia",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_used_bytes": 4 * MIB,
        "memory_total_bytes": H100_BYTES,
        "busy_percent": 0.0,
        "memory_busy_percent": 0.0,
        "temperature_celsius": 33.0,
        "power_watts": 71.0,
        "power_limit_watts": 700.0,
        "compute_mode": "default",
        "mig_mode": False,
        "processes": (),
    }
    return Gpu(**(healthy | fields))


def instance(number: int = 1, **fields: Any) -> Instance:
    """A 10 GB MIG instance without processes; drivers report no utilisation for one."""
    healthy: dict[str, Any] = {
        "uuid": f"MIG-{number:08x}",
        "gpu_instance_id": number,
        "compute_instance_id": 0,
        "profile": "1g.10gb",
        "memory_used_bytes": 12 * MIB,
        "memory_total_bytes": 10 * GIB,
        "processes": (),
    }
    return Instance(**(healthy | fields))


def process(pid: int = 4711, user: str | None = "alice", **fields: Any) -> Process:
    """A compute process of alice with 16 GiB, started a day before `NOON`."""
    healthy: dict[str, Any] = {
        "pid": pid,
        "kind": "compute",
        "user": user,
        "gpu_memory_bytes": 16 * GIB,
        "name": "python",
        "started_at": NOON - 24 * HOUR,
    }
    return Process(**(healthy | fields))


def snapshot(
    *gpus: Gpu, node: str = "gpu01", taken_at: float = NOON, sequence: int = 0, **fields: Any
) -> Snapshot:
    """One report of a node that reports every second."""
    healthy: dict[str, Any] = {
        "node_id": f"id-of-{node}",
        "name": node,
        "taken_at": taken_at,
        "interval_seconds": 1.0,
        "sequence": sequence,
        "boot_id": "boot-1",
        "gpus": gpus,
    }
    return Snapshot(**(healthy | fields))
