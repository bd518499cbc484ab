"""Change detection between reports: which GPUs of a node have other processes than before.

Most reports show the same processes as the previous one; those are recorded without a full diff.
"""

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.verdict.process_group import ProcessGroup

ProcessStarts = list[list[float | None]]


class ChangeDetector:
    """Remembers the processes in one report of a node and compares later reports with it."""

    __slots__ = ("_groups", "_lessees", "_starts", "_vacated")

    def __init__(self, change: FleetChange | None = None) -> None:
        self._groups: dict[str, ProcessGroup] = {} if change is None else _process_groups(change)
        self._starts: ProcessStarts = [] if change is None else _process_starts(change.snapshot)
        self._vacated: set[str] = set() if change is None else _vacated(change)
        self._lessees: dict[str, str] = {} if change is None else _lessees(change)

    def has_same_processes(self, latest: Snapshot) -> bool:
        """Whether the latest report shows the same processes, judged by their start times.

        Start times differ where a pid was reused by another process.
        """
        return _process_starts(latest) == self._starts

    def has_only_memory_changes(self, change: FleetChange) -> bool:
        """Whether the GPUs whose occupancy changed have the same processes with other memory."""
        standings, groups = change.standings, self._groups
        for uuid in change.occupancy_changed:
            current, previous = standings.get(uuid), groups.get(uuid)
            if current is None or previous is None:
                return False
            if current.group.pids != previous.pids or current.group.name != previous.name:
                return False
            if current.has_use_ended is not (uuid in self._vacated):
                return False
            if current.window.lease_holder != self._lessees.get(uuid):
                return False
        return True

    def changed_gpus(self, change: FleetChange) -> list[Gpu] | None:
        """The GPUs that must be compared again; `None` where the set of GPUs itself changed."""
        if change.standings.keys() != self._groups.keys():
            return None
        changed_uuids = {transition.uuid for transition in change.transitions} | set(
            change.occupancy_changed
        )
        snapshot, changed = change.snapshot, []
        starts = _process_starts(snapshot)
        # The lists match GPU by GPU: with other GPUs in the report there would be a full diff.
        for gpu, current, previous in zip(snapshot.gpus, starts, self._starts, strict=True):
            uuids = {gpu.uuid, *[instance.uuid for instance in gpu.instances]}
            if current != previous or not changed_uuids.isdisjoint(uuids):
                changed.append(gpu)
                changed_uuids -= uuids
        # A change of a device that is not in the snapshot cannot be recorded GPU by GPU.
        return None if changed_uuids else changed


def _process_groups(change: FleetChange) -> dict[str, ProcessGroup]:
    return {uuid: standing.group for uuid, standing in change.standings.items()}


def _vacated(change: FleetChange) -> set[str]:
    """The devices that are called in use though their processes have ended."""
    return {uuid for uuid, standing in change.standings.items() if standing.has_use_ended}


def _lessees(change: FleetChange) -> dict[str, str]:
    """Who has leased which devices."""
    found = {uuid: standing.window.lease_holder for uuid, standing in change.standings.items()}
    return {uuid: holder for uuid, holder in found.items() if holder is not None}


def _process_starts(snapshot: Snapshot) -> ProcessStarts:
    """The start times of the processes on each GPU."""
    return [[process.started_at for process in gpu.processes or ()] for gpu in snapshot.gpus]
