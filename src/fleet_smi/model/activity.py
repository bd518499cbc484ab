"""The rules of use: who is on a GPU, and whether they do anything there."""

from fleet_smi.model import reasons
from fleet_smi.model.case import Case, Ruling, ask
from fleet_smi.model.readings import is_display, is_windowed, utilisation
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import format_duration


def processes(case: Case) -> Ruling | None:
    """Judge by the processes that are listed; nothing to say when there are none."""
    return ask(_OF_PROCESSES, case) if case.crowd else None


def no_process(case: Case) -> Ruling:
    """Judge by memory and utilisation alone, since no process is listed."""
    if case.subject.processes is None:
        return _unlisted(case)
    if case.level == "high":
        return _ghost(case)
    if case.works_unexplained:
        return Ruling("busy", reasons.once(reasons.IN_USE_UNSEEN, case.seen.samples))
    if case.level == "unknown":
        return Ruling("unknown", "memory not readable: cannot tell")
    return Ruling("free", _nobody(case))


def _nobody(case: Case) -> str:
    if case.subject.processes:
        return "MPS server, no client"
    if case.gpu.memory_shared:
        return "memory shared with the host; nobody on it"
    loud = (case.seen.median or 0.0) >= case.settings.display_percent
    return reasons.once("nobody on it", case.seen.samples) if loud else "nobody on it"


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
    if case.level == "high":
        return _unlisted_in_use(case)
    if case.seen.over.load:
        words = f"in use, {reasons.percent(case.seen.median)}; processes not readable"
        return Ruling("busy", reasons.once(words, case.seen.samples))
    if case.level == "unknown":
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
    for process in case.crowd:
        if not is_display(process):
            return None
    if not case.works_unexplained:
        if case.level == "low":
            return Ruling("free", "display only")
        if case.level == "unknown":
            return Ruling("unknown", "display only; memory not readable: cannot tell")
    if any(map(is_windowed, case.crowd)):
        # A windowing driver tells nothing of one process: it cannot be said to hold anything.
        words = f"{reasons.holding(case.subject, case.crowd)}, {_percent_now(case)}"
        return Ruling("busy", words)
    return None


def _at_work(case: Case) -> Ruling | None:
    if not case.measured or case.seen.idle_from is not None:
        return None
    name = reasons.who(_actors(case))
    if name == reasons.UNSEEN:
        return Ruling("busy", reasons.IN_USE_UNSEEN)
    return Ruling("busy", f"{name}, {_percent_now(case)}")


def _stuck(case: Case) -> Ruling | None:
    """Nobody alive, yet the memory is held."""
    if case.living:
        return None
    zombie = any(process.condition == "zombie" for process in case.crowd)
    if not zombie and (_worked_lately(case) or _just_started(case)):
        return None  # a working process waits for a disk now and then
    words = reasons.stuck(case.subject, case.crowd)
    return Ruling("ghost", words if zombie else reasons.once(words, case.seen.samples))


def _idle(case: Case) -> Ruling | None:
    """Someone is there and does nothing: held once that has lasted the window."""
    idle = case.seen.idle_seconds
    if not case.measured or idle is None:
        return None
    crowd, window = _actors(case), case.settings.idle_window_seconds
    name = reasons.who(crowd)
    if idle >= window:
        rest = reasons.kept(case.subject, crowd)
        return Ruling("held", f"{name}, idle for {format_duration(idle)}{rest}", idle)
    if _just_started(case):
        ago = format_duration(case.now - (case.seen.joined_at or case.now))
        return Ruling("busy", f"{name}, started {ago} ago", idle)
    if case.seen.samples == 1:
        words = f"{name}, {_percent_now(case)}{reasons.kept(case.subject, crowd)}"
        return Ruling("busy", reasons.once(words, 1))
    held_after = format_duration(window)
    return Ruling(
        "busy", f"{name}, idle for {format_duration(idle)} (held after {held_after})", idle
    )


def _unmeasured(case: Case) -> Ruling:
    """Utilisation cannot be told: idle power over the window is the next best witness."""
    crowd, low = _actors(case), case.seen.low_power_seconds
    if low is not None and low >= case.settings.idle_window_seconds:
        rest = reasons.kept(case.subject, crowd)
        words = f"{reasons.who(crowd)}, judged by power: idle for {format_duration(low)}{rest}"
        return Ruling("held", words, low)
    words = f"utilisation not measurable; {reasons.holding(case.subject, crowd)}"
    return Ruling("busy", words if low is None else reasons.once(words, case.seen.samples))


_OF_PROCESSES = (_display, _at_work, _stuck, _idle, _unmeasured)


def _just_started(case: Case) -> bool:
    """Whether the youngest process came within the window and has not worked yet."""
    joined_at, worked_at = case.seen.joined_at, case.seen.worked_at
    if joined_at is None or case.now - joined_at >= case.settings.idle_window_seconds:
        return False
    return worked_at is None or worked_at < joined_at


def _actors(case: Case) -> tuple[Process, ...]:
    """Who is to be named: the living, and no display server beside someone who computes."""
    if len(case.crowd) == 1:
        return case.crowd
    crowd = case.living or case.crowd
    return tuple([process for process in crowd if not is_display(process)]) or crowd


def _percent_now(case: Case) -> str:
    now = utilisation(case.subject, case.settings)
    return reasons.percent(now if now is not None else case.seen.median)
