"""Notes on a verdict: remarks that do not change the state."""

from fleet_smi.model.fleet import Note
from fleet_smi.model.units import GIB, format_size
from fleet_smi.model.verdict.readings import total_memory, used_memory
from fleet_smi.model.verdict.verdict_input import VerdictInput


def notes_for(inputs: VerdictInput) -> tuple[Note, ...]:
    """Return the notes on a device, in a fixed order."""
    group, used = inputs.group, inputs.subject.memory_used_bytes
    notes, held = group.notes, group.memory_bytes
    # A cheap test first: this runs for every GPU of every report.
    if group.has_members and used is not None and held is not None and used - held > GIB:
        notes += _unaccounted(inputs, held)
    if inputs.window.full_from is not None:
        notes += _stalled(inputs)
    return notes


def _unaccounted(inputs: VerdictInput, held: int) -> tuple[Note, ...]:
    """Note memory that no process accounts for, beyond what contexts take unaccounted."""
    used, ceiling = used_memory(inputs.subject), inputs.thresholds.memory_ceiling
    # Processes that are only counted account for some of it, nobody knows for how much.
    if used is None or inputs.gpu.memory_shared or inputs.subject.more_processes:
        return ()
    if used - held <= ceiling(total_memory(inputs.subject)):
        return ()
    more = format_size(used - held)
    return (Note("unaccounted", f"{more} more than its processes account for"),)


def _stalled(inputs: VerdictInput) -> tuple[Note, ...]:
    stalled = inputs.window.stalled_seconds
    if stalled is None or stalled < inputs.thresholds.idle_window_seconds:
        return ()
    return (Note("stalled", "100 % busy at idle power: probably stalled"),)
