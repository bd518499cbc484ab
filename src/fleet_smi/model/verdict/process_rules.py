"""Verdict rules for a GPU with processes on it: display only, at work, stuck, idle."""

from fleet_smi.model.people import owner
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.process_group import without_services
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput


def display_only(inputs: VerdictInput) -> RuleResult | None:
    """`free` while displays, beside which nothing computes, use little memory and work little."""
    if not inputs.has_unattributed_load:
        if inputs.window.level == "low":
            return RuleResult("free", "display only")
        if inputs.window.level == "unknown":
            return RuleResult("unknown", "display only; memory not readable: cannot tell")
    if inputs.group.has_windowed:
        # A windowing driver has no figures per process: none can be said to hold anything.
        return RuleResult("busy", f"{_holding(inputs)}, {reasons.format_load(inputs.window.load)}")
    return None


def at_work(inputs: VerdictInput) -> RuleResult | None:
    """`busy`: utilisation is measured and not idle."""
    window, name = inputs.window, inputs.group.name
    if window.measured_at is None or window.idle_from is not None:
        return None
    if window.idle_users:
        name = _working_owners(inputs)
    if name == reasons.HIDDEN_PROCESS:
        return RuleResult("busy", reasons.IN_USE_BY_HIDDEN_PROCESS)
    return RuleResult("busy", f"{name}, {reasons.format_load(window.load)}")


def stuck(inputs: VerdictInput) -> RuleResult | None:
    """`ghost`: every process is a zombie or uninterruptible, yet memory is held."""
    if inputs.group.has_living:
        return None
    members = without_services(inputs.subject.processes)
    zombie = any(process.condition == "zombie" for process in members)
    if not zombie and (inputs.worked_lately or _just_started(inputs)):
        # A process that waits for a disk is uninterruptible too, and works again soon.
        return None
    reason = reasons.describe_stuck_process(inputs.subject, members)
    return RuleResult(
        "ghost", reason if zombie else reasons.mark_single_sample(reason, inputs.window.samples)
    )


def idle(inputs: VerdictInput) -> RuleResult | None:
    """`held` once nothing has been done for the idle window, `busy` before that."""
    idle_seconds = inputs.window.idle_seconds
    if not inputs.measured or idle_seconds is None:
        return None
    name, held_after = inputs.group.name, inputs.thresholds.idle_window_seconds
    idle_for = format_duration(idle_seconds)
    if idle_seconds >= held_after:
        return RuleResult(
            "held",
            f"{name}, idle for {idle_for}{_peak(inputs)}{_memory_suffix(inputs)}",
            idle_seconds,
        )
    if _just_started(inputs):
        ago = format_duration(inputs.now - (inputs.window.joined_at or inputs.now))
        return RuleResult("busy", f"{name}, started {ago} ago", idle_seconds)
    if inputs.window.samples == 1:
        reason = f"{name}, {reasons.format_load(inputs.window.load)}{_memory_suffix(inputs)}"
        return RuleResult("busy", reasons.mark_single_sample(reason, 1))
    idle_text = f"idle for {idle_for}" if idle_seconds >= 1.0 else "idle now"
    reason = f"{name}, {idle_text} (held after {format_duration(held_after)})"
    return RuleResult("busy", reason, idle_seconds)


def utilisation_not_measurable(inputs: VerdictInput) -> RuleResult:
    """`held` by idle power over the window where utilisation is not measured, else `busy`."""
    low = inputs.window.low_power_seconds
    if low is not None and low >= inputs.thresholds.idle_window_seconds:
        idle_for = f"judged by power: idle for {format_duration(low)}"
        return RuleResult("held", f"{inputs.group.name}, {idle_for}{_memory_suffix(inputs)}", low)
    reason = f"utilisation not measurable; {_holding(inputs)}"
    # Where power is not measured either, more samples would not say more.
    return RuleResult(
        "busy",
        reason if low is None else reasons.mark_single_sample(reason, inputs.window.samples),
    )


def _working_owners(inputs: VerdictInput) -> str:
    """Name the owners without those who have been idle for the window: a note names them."""
    idle = {user for user, _ in inputs.long_idle_users}
    members = without_services(inputs.subject.processes)
    working = [process for process in members if owner(process) not in idle]
    return reasons.describe_owners(working) if idle and working else inputs.group.name


def _peak(inputs: VerdictInput) -> str:
    """Name the highest short spike of an idle run: " but for peaks of 3 %"."""
    peak = inputs.window.peak
    return f" but for peaks of {peak:.0f} %" if peak >= inputs.thresholds.idle_percent else ""


def _just_started(inputs: VerdictInput) -> bool:
    """Whether the youngest process came within the window and has not worked yet."""
    joined_at, worked_at = inputs.window.joined_at, inputs.window.worked_at
    if joined_at is None or inputs.now - joined_at >= inputs.thresholds.idle_window_seconds:
        return False
    return worked_at is None or worked_at < joined_at


def _holding(inputs: VerdictInput) -> str:
    """Who is on it and with how much memory: "alice, 20.0 GiB"."""
    size = reasons.format_held_memory(inputs.group.named_memory_bytes, inputs.subject)
    return inputs.group.name if size is None else f"{inputs.group.name}, {size}"


def _memory_suffix(inputs: VerdictInput) -> str:
    """The memory they keep: ", 16.2 GiB allocated"; empty where unknown."""
    size = reasons.format_held_memory(inputs.group.named_memory_bytes, inputs.subject)
    return "" if size is None else f", {size} allocated"
