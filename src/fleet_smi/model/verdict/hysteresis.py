"""Hysteresis of verdicts: noise around a threshold must not make a GPU flap between states."""

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.flapping import (
    NO_RETURNS,
    Returns,
    add_return,
    forget_returns,
    hold_seconds,
    is_less_used,
    shift_returns,
)
from fleet_smi.model.verdict.judge import decide
from fleet_smi.model.verdict.process_group import EMPTY_GROUP, ProcessGroup, summarize_processes
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.verdict_input import VerdictInput
from fleet_smi.model.verdict.window import Window, add_sample, shift_window


# Part of the checkpoint of a node: what is on disk keeps the names that it was written with.
class Standing(Struct, frozen=True, gc=False, rename={"window": "seen", "group": "crowd"}):
    """The window of one GPU or instance, and its current verdict, after hysteresis.

    `disagreed` counts the latest samples in a row whose state is not that of the verdict;
    `candidate` is the state of the last of them, and `candidate_from` when it began. `ended` says
    whether a process ended in one of them, and `disagreed_from` when, or else when the first was.
    `fell` says whether the GPU was in more use before this state, and `returns` how soon its use
    came back.
    """

    window: Window
    verdict: Verdict
    group: ProcessGroup = EMPTY_GROUP
    disagreed: int = 0
    candidate: State | None = None
    candidate_from: float = 0.0
    disagreed_from: float = 0.0
    ended: bool = False
    fell: bool = False
    returns: Returns = NO_RETURNS

    @property
    def has_use_ended(self) -> bool:
        """Whether the processes that used the GPU are gone, and its state does not say so yet."""
        if not self.ended or self.candidate is None:
            return False
        return is_less_used(self.candidate, self.verdict.state)


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
        verdict = with_last_known(verdict, standing)
    return apply_hysteresis(standing, window, verdict, group, thresholds)


