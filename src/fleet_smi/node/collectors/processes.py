"""The people behind pids: owner, command, age, load, container and job."""

from typing import Any

from fleet_smi.node.collecting import Part
from fleet_smi.wire.kernel import person_of


class ProcessesCollector:
    """Facts by pid, to be joined to the GPUs; a pid without facts cannot be seen."""

    name = "processes"

    def __init__(self) -> None:
        self._raw: Any = None
        self._part = Part()

    def part(self, raw: Any) -> Part:
        if raw != self._raw:
            people = {pid: person_of(pid, facts) for pid, facts in raw.items() if facts}
            self._raw, self._part = raw, Part(people=people)
        return self._part
