"""A node that tells its story to a history, report by report."""

from typing import Any

from fleet_smi.model.snapshot import Gpu
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.history.kept import Kept, Watched

NODE = "id-of-gpu01"
FIRST = "GPU-00000000"


class Story:
    """One node that reports every second, from noon on."""

    def __init__(self, **fields: Any) -> None:
        self.watched = Watched()
        self.sequence = 0
        self.fields = fields

    @property
    def kept(self) -> Kept:
        return self.watched.kept

    def tell(self, second: float, *gpus: Gpu, number: int | None = None, **fields: Any) -> None:
        self.sequence += 1
        made: dict[str, Any] = {"sequence": number or self.sequence, "run_id": "run"}
        made |= self.fields | fields
        taken = snapshot(*gpus, taken_at=NOON + second, **made)
        self.watched.take(taken, NOON + second)

    def go_on(self, start: float, end: float, *gpus: Gpu, **fields: Any) -> None:
        """A report every second."""
        second = start
        while second < end:
            self.tell(second, *gpus, **fields)
            second += 1

    def silence(self, second: float) -> None:
        self.watched.history.tick(NOON + second)


def working(*pids: int, user: str = "alice", index: int = 0, **fields: Any) -> Gpu:
    people = tuple(process(pid, user=user) for pid in pids)
    return gpu(index, **({"processes": people, "busy_percent": 95.0} | fields))
