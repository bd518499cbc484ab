"""The judgement: is a GPU free, and if not, why not.

`decide` asks the rules in order; the first that has something to say decides. Silence
and leases come last: they cover what was judged, and do not change how.
"""

from collections.abc import Sequence

from msgspec import Struct

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import FaultKind, Gpu, Instance, Process
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import activity, reasons
from fleet_smi.model.verdict.notes import notes_for
from fleet_smi.model.verdict.process_group import summarize_processes, without_mps_servers
from fleet_smi.model.verdict.readings import is_display, uncorrected_errors
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput
from fleet_smi.model.verdict.window import Window, observe

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

_UNKNOWN_FAULTS: tuple[FaultKind, ...] = ("mismatch", "unreadable")
# What a GPU of several instances is called: the first of these that any of them is.
_LOUDEST: tuple[State, ...] = ("busy", "held", "ghost", "broken", "unknown", "leased", "free")


class Lease(Struct, frozen=True, kw_only=True, gc=False):
    """A claim on a GPU, made before its work is visible."""

    holder: str
    taken_at: float


def judge(
    gpu: Gpu,
    window: Window,
    now: float,
    settings: Thresholds = DEFAULT_THRESHOLDS,
    *,
    instance_verdicts: Sequence[Verdict] | None = None,
    lease: Lease | None = None,
    silent_seconds: float | None = None,
    previous: Verdict | None = None,
) -> Verdict:
    """Judge a GPU by its last sample `gpu` and by all that was `seen` up to it.

    `instances` are the verdicts on its MIG instances, in order (judged by one sample when
    not given). `previous` is the verdict before this one: `since` goes on from it.
    `silent_seconds` is given when its node is silent.
    """
    verdicts: tuple[Verdict, ...] = ()
    if gpu.instances:
        known = instance_verdicts is not None and len(instance_verdicts) == len(gpu.instances)
        verdicts = tuple(instance_verdicts or ()) if known else _judge_each(gpu, now, settings)
    case = VerdictInput(
        gpu, gpu, window, now, settings, summarize_processes(gpu.processes), verdicts
    )
    return _covered(decide(case, previous), case, previous, lease, silent_seconds)


def judge_instance(
    instance: Instance,
    gpu: Gpu,
    window: Window,
    now: float,
    settings: Thresholds = DEFAULT_THRESHOLDS,
    *,
    lease: Lease | None = None,
    silent_seconds: float | None = None,
    previous: Verdict | None = None,
) -> Verdict:
    """Judge one MIG instance of `gpu`; what ails the GPU ails each of its instances."""
    case = VerdictInput(
        instance, gpu, window, now, settings, summarize_processes(instance.processes)
    )
    return _covered(decide(case, previous), case, previous, lease, silent_seconds)


def decide(inputs: VerdictInput, previous: Verdict | None) -> Verdict:
    """Judge a case: the first rule that has something to say decides."""
    ruling = _card(inputs) or _mig(inputs) or activity.apply_rules(inputs)
    same = previous is not None and previous.state == ruling.state
    return Verdict(
        state=ruling.state,
        reason=ruling.reason,
        since=previous.since if previous is not None and same else inputs.now,
        notes=() if inputs.instance_verdicts else notes_for(inputs),
        idle_seconds=ruling.idle_seconds,
    )


def apply_silence(
    verdict: Verdict, subject: Gpu | Instance, seconds: float, since: float
) -> Verdict:
    """What remains of a verdict when the node falls silent: broken stays, all else is unknown."""
    if verdict.state == "broken":
        return verdict
    was = reasons.describe_last_known(verdict.state, _everyone(subject))
    reason = f"silent for {format_duration(seconds)}; was {was}"
    since = verdict.since if verdict.state == "unknown" else since
    return Verdict(state="unknown", reason=reason, since=since, was=was)


def apply_lease(verdict: Verdict, lease: Lease, now: float) -> Verdict:
    """A verdict under a lease: where no work is visible yet, the GPU is taken all the same."""
    if verdict.state not in ("free", "unknown"):
        return verdict
    since = min(lease.taken_at, now)
    reason = f"taken by {lease.holder} {format_duration(now - since)} ago"
    return Verdict(state="leased", reason=reason, since=since)


