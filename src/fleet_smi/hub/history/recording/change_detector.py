"""Who was on each GPU when one last looked: most reports show the same, and need no other look."""

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.verdict.process_group import ProcessGroup

ProcessStarts = list[list[float | None]]


class ChangeDetector:
    """What one change showed of a node."""

    __slots__ = ("_crowds", "_starts")

    def __init__(self, change: FleetChange | None = None) -> None:
        self._crowds: dict[str, ProcessGroup] = {} if change is None else _crowds(change)
        self._starts: ProcessStarts = [] if change is None else _starts(change.snapshot)

    def has_same_processes(self, latest: Snapshot) -> bool:
        """Whether the processes are those in the latest report, and not others of their numbers."""
        return _starts(latest) == self._starts

    def has_same_users(self, change: FleetChange) -> bool:
        """Whether those whom it stirred are the same people as before, with other memory."""
        standings, crowds = change.standings, self._crowds
        for uuid in change.occupancy_changed:
            now, before = standings.get(uuid), crowds.get(uuid)
            if now is None or before is None:
                return False
            if now.group.pids != before.pids or now.group.name != before.name:
                return False
        return True

    def changed_gpus(self, change: FleetChange) -> list[Gpu] | None:
        """The GPUs to be looked at again; `None` where there are others than before."""
        if change.standings.keys() != self._crowds.keys():
            return None
        stirred = {turn.uuid for turn in change.transitions} | set(change.occupancy_changed)
        snapshot, some = change.snapshot, []
        for gpu, now, then in zip(snapshot.gpus, _starts(snapshot), self._starts, strict=True):
            uuids = {gpu.uuid, *[part.uuid for part in gpu.instances]}
            if now != then or not stirred.isdisjoint(uuids):
                some.append(gpu)
                stirred -= uuids
        return None if stirred else some


def _crowds(change: FleetChange) -> dict[str, ProcessGroup]:
    return {uuid: standing.group for uuid, standing in change.standings.items()}


def _starts(snapshot: Snapshot) -> ProcessStarts:
    """When those on each GPU began."""
    return [[one.started_at for one in gpu.processes or ()] for gpu in snapshot.gpus]
