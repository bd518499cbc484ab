"""The rules of use: who is on a GPU, and whether they do anything there."""

from fleet_smi.model import reasons
from fleet_smi.model.case import Case, Ruling
from fleet_smi.model.crowd import members_of
from fleet_smi.model.units import format_duration


def ruling(case: Case) -> Ruling:
    """Judge by the processes that are listed, and by memory and utilisation where none is."""
    if not case.crowd.somebody:
        return _no_process(case)
    display = None if case.crowd.computes else _display(case)
    return display or _at_work(case) or _stuck(case) or _idle(case) or _unmeasured(case)


def _no_process(case: Case) -> Ruling:
    """Judge by memory and utilisation alone, since no process is listed."""
    if case.subject.processes is None:
        return _unlisted(case)
    if case.seen.level == "high":
        return _ghost(case)
    if case.works_unexplained:
        return Ruling("busy", reasons.once(reasons.IN_USE_UNSEEN, case.seen.samples))
    if case.seen.level == "unknown":
        return Ruling("unknown", "memory not readable: cannot tell")
    return Ruling("free", _nobody(case))


def _nobody(case: Case) -> str:
    if case.subject.processes:
        return "MPS server, no client"
    if case.gpu.memory_shared:
        return "memory shared with the host; nobody on it"
    if case.seen.samples == 1 and (case.seen.median or 0.0) >= case.settings.display_percent:
        return reasons.once("nobody on it", 1)
    return "nobody on it"


def _ghost(case: Case) -> Ruling:
    """Memory is used and no process accounts for it: is somebody unseen at work?"""
    seen = case.seen
    worked = _worked_lately(case) if case.measured else seen.over.power
    if worked:
        return Ruling("busy", reasons.once(reasons.IN_USE_UNSEEN, seen.samples))
    words = f"{reasons.size_used(case.subject)} used, no process accounts for it"
    return Ruling("ghost", reasons.once(words, seen.samples))


def _worked_lately(case: Case) -> bool:
    worked_at = case.seen.worked_at
    return worked_at is not None and case.now - worked_at < case.settings.idle_window_seconds


def _unlisted(case: Case) -> Ruling:
    """The list of processes could not be read."""
    if case.seen.level == "high":
        return _unlisted_in_use(case)
    if case.seen.over.load:
        words = f"in use, {reasons.percent(case.seen.median)}; processes not readable"
        return Ruling("busy", reasons.once(words, case.seen.samples))
    if case.seen.level == "unknown":
        return Ruling("unknown", "neither processes nor memory readable: cannot tell")
    if not case.measured:
        return Ruling("unknown", "neither processes nor utilisation readable: cannot tell")
    return Ruling("free", "processes not readable; memory and utilisation say nobody")


def _unlisted_in_use(case: Case) -> Ruling:
    idle, size = case.seen.idle_seconds, reasons.size_used(case.subject)
    if idle is not None and idle >= case.settings.idle_window_seconds:
        words = f"processes not readable; idle for {format_duration(idle)}, {size} kept"
        return Ruling("held", words, idle)
    return Ruling(
        "busy", reasons.once(f"in use, {size}; processes not readable", case.seen.samples)
    )


def _display(case: Case) -> Ruling | None:
    """Nothing but displays: free unless they use much memory or work hard."""
    if not case.works_unexplained:
        if case.seen.level == "low":
            return Ruling("free", "display only")
        if case.seen.level == "unknown":
            return Ruling("unknown", "display only; memory not readable: cannot tell")
    if case.crowd.windowed:
        # A windowing driver tells nothing of one process: it cannot be said to hold anything.
        words = f"{_holding(case)}, {reasons.percent(case.seen.load)}"
        return Ruling("busy", words)
    return None


def _at_work(case: Case) -> Ruling | None:
    seen, name = case.seen, case.crowd.name
    if seen.measured_at is None or seen.idle_from is not None:
        return None
    if name == reasons.UNSEEN:
        return Ruling("busy", reasons.IN_USE_UNSEEN)
    return Ruling("busy", f"{name}, {reasons.percent(seen.load)}")


def _stuck(case: Case) -> Ruling | None:
    """Nobody alive, yet the memory is held."""
    if case.crowd.living:
        return None
    members = members_of(case.subject.processes)
    zombie = any(process.condition == "zombie" for process in members)
    if not zombie and (_worked_lately(case) or _just_started(case)):
        return None  # a working process waits for a disk now and then
    words = reasons.stuck(case.subject, members)
    return Ruling("ghost", words if zombie else reasons.once(words, case.seen.samples))


def _idle(case: Case) -> Ruling | None:
    """Someone is there and does nothing: held once that has lasted the window."""
    idle = case.seen.idle_seconds
    if not case.measured or idle is None:
        return None
    name, window = case.crowd.name, case.settings.idle_window_seconds
    if idle >= window:
        return Ruling("held", f"{name}, idle for {format_duration(idle)}{_kept(case)}", idle)
    if _just_started(case):
        ago = format_duration(case.now - (case.seen.joined_at or case.now))
        return Ruling("busy", f"{name}, started {ago} ago", idle)
    if case.seen.samples == 1:
        words = f"{name}, {reasons.percent(case.seen.load)}{_kept(case)}"
        return Ruling("busy", reasons.once(words, 1))
    held_after = format_duration(window)
    return Ruling(
        "busy", f"{name}, idle for {format_duration(idle)} (held after {held_after})", idle
    )


def _unmeasured(case: Case) -> Ruling:
    """Utilisation cannot be told: idle power over the window is the next best witness."""
    low = case.seen.low_power_seconds
    if low is not None and low >= case.settings.idle_window_seconds:
        idle = f"judged by power: idle for {format_duration(low)}"
        return Ruling("held", f"{case.crowd.name}, {idle}{_kept(case)}", low)
    words = f"utilisation not measurable; {_holding(case)}"
    return Ruling("busy", words if low is None else reasons.once(words, case.seen.samples))


def _just_started(case: Case) -> bool:
    """Whether the youngest process came within the window and has not worked yet."""
    joined_at, worked_at = case.seen.joined_at, case.seen.worked_at
    if joined_at is None or case.now - joined_at >= case.settings.idle_window_seconds:
        return False
    return worked_at is None or worked_at < joined_at


def _holding(case: Case) -> str:
    """Who is on it and with how much: "alice, 20.0 GiB"."""
    size = reasons.size_held(case.crowd.named_memory_bytes, case.subject)
    return case.crowd.name if size is None else f"{case.crowd.name}, {size}"


def _kept(case: Case) -> str:
    """What they keep: ", 16.2 GiB kept"; nothing where unknown."""
    size = reasons.size_held(case.crowd.named_memory_bytes, case.subject)
    return "" if size is None else f", {size} kept"
