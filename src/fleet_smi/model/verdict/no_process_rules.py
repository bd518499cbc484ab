"""Verdict rules for a GPU without listed processes: judged by memory, utilisation and power."""

from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.readings import memory_omitted_by
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput


def unaccounted_memory(inputs: VerdictInput) -> RuleResult | None:
    """`ghost`: much memory is used; `busy` if a process that cannot be seen works there."""
    window = inputs.window
    if window.level != "high":
        return None
    # Work anywhere in the idle window counts: a hidden process that pauses is no ghost.
    if inputs.worked_lately if inputs.measured else window.over.power:
        return _hidden_process(inputs)
    reason = f"{reasons.format_used_memory(inputs.subject)} used, no process accounts for it"
    return RuleResult("ghost", reasons.mark_single_sample(reason, window.samples))


def unattributed_load(inputs: VerdictInput) -> RuleResult | None:
    """`busy`: little memory is used, but it works."""
    return _hidden_process(inputs) if inputs.has_unattributed_load else None


def not_in_use(inputs: VerdictInput) -> RuleResult:
    """`free`, or `unknown` where memory cannot be read."""
    if inputs.window.level == "unknown":
        return _without_memory(inputs)
    return RuleResult("free", _why_free(inputs))


def unreadable_list_with_memory_in_use(inputs: VerdictInput) -> RuleResult | None:
    """`held` once idle for the window, `busy` before: the list of processes was refused."""
    if inputs.window.level != "high":
        return None
    idle, size = inputs.window.idle_seconds, reasons.format_used_memory(inputs.subject)
    if idle is not None and idle >= inputs.thresholds.idle_window_seconds:
        reason = f"{_unlisted(inputs)}; idle for {format_duration(idle)}, {size} allocated"
        return RuleResult("held", reason, idle)
    reason = f"in use, {size}; {_unlisted(inputs)}"
    return RuleResult("busy", reasons.mark_single_sample(reason, inputs.window.samples))


def unreadable_list_with_load(inputs: VerdictInput) -> RuleResult | None:
    """`busy`: the list of processes was refused, and it works."""
    if not inputs.window.over.load:
        return None
    reason = f"in use, {reasons.format_load(inputs.window.median)}; {_unlisted(inputs)}"
    return RuleResult("busy", reasons.mark_single_sample(reason, inputs.window.samples))


def unreadable_list(inputs: VerdictInput) -> RuleResult:
    """`free` only where both memory and utilisation were read and are low."""
    if inputs.window.level == "unknown":
        if inputs.gpu.vendor != "nvidia" and _idle_without_memory(inputs):
            reason = f"idle; processes not readable, {_memory_text(inputs)}"
            return RuleResult("free", reasons.mark_single_sample(reason, inputs.window.samples))
        # The table shows the host's memory: it was read, and says nothing.
        what = "utilisation" if inputs.gpu.memory_shared else "memory"
        return RuleResult("unknown", f"neither processes nor {what} readable: cannot tell")
    if not inputs.measured:
        return RuleResult("unknown", "neither processes nor utilisation readable: cannot tell")
    return RuleResult("free", f"{_unlisted(inputs)}; memory and utilisation show no use")


def _unlisted(inputs: VerdictInput) -> str:
    """Why no process is listed."""
    return "not visible from here" if inputs.gpu.processes_hidden else "processes not readable"


def _memory_text(inputs: VerdictInput) -> str:
    """Why the memory in use says nothing; a reason must not contradict the table beside it."""
    return "memory shared with the host" if inputs.gpu.memory_shared else "memory not readable"


def _idle_without_memory(inputs: VerdictInput) -> bool:
    """Whether utilisation alone shows that nobody uses a card whose memory cannot be read.

    NVIDIA's driver has the memory of every card that has some: there it is a failure.
    """
    window = inputs.window
    if inputs.gpu.vendor == "nvidia" or window.measured_at is None:
        return False
    # One sample covers a moment only: a little load in it is noise.
    is_noise = window.samples == 1 and (window.load or 0.0) < inputs.thresholds.noise_percent
    return is_noise or window.idle_from is not None


def _without_memory(inputs: VerdictInput) -> RuleResult:
    # An older tool that never reports memory did list the processes and the load: its users would
    # otherwise be offered no GPU at all until every machine has an agent.
    tool = memory_omitted_by(inputs.subject)
    if tool is not None and inputs.measured:
        reason = f"no process and no load, as reported by {tool}, which does not report memory"
        return RuleResult("free", reasons.mark_single_sample(reason, inputs.window.samples))
    if _idle_without_memory(inputs):
        reason = f"nobody on it; idle, {_memory_text(inputs)}"
        return RuleResult("free", reasons.mark_single_sample(reason, inputs.window.samples))
    return RuleResult("unknown", "memory not readable: cannot tell")


def _hidden_process(inputs: VerdictInput) -> RuleResult:
    reason = reasons.IN_USE_BY_HIDDEN_PROCESS
    return RuleResult("busy", reasons.mark_single_sample(reason, inputs.window.samples))


def _why_free(inputs: VerdictInput) -> str:
    if inputs.subject.processes:
        return "MPS server, no client" if inputs.group.has_mps_server else "system services only"
    if inputs.gpu.memory_shared:
        return "memory shared with the host; nobody on it"
    window = inputs.window
    # The first read of an idle GPU is known to show up to 100 %: more samples will correct it.
    if window.samples == 1 and (window.median or 0.0) >= inputs.thresholds.display_percent:
        return reasons.mark_single_sample("nobody on it", 1)
    return "nobody on it"
