"""The change that one report makes to the fleet: the input of the history."""

from collections.abc import Mapping

from msgspec import Struct

from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.fleet.state_transition import StateTransition
from fleet_smi.fleet.via import Via
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.uuids import snapshot_uuids
from fleet_smi.model.verdict.hysteresis import Standing


class FleetChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes made by one report; `is_first` when its node was not known before.

    `at` is when its `sample` was taken, by the hub's clock, and `reported_uuids` are those in it.
    `standings` is the result for every GPU and instance, to be read before the next report of the
    node; `occupancy_changed` are the UUIDs of those whose processes, or their memory, differ from
    before, and of those that are gone. A report that `is_late` fills a gap in the numbers, and does
    not change the present state.
    """

    sample: NodeSample
    at: float
    reported_uuids: list[str]
    via: Via | None = None
    is_first: bool = False
    is_late: bool = False
    transitions: tuple[StateTransition, ...] = ()
    standings: Mapping[str, Standing] = {}
    occupancy_changed: tuple[str, ...] = ()

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self.sample.base.node_id

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the report, made when it is first read."""
        return self.sample.snapshot


def node_change(
    node: NodeState,
    via: Via | None,
    transitions: tuple[StateTransition, ...],
    *,
    is_first: bool = False,
) -> FleetChange:
    """Return the change of a report by which a node was updated."""
    return FleetChange(
        sample=node.latest,
        at=node.at,
        reported_uuids=node.reported_uuids,
        via=via,
        is_first=is_first,
        transitions=transitions,
        standings=node.standings,
        occupancy_changed=node.standings.occupancy_changed,
    )


def late_change(snapshot: Snapshot, at: float, via: Via | None) -> FleetChange:
    """Return the change of a snapshot that fills a gap in the numbers."""
    uuids, sample = snapshot_uuids(snapshot), NodeSample(snapshot)
    return FleetChange(sample=sample, at=at, reported_uuids=uuids, via=via, is_late=True)
