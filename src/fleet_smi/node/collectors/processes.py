"""The people behind pids: owner, command, age, load, container and job."""

from typing import Any

from fleet_smi.node.collector import SnapshotPart
from fleet_smi.wire.parsers.kernel import process_from_procfs


class ProcessesCollector:
    """Facts by pid, to be joined to the GPUs; a pid without facts cannot be seen."""

    name = "processes"

    def __init__(self) -> None:
        self._raw: Any = None
        self._part = SnapshotPart()

    def parse(self, raw: Any) -> SnapshotPart:
        if raw != self._raw:
            people = {pid: process_from_procfs(pid, facts) for pid, facts in raw.items() if facts}
            self._raw, self._part = raw, SnapshotPart(processes=people)
        return self._part