def silence_timeout(interval_seconds: float | None, settings: Thresholds) -> float | None:
    """Seconds after which a node that reports so often is silent; `None` when it never is."""
    if interval_seconds is None or not interval_seconds > 0:
        return None
    return interval_seconds * settings.silent_after_intervals


def _fault(case: VerdictInput) -> RuleResult | None:
    gpu = case.gpu
    if gpu.fault is not None:
        state: State = "unknown" if gpu.fault.kind in _UNKNOWN_FAULTS else "broken"
        return RuleResult(state, reasons.describe_fault(gpu.fault, _fault_seconds(case)))
    errors = uncorrected_errors(gpu)
    return RuleResult("broken", reasons.describe_memory_errors(errors)) if errors else None


def _fault_seconds(case: VerdictInput) -> float | None:
    if case.gpu.fault is None or case.gpu.fault.since is None:
        return None
    since = case.gpu.fault.since + case.window.skew
    return case.now - since if 0 <= since <= case.now else None


def _closed(case: VerdictInput) -> RuleResult | None:
    mode = case.gpu.compute_mode
    if mode is None or mode.casefold() != "prohibited":
        return None
    people = _everyone(case.subject)
    still = f"; {reasons.describe_owners(people)} still on it" if people else ""
    return RuleResult("leased", f"closed by the administrator{still}")


def _asleep(case: VerdictInput) -> RuleResult | None:
    if case.gpu.asleep and not _everyone(case.gpu):
        return RuleResult("free", "asleep; not woken")
    return None


def _mig(case: VerdictInput) -> RuleResult | None:
    """A GPU cut into instances is the sum of them."""
    if not case.instance_verdicts:
        if not case.gpu.mig_mode or case.group.computes or case.subject is not case.gpu:
            return None
        unread = case.gpu.unread.get("instances")
        if unread is not None:
            return RuleResult("unknown", f"MIG instances not readable ({unread}): cannot tell")
        return RuleResult("leased", reasons.NO_MIG_INSTANCE)
    states = [verdict.state for verdict in case.instance_verdicts]
    inside = {one.pid for part in case.gpu.instances for one in part.processes or ()}
    outside = any(
        one.pid not in inside and not is_display(one)
        for one in without_mps_servers(case.gpu.processes)
    )
    state = "busy" if outside else next(one for one in _LOUDEST if one in states)
    words = reasons.describe_instances(states.count("free"), len(states), _everyone(case.gpu))
    return RuleResult(state, words)


def _card(case: VerdictInput) -> RuleResult | None:
    """What is the matter with the card itself; for most there is nothing to ask."""
    gpu = case.gpu
    sound = gpu.fault is None and not gpu.ecc_uncorrected and not gpu.asleep
    if sound and gpu.compute_mode in (None, "default"):
        return None
    return _fault(case) or _closed(case) or _asleep(case)


def _covered(
    verdict: Verdict,
    case: VerdictInput,
    previous: Verdict | None,
    lease: Lease | None,
    silent_seconds: float | None,
) -> Verdict:
    if silent_seconds is not None:
        return apply_silence(previous or verdict, case.subject, silent_seconds, case.now)
    return verdict if lease is None else apply_lease(verdict, lease, case.now)


def _everyone(subject: Gpu | Instance) -> tuple[Process, ...]:
    """Everybody on a GPU or on its instances, display servers left out, each once."""
    everyone = {one.pid: one for one in subject.processes or () if not is_display(one)}
    if isinstance(subject, Gpu):
        for instance in subject.instances:
            everyone.update({one.pid: one for one in instance.processes or ()})
    return tuple(everyone.values())


def _judge_each(gpu: Gpu, now: float, settings: Thresholds) -> tuple[Verdict, ...]:
    """The verdicts on its instances where only this one sample is known."""
    judged = []
    for one in gpu.instances:
        seen = observe(None, one, now, settings, parent=gpu)
        judged.append(judge_instance(one, gpu, seen, now, settings))
    return tuple(judged)
