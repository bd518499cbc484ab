"""Ledger updates: what a report says about the devices of its node goes into the ledger.

Only the difference to the report before is updated: all devices, some GPUs or only memory.
"""

from fleet_smi.fleet.fleet import FleetChange
from fleet_smi.hub.history.recording.change_detector import ChangeDetector
from fleet_smi.hub.history.recording.device_use import device_uses, missing_devices
from fleet_smi.hub.history.recording.ledger import Ledger
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.buffer import SampleBuffer, device_uuids
from fleet_smi.model.fleet import State
from fleet_smi.model.snapshot import Gpu, Instance, Snapshot


class LedgerUpdater:
    """Updates the ledger of one node by the difference between a report and the one before.

    `reported_uuids` are the GPUs in the latest report. It is compared by identity: the fleet
    passes the same list while the GPUs of a node stay the same.
    """

    __slots__ = ("_detector", "reported_uuids")

    def __init__(self) -> None:
        self._detector = ChangeDetector()
        self.reported_uuids: list[str] | None = None

    def update(
        self,
        ledger: Ledger,
        buffer: SampleBuffer,
        change: FleetChange,
        at: float,
        batch: WriteBatch,
        *,
        full: bool,
    ) -> bool:
        """Update the changed GPUs only, or all in a `full` diff; return whether it was full."""
        snapshot, standings = change.snapshot, change.standings
        full = full or change.reported_uuids is not self.reported_uuids
        changed = None if full else self._detector.changed_gpus(change)
        if changed is None:
            uuids = device_uuids(snapshot)
            buffer.set_gpus(uuids)
            uses = device_uses(snapshot.gpus, standings, uuids)
            ledger.update([*uses, *missing_devices(standings, uses)], at, batch)
        else:
            ledger.update_some(device_uses(changed, standings, buffer.uuids), at, batch)
        self._detector, self.reported_uuids = ChangeDetector(change), change.reported_uuids
        return changed is None

    def try_update_memory(self, ledger: Ledger, change: FleetChange) -> bool:
        """Update the memory of processes where only that changed; else return false."""
        if not self._detector.has_only_memory_changes(change):
            return False
        gpus, changed_uuids = change.snapshot.gpus, change.occupancy_changed
        instances = [instance for gpu in gpus for instance in gpu.instances]
        devices: list[Gpu | Instance] = [*gpus, *instances]
        for device in devices:
            if device.uuid in changed_uuids:
                memory = {proc.pid: proc.gpu_memory_bytes for proc in device.processes or ()}
                ledger.update_memory(device.uuid, memory, change.at)
        return True

    def has_same_processes(self, latest: Snapshot) -> bool:
        """Whether this report shows the same processes as the one that was updated last."""
        return self._detector.has_same_processes(latest)


def gpu_states(change: FleetChange) -> tuple[State, ...]:
    """The states of whole GPUs, without those of their instances."""
    instances = {part.uuid for gpu in change.snapshot.gpus for part in gpu.instances}
    standings = change.standings.items()
    return tuple([standing.verdict.state for uuid, standing in standings if uuid not in instances])
