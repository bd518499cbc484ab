"""The verdict on a GPU: judge one sample and its window, then apply silence and leases.

This is the entry to the folder: `rules.py` lists the rules in the order of evaluation.
Silence and leases come after the rules: they replace a verdict, and do not change how it is made.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu, Instance, Lease
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.notes import notes_for
from fleet_smi.model.verdict.process_group import summarize_processes, user_processes
from fleet_smi.model.verdict.rules import apply_rules
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.verdict.verdict_input import VerdictInput
from fleet_smi.model.verdict.window import Window, add_sample

__all__ = [
    "DEFAULT_THRESHOLDS",
    "Lease",
    "Thresholds",
    "apply_lease",
    "apply_silence",
    "decide",
    "judge",
    "judge_instance",
    "silence_timeout",
]


def judge(
    gpu: Gpu,
    window: Window,
    now: float,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    *,
    instance_verdicts: Sequence[Verdict] | None = None,
    lease: Lease | None = None,
    silent_seconds: float | None = None,
    previous: Verdict | None = None,
) -> Verdict:
    """Judge a GPU by its latest sample `gpu` and by the `window` up to it.

    `instance_verdicts` are those on its MIG instances, in order; where they are not given, each
    instance is judged by this one sample. `previous` is the verdict before this one: `since` is
    carried over from it while the state stays. `silent_seconds` is given when its node is silent.
    """
    verdicts: tuple[Verdict, ...] = ()
    if gpu.instances:
        given = instance_verdicts is not None and len(instance_verdicts) == len(gpu.instances)
        verdicts = tuple(instance_verdicts or ()) if given else _judge_each(gpu, now, thresholds)
    group = summarize_processes(gpu.processes)
    inputs = VerdictInput(gpu, gpu, window, now, thresholds, group, verdicts)
    return _judge(inputs, previous, lease, silent_seconds)


def judge_instance(
    instance: Instance,
    gpu: Gpu,
    window: Window,
    now: float,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    *,
    lease: Lease | None = None,
    silent_seconds: float | None = None,
    previous: Verdict | None = None,
) -> Verdict:
    """Judge one MIG instance of `gpu`; a fault of the GPU is a fault of each of its instances."""
    group = summarize_processes(instance.processes)
    inputs = VerdictInput(instance, gpu, window, now, thresholds, group)
    return _judge(inputs, previous, lease, silent_seconds)


def decide(inputs: VerdictInput, previous: Verdict | None) -> Verdict:
    """Make a verdict from the first rule that applies and the lease of the device, if any."""
    result = apply_rules(inputs)
    reason = result.reason
    if inputs.gpu.reported_by is not None and "as reported by" not in reason:
        reason = f"{reason} (as reported by {inputs.gpu.reported_by})"
    state, since = result.state, inputs.now
    if previous is not None and previous.state == state:
        since = previous.since
    verdict = Verdict(
        state=state,
        reason=reason,
        since=since,
        notes=notes_for(inputs),
        idle_seconds=result.idle_seconds,
    )
    lease = inputs.subject.lease
    return verdict if lease is None else _apply_own_lease(verdict, lease, inputs, previous)


def apply_silence(
    verdict: Verdict, subject: Gpu | Instance, seconds: float, since: float
) -> Verdict:
    """Return the verdict once its node is silent: broken stays broken, all else is unknown."""
    if verdict.state == "broken":
        return verdict
    was = reasons.describe_last_known(verdict.state, user_processes(subject))
    reason = f"silent for {format_duration(seconds)}; was {was}"
    # Silence does not restart the clock of a GPU that was unknown already.
    since = verdict.since if verdict.state == "unknown" else since
    return Verdict(state="unknown", reason=reason, since=since, was=was)


def apply_lease(verdict: Verdict, lease: Lease, now: float) -> Verdict:
    """Return the verdict under a lease: leased, unless work is visible or the GPU is broken."""
    if verdict.state not in ("free", "unknown"):
        return verdict
    since = min(lease.taken_at, now)
    reason = f"taken by {lease.holder} {format_duration(now - since)} ago"
    if lease.scheduler is not None:
        # A GPU is unused since its last process, but not since before it was allocated.
        unused = now - max(since, min(verdict.since, now)) if verdict.state == "free" else 0.0
        reason = reasons.describe_allocation(lease.scheduler, lease.holder, lease.job, unused)
    elif lease.note:
        reason = f"{reason}: {lease.note}"
    return Verdict(state="leased", reason=reason, since=since, notes=verdict.notes)


def _apply_own_lease(
    verdict: Verdict, lease: Lease, inputs: VerdictInput, previous: Verdict | None
) -> Verdict:
    """Apply the lease that its node reports, whose times are by the clock of the node."""
    here = replace(lease, taken_at=lease.taken_at + inputs.window.skew)
    leased = apply_lease(verdict, here, inputs.now)
    if leased.state == "leased" and previous is not None and previous.state == "leased":
        # `since` never moves back: the state may have been settled by a later sample.
        return replace(leased, since=max(leased.since, min(previous.since, inputs.now)))
    return leased


def silence_timeout(interval_seconds: float | None, thresholds: Thresholds) -> float | None:
    """Return the seconds without a report after which a node is silent; `None`: it never is."""
    # Not `<= 0`: NaN is no interval either.
    if interval_seconds is None or not interval_seconds > 0:
        return None
    return interval_seconds * thresholds.silent_after_intervals


def _judge(
    inputs: VerdictInput,
    previous: Verdict | None,
    lease: Lease | None,
    silent_seconds: float | None,
) -> Verdict:
    verdict = decide(inputs, previous)
    if silent_seconds is not None:
        return apply_silence(previous or verdict, inputs.subject, silent_seconds, inputs.now)
    return verdict if lease is None else apply_lease(verdict, lease, inputs.now)


def _judge_each(gpu: Gpu, now: float, thresholds: Thresholds) -> tuple[Verdict, ...]:
    """Judge its instances where only this one sample is known."""
    verdicts = []
    for instance in gpu.instances:
        window = add_sample(None, instance, now, thresholds, parent=gpu)
        verdicts.append(judge_instance(instance, gpu, window, now, thresholds))
    return tuple(verdicts)
