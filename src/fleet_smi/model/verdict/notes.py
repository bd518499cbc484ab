"""Remarks on a verdict that do not change the state."""

from fleet_smi.model.fleet import Note
from fleet_smi.model.units import GIB, format_size
from fleet_smi.model.verdict.readings import total_memory, used_memory
from fleet_smi.model.verdict.verdict_input import VerdictInput


def notes_for(inputs: VerdictInput) -> tuple[Note, ...]:
    """What else is worth knowing, in a fixed order."""
    crowd, used = inputs.group, inputs.subject.memory_used_bytes
    notes, held = crowd.notes, crowd.memory_bytes
    if crowd.somebody and used is not None and held is not None and used - held > GIB:
        notes += _unaccounted(inputs, held)
    if inputs.window.full_from is not None:
        notes += _stalled(inputs)
    return notes


def _unaccounted(case: VerdictInput, held: int) -> tuple[Note, ...]:
    """Memory that the processes do not explain; contexts cost some that no driver books."""
    used, ceiling = used_memory(case.subject), case.settings.memory_ceiling
    if used is None or case.gpu.memory_shared:
        return ()
    if used - held <= ceiling(total_memory(case.subject)):
        return ()
    more = format_size(used - held)
    return (Note("unaccounted", f"{more} more than its processes account for"),)


def _stalled(case: VerdictInput) -> tuple[Note, ...]:
    stalled = case.window.stalled_seconds
    if stalled is None or stalled < case.settings.idle_window_seconds:
        return ()
    return (Note("stalled", "100 % busy at idle power: probably stalled"),)
