"""Remarks on a verdict that do not change the state."""

from fleet_smi.model.case import Case
from fleet_smi.model.fleet import Note
from fleet_smi.model.readings import is_display, processes_memory, total_memory, used_memory
from fleet_smi.model.units import GIB, format_size


def notes_on(case: Case) -> tuple[Note, ...]:
    """What else is worth knowing, in a fixed order."""
    if not case.crowd and case.seen.full_from is None:
        return ()
    notes = [_shared(case), _unseen(case)] if len(case.crowd) > 1 else []
    notes += [_unaccounted(case), _stalled(case)]
    return tuple([note for note in notes if note])


def _shared(case: Case) -> Note | None:
    """Several people; a display server beside someone who computes is not one of them."""
    people = [one for one in case.crowd if not is_display(one)] or case.crowd
    users = {one.user or one.uid for one in people} - {None, ""}
    return Note("shared", f"shared by {len(users)}") if len(users) > 1 else None


def _unseen(case: Case) -> Note | None:
    # Of a single one the reason already says it.
    count = sum(process.hidden for process in case.crowd)
    if not count:
        return None
    return Note("hidden", f"{count} {'process' if count == 1 else 'processes'} cannot be seen")


def _unaccounted(case: Case) -> Note | None:
    """Memory that the processes do not explain; contexts cost some that no driver books."""
    if not case.crowd or case.gpu.memory_shared:
        return None
    used, held = used_memory(case.subject), processes_memory(case.subject.processes or ())
    if used is None or held is None or used - held <= GIB:
        return None
    if used - held <= case.settings.memory_ceiling(total_memory(case.subject)):
        return None
    more = format_size(used - held)
    return Note("unaccounted", f"{more} more than its processes account for")


def _stalled(case: Case) -> Note | None:
    stalled = case.seen.stalled_seconds
    if stalled is None or stalled < case.settings.idle_window_seconds:
        return None
    return Note("stalled", "100 % busy at idle power: probably stalled")
