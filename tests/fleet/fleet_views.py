"""A fleet of given snapshots, and what its view shows."""

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON


def fleet_of(*snapshots: Snapshot) -> FleetState:
    """A fleet that has received these snapshots, each when it was taken."""
    fleet = FleetState()
    for snapshot in snapshots:
        assert fleet.apply(snapshot, snapshot.taken_at) is not None
    return fleet


def only_node(fleet: FleetState, now: float = NOON) -> NodeView:
    (node,) = fleet.view(now).nodes
    return node


def gpu_rows(fleet: FleetState, now: float = NOON) -> list[tuple[int, str, str]]:
    """Index, state and reason of each GPU of the only node."""
    gpus = only_node(fleet, now).gpus
    return [(gpu.index, gpu.verdict.state, gpu.verdict.reason) for gpu in gpus]
