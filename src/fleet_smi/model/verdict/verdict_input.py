"""The input of the verdict rules, and the result of one rule."""

from msgspec import Struct

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.process_group import ProcessGroup
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import Window


class RuleResult(Struct, frozen=True, gc=False):
    """What a rule decides: a state, the reason, and how long the processes have been idle."""

    state: State
    reason: str
    idle_seconds: float | None = None


class VerdictInput(Struct, frozen=True, gc=False):
    """What is judged: `subject` is `gpu` itself, or one of its MIG instances.

    `group` sums up the processes on it. `instance_verdicts` are given for a whole GPU that has
    instances.
    """

    subject: Gpu | Instance
    gpu: Gpu
    window: Window
    now: float
    thresholds: Thresholds
    group: ProcessGroup
    instance_verdicts: tuple[Verdict, ...] = ()

    @property
    def measured(self) -> bool:
        """Whether its utilisation is measured."""
        return self.window.measured_at is not None

    @property
    def worked_lately(self) -> bool:
        """Whether it worked within the idle window."""
        worked_at = self.window.worked_at
        return worked_at is not None and self.now - worked_at < self.thresholds.idle_window_seconds

    @property
    def long_idle_users(self) -> list[tuple[str, float]]:
        """The users of a shared GPU who have done nothing for the idle window, and how long."""
        idle = [(user, self.now - since) for user, since in self.window.idle_users]
        return [entry for entry in idle if entry[1] >= self.thresholds.idle_window_seconds]

    @property
    def has_unattributed_load(self) -> bool:
        """Whether it works harder than a display; by power where utilisation is not measured."""
        window = self.window
        return window.over.load or (window.measured_at is None and window.over.power)
