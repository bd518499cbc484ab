"""The responses of the older masters, read machine by machine as their clients do."""

import msgspec

from fleet_smi.compat.node_info.codec import decode_status
from fleet_smi.compat.nvgpu.codec import decode_gpu_status
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON


def read_cluster_status(body: bytes) -> list[Snapshot | str]:
    """Return what nvgpu's master knows of each machine: a snapshot, or the error in its place."""
    return [
        each["error"] if "error" in each else decode_gpu_status(msgspec.json.encode(each), NOON)
        for each in msgspec.json.decode(body)
    ]


def read_main_status(body: bytes) -> list[Snapshot | str]:
    """Return what gpu-cluster-monitor knows of each node: a snapshot, or the name of a lost one."""
    return [
        decode_status(msgspec.json.encode(each), NOON).snapshot
        if each["status"]
        else each["hostname"]
        for each in msgspec.json.decode(body)["Nodes"]
    ]
