"""Details of the processes on GPUs: owner, command, age, load, container and job."""

from typing import Any

from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers.kernel import process_from_procfs


class ProcessesCollector:
    """Process details by pid, to be joined to the GPUs; a pid without any is not visible here."""

    name = "processes"

    def __init__(self) -> None:
        self._raw: Any = None
        self._part = SnapshotPart()

    def parse(self, raw: Any) -> SnapshotPart:
        # The binding returns the same values for a second: parsing them again is most of the cost.
        if raw != self._raw:
            processes = {
                pid: process_from_procfs(pid, details) for pid, details in raw.items() if details
            }
            self._raw, self._part = raw, SnapshotPart(processes=processes)
        return self._part
