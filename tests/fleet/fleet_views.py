"""Fleets built from snapshots, and rows of their views."""

from datetime import datetime

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON


def fleet_of(*snapshots: Snapshot) -> FleetState:
    """Return a fleet that received each snapshot at its own time."""
    fleet = FleetState()
    for snapshot in snapshots:
        assert fleet.apply(snapshot, snapshot.taken_at) is not None
    return fleet


def only_node(fleet: FleetState, now: float = NOON) -> NodeView:
    (node,) = fleet.view(now).nodes
    return node


def gpu_rows(fleet: FleetState, now: float = NOON) -> list[tuple[int, str, str]]:
    """Return index, state and reason of each GPU of the only node."""
    gpus = only_node(fleet, now).gpus
    return [(gpu.index, gpu.verdict.state, gpu.verdict.reason) for gpu in gpus]


def clock(at: float) -> str:
    """Return a time by the clock of this machine, as reasons have it."""
    return f"{datetime.fromtimestamp(at).astimezone():%H:%M}"
