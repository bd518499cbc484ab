"""A node that reports to a history recorder, report by report."""

from typing import Any

from fleet_smi.model.snapshot import Gpu
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory, RecordedFleet

NODE_ID = "id-of-gpu01"
FIRST_GPU = "GPU-00000000"


class ReportingNode:
    """One node that reports every second, from noon on."""

    def __init__(self, **fields: Any) -> None:
        self.recorded = RecordedFleet()
        self.sequence = 0
        self.fields = fields

    @property
    def stored(self) -> InMemoryHistory:
        return self.recorded.stored

    def report(self, second: float, *gpus: Gpu, number: int | None = None, **fields: Any) -> None:
        self.sequence += 1
        made: dict[str, Any] = {"sequence": number or self.sequence, "run_id": "run"}
        made |= self.fields | fields
        taken = snapshot(*gpus, taken_at=NOON + second, **made)
        self.recorded.take(taken, NOON + second)

    def report_every_second(self, start: float, end: float, *gpus: Gpu, **fields: Any) -> None:
        """Report every second from `start` until before `end`."""
        second = start
        while second < end:
            self.report(second, *gpus, **fields)
            second += 1

    def tick(self, second: float) -> None:
        self.recorded.history.tick(NOON + second)


def busy_gpu(*pids: int, user: str = "alice", index: int = 0, **fields: Any) -> Gpu:
    people = tuple(process(pid, user=user) for pid in pids)
    return gpu(index, **({"processes": people, "busy_percent": 95.0} | fields))
