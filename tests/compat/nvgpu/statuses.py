"""Responses of nvgpu agents, built from small parts that tests change."""

from typing import Any

import msgspec

from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import Gpu, Snapshot
from tests.builders import NOON

IDLE = {
    "type": "NVIDIA A100-SXM4-80GB",
    "is_available": True,
    "pids": "",
    "users": "",
    "running_since": None,
    "utilization": 0,
    "clock_mhz": 210,
    "temperature": 34,
    "cmd": None,
}
SHARED = IDLE | {
    "is_available": False,
    "pids": "510,511",
    "users": "alice,bob",
    "running_since": "2 weeks ago",
    "utilization": 97,
    "cmd": "train.py",
}


def read_status(*gpus: Any, hostname: Any = "gpu01") -> Snapshot:
    """Decode the status of a node with these GPUs."""
    body = msgspec.json.encode({"hostname": hostname, "gpus": gpus})
    return decode_gpu_status(body, NOON)


def read_gpu(**fields: Any) -> Gpu:
    """Decode the status of an idle GPU with these fields changed."""
    (found,) = read_status(IDLE | fields).gpus
    return found


def node_views(*snapshots: Snapshot, now: float = NOON) -> tuple[NodeView, ...]:
    """Return the nodes of a fleet that received these snapshots."""
    fleet = FleetState()
    for each in snapshots:
        fleet.apply(each, each.taken_at)
    return fleet.view(now).nodes
