"""Notes on a verdict: remarks that do not change the state."""

from fleet_smi.model.fleet import Note
from fleet_smi.model.people import owner
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.units import GIB, format_duration, format_size
from fleet_smi.model.verdict import reasons
from fleet_smi.model.verdict.lease_users import users_without_lease
from fleet_smi.model.verdict.readings import (
    total_memory,
    total_process_memory,
    uncorrected_errors,
    used_memory,
)
from fleet_smi.model.verdict.throttling import describe_throttling
from fleet_smi.model.verdict.verdict_input import VerdictInput


def notes_for(inputs: VerdictInput) -> tuple[Note, ...]:
    """Return the notes on a device, in a fixed order."""
    # Cheap tests first: this runs for every GPU of every report.
    gpu, window, group = inputs.gpu, inputs.window, inputs.group
    notes: tuple[Note, ...] = ()
    # With MIG the notes on use belong to the instances: each has its own verdict.
    if not inputs.instance_verdicts:
        notes, held, used = group.notes, group.memory_bytes, inputs.subject.memory_used_bytes
        if group.has_members and used is not None and held is not None and used - held > GIB:
            notes += _unaccounted(inputs, held)
        if window.full_from is not None:
            notes += _stalled(inputs)
        if window.idle_users:
            notes += _idle_users(inputs)
        if inputs.subject.lease is not None and group.has_members:
            notes += _without_lease(inputs.subject)
        if group.desktop:
            notes += _display(inputs)
    if window.throttled is not None and inputs.subject is gpu:
        notes += _throttled(inputs)
    if gpu.ecc_uncorrected and gpu.ecc_contained and inputs.subject is gpu:
        notes += _memory_errors(gpu)
    if gpu.reset_pending is not None and gpu.fault is None and inputs.subject is gpu:
        notes += (Note("reset_pending", f"reset when idle: {gpu.reset_pending}"),)
    return notes


def _idle_users(inputs: VerdictInput) -> tuple[Note, ...]:
    """Note who has done nothing for the window while somebody else works."""
    if inputs.window.idle_from is not None:
        return ()
    notes = []
    for user, seconds in inputs.long_idle_users:
        theirs = [process for process in inputs.subject.processes or () if owner(process) == user]
        size = total_process_memory(theirs)
        memory = "" if size is None else f", {format_size(size)} allocated"
        text = f"{user} idle for {format_duration(seconds)}{memory}"
        notes.append(Note("idle_user", text, user, seconds))
    return tuple(notes)


def _without_lease(subject: Gpu | Instance) -> tuple[Note, ...]:
    """Note who uses a GPU that somebody else has leased."""
    users = users_without_lease(subject)
    return (Note("without_lease", f"{', '.join(users)} without lease"),) if users else ()


def _display(inputs: VerdictInput) -> tuple[Note, ...]:
    """Note a desktop that uses more than nothing."""
    used = used_memory(inputs.subject)
    if used is None or used < inputs.thresholds.memory_ceiling(total_memory(inputs.subject)):
        return ()
    return (Note("display", f"display uses {format_size(used)}"),)


def _throttled(inputs: VerdictInput) -> tuple[Note, ...]:
    window = inputs.window
    if window.throttled is None:
        return ()
    since_start = window.last_at - (window.last_at if window.began_at is None else window.began_at)
    observed = min(since_start, inputs.thresholds.idle_window_seconds)
    found = describe_throttling(window.throttled, observed)
    if found is None:
        return ()
    kind, share = found
    text = f"throttled: {kind}"
    if share is None:
        return (Note("throttled", reasons.mark_single_sample(text, window.samples)),)
    return (
        Note("throttled", f"{text}, {100 * share:.0f} % of the last {format_duration(observed)}"),
    )


def _memory_errors(gpu: Gpu) -> tuple[Note, ...]:
    count = uncorrected_errors(gpu)
    noun = "error" if count == 1 else "errors"
    text = f"{count} uncorrectable memory {noun} since boot"
    return (Note("memory_errors", text),) if count else ()


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
