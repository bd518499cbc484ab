"""One GPU or instance brought before the judgement, with what every rule asks of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.readings import Level, is_mps_server
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.thresholds import Thresholds
from fleet_smi.model.window import Seen


class Ruling(NamedTuple):
    """What a rule says: a state, why, and for how long its processes have done nothing."""

    state: State
    reason: str
    idle_seconds: float | None = None


class Case(Struct, frozen=True, gc=False):
    """What is judged: `subject` is `gpu` itself, or one of its instances.

    `crowd` is every process but MPS servers, and `verdicts` those on the instances when
    a whole GPU is judged.
    """

    subject: Gpu | Instance
    gpu: Gpu
    seen: Seen
    now: float
    settings: Thresholds
    crowd: tuple[Process, ...]
    verdicts: tuple[Verdict, ...] = ()

    @property
    def measured(self) -> bool:
        """Whether its utilisation can be told."""
        return self.seen.measured_at is not None

    @property
    def level(self) -> Level:
        """How much memory is used."""
        return self.seen.level

    @property
    def works_unexplained(self) -> bool:
        """Whether it works harder than a display would; by its power where nothing else tells."""
        return self.seen.over.load or (not self.measured and self.seen.over.power)

    @property
    def living(self) -> tuple[Process, ...]:
        """The crowd without those that are dead or cannot be woken."""
        return tuple([process for process in self.crowd if process.condition is None])


Rule = Callable[[Case], Ruling | None]


def ask(rules: Sequence[Rule], case: Case) -> Ruling | None:
    """The first answer that one of the rules has."""
    for rule in rules:
        ruling = rule(case)
        if ruling is not None:
            return ruling
    return None


def case_of(
    subject: Gpu | Instance,
    gpu: Gpu,
    seen: Seen,
    now: float,
    settings: Thresholds,
    verdicts: tuple[Verdict, ...] = (),
) -> Case:
    """The case of one subject at one time."""
    processes = subject.processes
    crowd = tuple([one for one in processes if not is_mps_server(one)]) if processes else ()
    return Case(subject, gpu, seen, now, settings, crowd, verdicts)
