"""What stands of the verdicts on one GPU: noise around a threshold must not flap it."""

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.judge import decide
from fleet_smi.model.verdict.process_group import EMPTY_GROUP, ProcessGroup, summarize_processes
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.verdict_input import VerdictInput
from fleet_smi.model.verdict.window import Window, observe


class Standing(Struct, frozen=True, gc=False):
    """What is remembered of one GPU or instance, and the verdict that stands.

    `disagreed` counts the latest samples that would have said another state than the
    standing one; `candidate` is what the last of them says, and since when.
    """

    seen: Window
    verdict: Verdict
    crowd: ProcessGroup = EMPTY_GROUP
    disagreed: int = 0
    candidate: State | None = None
    candidate_from: float = 0.0


class SampleTiming(Struct, frozen=True, gc=False):
    """When a sample came, by the watcher's clock, how often they come, and by how much that
    clock is ahead of the node's."""

    at: float
    interval_seconds: float | None = None
    skew: float = 0.0


def apply_sample(
    standing: Standing | None,
    subject: Gpu | Instance,
    gpu: Gpu,
    timing: SampleTiming,
    settings: Thresholds,
    instance_verdicts: tuple[Verdict, ...] = (),
) -> Standing:
    """Take in one more sample: remember it, judge it, and let the verdict settle.

    `subject` is `gpu` itself, with the verdicts on its `instances`, or one of these.
    """
    at, pace, skew = timing.at, timing.interval_seconds, timing.skew
    if standing is None:
        seen, previous, crowd = None, None, summarize_processes(subject.processes)
    else:
        crowd = summarize_processes(subject.processes, standing.crowd)
        seen, previous = standing.seen, standing.verdict
    seen = observe(seen, subject, at, settings, gpu, pace, skew, crowd)
    verdict = decide(
        VerdictInput(subject, gpu, seen, at, settings, crowd, instance_verdicts), previous
    )
    return apply_hysteresis(standing, seen, verdict, crowd, settings)


def apply_hysteresis(
    standing: Standing | None,
    window: Window,
    verdict: Verdict,
    group: ProcessGroup,
    settings: Thresholds,
) -> Standing:
    """Let a verdict stand, or keep the one before until the new state has lasted.

    What people and machines do (processes, faults, modes) acts at once; what a threshold
    does must disagree with the standing state `settle_samples` times in a row.
    """
    if standing is None or verdict.state == standing.verdict.state or window.samples == 1:
        return Standing(window, verdict, group)
    if window.changed and not _may_be_an_exit(standing.verdict, verdict):
        return Standing(window, verdict, group)
    goes_on = standing.candidate == verdict.state
    candidate_from = standing.candidate_from if goes_on else window.last_at
    disagreed = standing.disagreed + 1
    if disagreed >= settings.settle_samples:
        return Standing(window, replace(verdict, since=candidate_from), group)
    return Standing(window, standing.verdict, group, disagreed, verdict.state, candidate_from)


def _may_be_an_exit(before: Verdict, now: Verdict) -> bool:
    # Memory is often freed a moment after its process left: not every exit leaves a ghost.
    return now.state == "ghost" and before.state in ("busy", "held", "free")
