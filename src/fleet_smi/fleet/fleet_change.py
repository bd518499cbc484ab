"""The change that one snapshot makes to the fleet: the input of the history."""

from collections.abc import Mapping

from msgspec import Struct

from fleet_smi.fleet.device_standings import StateTransition
from fleet_smi.fleet.via import Via
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.uuids import snapshot_uuids
from fleet_smi.model.verdict.hysteresis import Standing


class FleetChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes made by one snapshot; `is_first` when its node was not known before.

    `at` is when it was taken, by the hub's clock, and `reported_uuids` are those in it.
    `standings` is the result for every GPU and instance; `occupancy_changed` are the UUIDs of
    those whose processes, or their memory, differ from before, and of those that are gone. A
    snapshot that `is_late` fills a gap in the numbers, and does not change the present state.
    """

    snapshot: Snapshot
    at: float
    reported_uuids: list[str]
    via: Via | None = None
    is_first: bool = False
    is_late: bool = False
    transitions: tuple[StateTransition, ...] = ()
    standings: Mapping[str, Standing] = {}
    occupancy_changed: tuple[str, ...] = ()


def late_change(snapshot: Snapshot, at: float, via: Via | None) -> FleetChange:
    """Return the change of a snapshot that fills a gap in the numbers."""
    uuids = snapshot_uuids(snapshot)
    return FleetChange(snapshot=snapshot, at=at, reported_uuids=uuids, via=via, is_late=True)
