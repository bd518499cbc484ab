"""Hysteresis of verdicts: noise around a threshold must not make a GPU flap between states."""

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.judge import decide
from fleet_smi.model.verdict.process_group import EMPTY_GROUP, ProcessGroup, summarize_processes
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.verdict_input import VerdictInput
from fleet_smi.model.verdict.window import Window, add_sample, shift_window


# Part of the checkpoint of a node: what is on disk keeps the names that it was written with.
class Standing(Struct, frozen=True, gc=False, rename={"window": "seen", "group": "crowd"}):
    """The window of one GPU or instance, and its current verdict, after hysteresis.

    `disagreed` counts the latest samples in a row whose state is not that of the verdict;
    `candidate` is the state of the last of them, and `candidate_from` when it began.
    """

    window: Window
    verdict: Verdict
    group: ProcessGroup = EMPTY_GROUP
    disagreed: int = 0
    candidate: State | None = None
    candidate_from: float = 0.0


class SampleTiming(Struct, frozen=True, gc=False):
    """When a sample was received, by the receiver's clock, and how often samples come.

    `skew` is the seconds by which that clock is ahead of the node's.
    """

    at: float
    interval_seconds: float | None = None
    skew: float = 0.0


def apply_sample(
    standing: Standing | None,
    subject: Gpu | Instance,
    gpu: Gpu,
    timing: SampleTiming,
    thresholds: Thresholds,
    instance_verdicts: tuple[Verdict, ...] = (),
) -> Standing:
    """Add one more sample to the window, judge it, and return the standing after it.

    `subject` is `gpu` itself, with the verdicts on its instances, or one of its instances.
    """
    at, interval, skew = timing.at, timing.interval_seconds, timing.skew
    if standing is None:
        before, previous, group = None, None, summarize_processes(subject.processes)
    else:
        group = summarize_processes(subject.processes, standing.group)
        before, previous = standing.window, standing.verdict
    window = add_sample(before, subject, at, thresholds, gpu, interval, skew, group)
    inputs = VerdictInput(subject, gpu, window, at, thresholds, group, instance_verdicts)
    verdict = decide(inputs, previous)
    if verdict.state == "broken" and group.pids is None and standing is not None:
        verdict = _with_last_known(verdict, standing)
    return apply_hysteresis(standing, window, verdict, group, thresholds)


def _with_last_known(verdict: Verdict, standing: Standing) -> Verdict:
    """Add who was on a GPU whose processes can no longer be read: a reset needs their consent."""
    before = standing.verdict
    was = before.was if before.state == "broken" else None
    if before.state in ("busy", "held") and standing.group.name:
        was = f"{before.state} ({standing.group.name})"
    return (
        verdict if was is None else replace(verdict, was=was, reason=f"{verdict.reason}; was {was}")
    )


def apply_hysteresis(
    standing: Standing | None,
    window: Window,
    verdict: Verdict,
    group: ProcessGroup,
    thresholds: Thresholds,
) -> Standing:
    """Replace the current verdict, or keep it until the new state has lasted.

    Processes that come or go, faults and modes change the state immediately, except to ghost; a
    reading that crossed a threshold must disagree with it `settle_samples` times in a row.
    """
    # After a long gap (one sample) the earlier state is no evidence against the new one.
    if standing is None or verdict.state == standing.verdict.state or window.samples == 1:
        return Standing(window, verdict, group)
    if window.changed and not _may_follow_an_exit(standing.verdict, verdict):
        return Standing(window, verdict, group)
    same_candidate = standing.candidate == verdict.state
    candidate_from = standing.candidate_from if same_candidate else window.last_at
    # Counted over all candidates: two alternating states must not keep a third one in force.
    disagreed = standing.disagreed + 1
    if disagreed >= thresholds.settle_samples:
        # The state began with its first sample, not with the one that settled it.
        return Standing(window, replace(verdict, since=candidate_from), group)
    return Standing(window, standing.verdict, group, disagreed, verdict.state, candidate_from)


def _may_follow_an_exit(before: Verdict, now: Verdict) -> bool:
    # Memory is often freed a moment after its process ended: not every exit leaves a ghost.
    return now.state == "ghost" and before.state in ("busy", "held", "free")


def shift_standing(standing: Standing, seconds: float) -> Standing:
    """Return the standing with all times moved, because the receiver's clock was set."""
    return replace(
        standing,
        window=shift_window(standing.window, seconds),
        verdict=replace(standing.verdict, since=standing.verdict.since + seconds),
        candidate_from=standing.candidate_from + seconds,
    )
