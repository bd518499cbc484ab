"""The people behind pids: owner, command, age, load, container and job."""

from typing import Any

from fleet_smi.node.collecting import Part
from fleet_smi.wire.kernel import person_of


class ProcessesCollector:
    """Facts by pid, to be joined to the GPUs; a pid without facts cannot be seen."""

    name = "processes"

    def part(self, raw: Any) -> Part:
        return Part(people={pid: person_of(pid, facts) for pid, facts in raw.items() if facts})
