"""One GPU or instance brought before the judgement, with what every rule asks of it."""

from msgspec import Struct

from fleet_smi.model.crowd import Crowd
from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.thresholds import Thresholds
from fleet_smi.model.window import Seen


class Ruling(Struct, frozen=True, gc=False):
    """What a rule says: a state, why, and for how long its processes have done nothing."""

    state: State
    reason: str
    idle_seconds: float | None = None


class Case(Struct, frozen=True, gc=False):
    """What is judged: `subject` is `gpu` itself, or one of its instances.

    `crowd` is who is on it, and `verdicts` those on the instances when a whole GPU is judged.
    """

    subject: Gpu | Instance
    gpu: Gpu
    seen: Seen
    now: float
    settings: Thresholds
    crowd: Crowd
    verdicts: tuple[Verdict, ...] = ()

    @property
    def measured(self) -> bool:
        """Whether its utilisation can be told."""
        return self.seen.measured_at is not None

    @property
    def works_unexplained(self) -> bool:
        """Whether it works harder than a display would; by its power where nothing else tells."""
        seen = self.seen
        return seen.over.load or (seen.measured_at is None and seen.over.power)
