"""One GPU or instance brought before the judgement, with what every rule asks of it."""

from msgspec import Struct

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.process_group import ProcessGroup
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import Window


class RuleResult(Struct, frozen=True, gc=False):
    """What a rule says: a state, why, and for how long its processes have done nothing."""

    state: State
    reason: str
    idle_seconds: float | None = None


class VerdictInput(Struct, frozen=True, gc=False):
    """What is judged: `subject` is `gpu` itself, or one of its instances.

    `crowd` is who is on it, and `verdicts` those on the instances when a whole GPU is judged.
    """

    subject: Gpu | Instance
    gpu: Gpu
    window: Window
    now: float
    settings: Thresholds
    group: ProcessGroup
    instance_verdicts: tuple[Verdict, ...] = ()

    @property
    def measured(self) -> bool:
        """Whether its utilisation can be told."""
        return self.window.measured_at is not None

    @property
    def has_unattributed_load(self) -> bool:
        """Whether it works harder than a display would; by its power where nothing else tells."""
        seen = self.window
        return seen.over.load or (seen.measured_at is None and seen.over.power)