def with_last_known(verdict: Verdict, standing: Standing) -> Verdict:
    """Add who was on a GPU whose processes can no longer be read: a reset needs their consent."""
    before = standing.verdict
    was = before.was if before.state == "broken" else None
    if before.state in ("busy", "held") and standing.group.name:
        was = f"{before.state} ({standing.group.name})"
    return (
        verdict if was is None else replace(verdict, was=was, reason=f"{verdict.reason}. Was {was}")
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
    reading that crossed a threshold, and a slow driver, must disagree with it `settle_samples`
    times in a row, or for `settle_seconds` where samples are rare. A GPU whose use came back soon
    is not called less used again before that has lasted.
    """
    # After a long gap (one sample) the earlier state is no evidence against the new one.
    if standing is None or window.samples == 1:
        return Standing(window, verdict, group)
    returns = _returns(standing, window, verdict, thresholds)
    if verdict.state == standing.verdict.state:
        return Standing(window, verdict, group, fell=standing.fell, returns=returns)
    falls = is_less_used(verdict.state, standing.verdict.state)
    # Nor does it make work idle: which processes can be idle is not known without the list.
    seems_unused = falls or verdict.state == "held"
    if seems_unused and _is_list_missing(window, group, thresholds):
        return replace(standing, window=window, group=group)
    # Counted over all candidates: two alternating states must not keep a third one in force.
    disagreed = standing.disagreed + 1
    same_candidate = disagreed > 1 and standing.candidate == verdict.state
    candidate_from = standing.candidate_from if same_candidate else window.last_at
    ends_now = _has_use_ended(standing, window)
    ended = ends_now or (disagreed > 1 and standing.ended)
    starts_now = ends_now or disagreed == 1
    disagreed_from = window.last_at if starts_now else standing.disagreed_from
    is_event = ended if falls else window.changed
    if _may_follow_an_exit(standing.verdict, verdict) or _is_driver_slow(window):
        is_event = False
    lasted, hold = window.last_at - disagreed_from, hold_seconds(returns, thresholds, ended=ended)
    if _has_lease_ended(standing, window):
        hold = 0.0
    settled = disagreed >= thresholds.settle_samples or (
        not _is_driver_slow(window)
        and _has_lasted(standing, window, verdict, lasted, thresholds.settle_seconds)
    )
    if (is_event or settled) and not (falls and lasted < hold):
        # The state began with its first sample, not with the one that settled it.
        begun = replace(verdict, since=candidate_from)
        return Standing(window, begun, group, fell=falls, returns=returns)
    remains = standing.verdict
    if falls and ended:
        # Neither who used it nor how much is true any more.
        remains = replace(
            remains, reason=reasons.USE_HAS_ENDED, notes=(reasons.VACATED,), idle_seconds=None
        )
    return Standing(
        window,
        remains,
        group,
        disagreed,
        verdict.state,
        candidate_from,
        disagreed_from,
        ended,
        standing.fell,
        returns,
    )


def _returns(
    standing: Standing, window: Window, verdict: Verdict, thresholds: Thresholds
) -> Returns:
    """Return how soon the use came back, after this sample."""
    at, state, before = window.last_at, verdict.state, standing.verdict
    returns = standing.returns
    if returns is not NO_RETURNS:
        returns = forget_returns(returns, at, thresholds)
    if state != before.state:
        if standing.fell and is_less_used(before.state, state):
            came_back = standing.candidate_from if standing.candidate == state else at
            return add_return(returns, before.since, came_back, thresholds)
    elif standing.candidate is not None and is_less_used(standing.candidate, state):
        # It seemed to end, and came back before the state followed.
        return add_return(returns, standing.disagreed_from, at, thresholds)
    return returns


def _has_use_ended(standing: Standing, window: Window) -> bool:
    """Return whether hardware or lease changed, or a process is gone that was no mere service."""
    if not window.ended:
        return False
    group = standing.group
    # A checkpoint has no summary of the processes: which of them are services is not known then.
    is_known = bool(group.pids)
    before = standing.window
    if before.hardware != window.hardware or before.lease_holder != window.lease_holder:
        return True
    return group.computes or not is_known


def _has_lease_ended(standing: Standing, window: Window) -> bool:
    """Return whether the GPU was leased and its holder has released it: that is no flapping."""
    before = standing.window.lease_holder
    is_gone = before is not None and before != window.lease_holder
    return is_gone and standing.verdict.state == "leased"


def _is_list_missing(window: Window, group: ProcessGroup, thresholds: Thresholds) -> bool:
    """Return whether the processes cannot be read now, but could within the idle window.

    Those that were there may still be: to know less never makes a GPU more free.
    """
    if group.pids is not None or window.listed_at is None:
        return False
    return window.last_at - window.listed_at < thresholds.idle_window_seconds


def _has_lasted(
    standing: Standing, window: Window, verdict: Verdict, lasted: float, settle_seconds: float
) -> bool:
    """Return whether samples come so rarely that fewer of them settle a state.

    Work on a held GPU is believed at once then: it stays busy for an idle window, so one such
    sample cannot flap it, and a GPU at work must not be called idle until the sample after next.
    """
    if standing.verdict.state == "held" and verdict.state == "busy":
        return window.last_at - standing.window.last_at >= settle_seconds
    return lasted >= settle_seconds


def _may_follow_an_exit(before: Verdict, now: Verdict) -> bool:
    # Memory is often freed a moment after its process ended: not every exit leaves a ghost.
    return now.state == "ghost" and before.state in ("busy", "held", "free")


def _is_driver_slow(window: Window) -> bool:
    # A driver that answers late, now and then or each time, is read in between: only one that
    # stays slow is broken, like one that does not answer at all.
    return window.hardware is not None and window.hardware[0] == "slow"


def shift_standing(standing: Standing, seconds: float) -> Standing:
    """Return the standing with all times moved, because the receiver's clock was set."""
    return replace(
        standing,
        window=shift_window(standing.window, seconds),
        verdict=replace(standing.verdict, since=standing.verdict.since + seconds),
        candidate_from=standing.candidate_from + seconds,
        disagreed_from=standing.disagreed_from + seconds,
        returns=shift_returns(standing.returns, seconds),
    )
