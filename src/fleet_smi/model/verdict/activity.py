"""The rules of use: who is on a GPU, and whether they do anything there."""

from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.process_group import without_mps_servers
from fleet_smi.model.verdict.verdict_input import RuleResult, VerdictInput


def apply_rules(inputs: VerdictInput) -> RuleResult:
    """Judge by the processes that are listed, and by memory and utilisation where none is."""
    if not inputs.group.somebody:
        return _no_process(inputs)
    display = None if inputs.group.computes else _display(inputs)
    return display or _at_work(inputs) or _stuck(inputs) or _idle(inputs) or _unmeasured(inputs)


def _no_process(case: VerdictInput) -> RuleResult:
    """Judge by memory and utilisation alone, since no process is listed."""
    if case.subject.processes is None:
        return _unlisted(case)
    if case.window.level == "high":
        return _ghost(case)
    if case.has_unattributed_load:
        return RuleResult(
            "busy",
            reasons.mark_single_sample(reasons.IN_USE_BY_HIDDEN_PROCESS, case.window.samples),
        )
    if case.window.level == "unknown":
        return RuleResult("unknown", "memory not readable: cannot tell")
    return RuleResult("free", _nobody(case))


def _nobody(case: VerdictInput) -> str:
    if case.subject.processes:
        return "MPS server, no client"
    if case.gpu.memory_shared:
        return "memory shared with the host; nobody on it"
    if case.window.samples == 1 and (case.window.median or 0.0) >= case.settings.display_percent:
        return reasons.mark_single_sample("nobody on it", 1)
    return "nobody on it"


def _ghost(case: VerdictInput) -> RuleResult:
    """Memory is used and no process accounts for it: is somebody unseen at work?"""
    seen = case.window
    worked = _worked_lately(case) if case.measured else seen.over.power
    if worked:
        return RuleResult(
            "busy", reasons.mark_single_sample(reasons.IN_USE_BY_HIDDEN_PROCESS, seen.samples)
        )
    words = f"{reasons.format_used_memory(case.subject)} used, no process accounts for it"
    return RuleResult("ghost", reasons.mark_single_sample(words, seen.samples))


def _worked_lately(case: VerdictInput) -> bool:
    worked_at = case.window.worked_at
    return worked_at is not None and case.now - worked_at < case.settings.idle_window_seconds


def _unlisted(case: VerdictInput) -> RuleResult:
    """The list of processes could not be read."""
    if case.window.level == "high":
        return _unlisted_in_use(case)
    if case.window.over.load:
        words = f"in use, {reasons.format_load(case.window.median)}; processes not readable"
        return RuleResult("busy", reasons.mark_single_sample(words, case.window.samples))
    if case.window.level == "unknown":
        return RuleResult("unknown", "neither processes nor memory readable: cannot tell")
    if not case.measured:
        return RuleResult("unknown", "neither processes nor utilisation readable: cannot tell")
    return RuleResult("free", "processes not readable; memory and utilisation say nobody")


def _unlisted_in_use(case: VerdictInput) -> RuleResult:
    idle, size = case.window.idle_seconds, reasons.format_used_memory(case.subject)
    if idle is not None and idle >= case.settings.idle_window_seconds:
        words = f"processes not readable; idle for {format_duration(idle)}, {size} kept"
        return RuleResult("held", words, idle)
    return RuleResult(
        "busy",
        reasons.mark_single_sample(f"in use, {size}; processes not readable", case.window.samples),
    )


def _display(case: VerdictInput) -> RuleResult | None:
    """Nothing but displays: free unless they use much memory or work hard."""
    if not case.has_unattributed_load:
        if case.window.level == "low":
            return RuleResult("free", "display only")
        if case.window.level == "unknown":
            return RuleResult("unknown", "display only; memory not readable: cannot tell")
    if case.group.windowed:
        # A windowing driver tells nothing of one process: it cannot be said to hold anything.
        words = f"{_holding(case)}, {reasons.format_load(case.window.load)}"
        return RuleResult("busy", words)
    return None


def _at_work(case: VerdictInput) -> RuleResult | None:
    seen, name = case.window, case.group.name
    if seen.measured_at is None or seen.idle_from is not None:
        return None
    if name == reasons.HIDDEN_PROCESS:
        return RuleResult("busy", reasons.IN_USE_BY_HIDDEN_PROCESS)
    return RuleResult("busy", f"{name}, {reasons.format_load(seen.load)}")


def _stuck(case: VerdictInput) -> RuleResult | None:
    """Nobody alive, yet the memory is held."""
    if case.group.living:
        return None
    members = without_mps_servers(case.subject.processes)
    zombie = any(process.condition == "zombie" for process in members)
    if not zombie and (_worked_lately(case) or _just_started(case)):
        return None  # a working process waits for a disk now and then
    words = reasons.describe_stuck_process(case.subject, members)
    return RuleResult(
        "ghost", words if zombie else reasons.mark_single_sample(words, case.window.samples)
    )


def _idle(case: VerdictInput) -> RuleResult | None:
    """Someone is there and does nothing: held once that has lasted the window."""
    idle = case.window.idle_seconds
    if not case.measured or idle is None:
        return None
    name, window = case.group.name, case.settings.idle_window_seconds
    if idle >= window:
        return RuleResult("held", f"{name}, idle for {format_duration(idle)}{_kept(case)}", idle)
    if _just_started(case):
        ago = format_duration(case.now - (case.window.joined_at or case.now))
        return RuleResult("busy", f"{name}, started {ago} ago", idle)
    if case.window.samples == 1:
        words = f"{name}, {reasons.format_load(case.window.load)}{_kept(case)}"
        return RuleResult("busy", reasons.mark_single_sample(words, 1))
    held_after = format_duration(window)
    return RuleResult(
        "busy", f"{name}, idle for {format_duration(idle)} (held after {held_after})", idle
    )


def _unmeasured(case: VerdictInput) -> RuleResult:
    """Utilisation cannot be told: idle power over the window is the next best witness."""
    low = case.window.low_power_seconds
    if low is not None and low >= case.settings.idle_window_seconds:
        idle = f"judged by power: idle for {format_duration(low)}"
        return RuleResult("held", f"{case.group.name}, {idle}{_kept(case)}", low)
    words = f"utilisation not measurable; {_holding(case)}"
    return RuleResult(
        "busy", words if low is None else reasons.mark_single_sample(words, case.window.samples)
    )


def _just_started(case: VerdictInput) -> bool:
    """Whether the youngest process came within the window and has not worked yet."""
    joined_at, worked_at = case.window.joined_at, case.window.worked_at
    if joined_at is None or case.now - joined_at >= case.settings.idle_window_seconds:
        return False
    return worked_at is None or worked_at < joined_at


def _holding(case: VerdictInput) -> str:
    """Who is on it and with how much: "alice, 20.0 GiB"."""
    size = reasons.format_held_memory(case.group.named_memory_bytes, case.subject)
    return case.group.name if size is None else f"{case.group.name}, {size}"


def _kept(case: VerdictInput) -> str:
    """What they keep: ", 16.2 GiB kept"; nothing where unknown."""
    size = reasons.format_held_memory(case.group.named_memory_bytes, case.subject)
    return "" if size is None else f", {size} kept"
