"""Text of the WHO column: who holds a GPU, in several lengths to fit the width."""

from collections.abc import Sequence

from fleet_smi.model.fleet import JudgedDevice, JudgedGpu, Note, NoteKind
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner, owners
from fleet_smi.model.snapshot import Fault, Process
from fleet_smi.model.units import format_elapsed, format_size, pluralize
from fleet_smi.terminal.paint import display_width, truncate
from fleet_smi.terminal.view.formatting import SEPARATOR

TextVariants = tuple[str, ...]
"""The same statement in several lengths, longest first."""

_SHORT_NOTES: dict[NoteKind, str] = {
    "throttled": "throttled",
    "memory_errors": "memory errors",
    "reset_pending": "reset when idle",
    "booked": "booked",
}
_MIN_IDLE_SECONDS = 60  # a shorter pause is not worth showing


def longest_fitting(variants: TextVariants, columns: int) -> str:
    """Return the longest variant that fits; if none does, the shortest, truncated."""
    for variant in variants:
        if display_width(variant) <= columns:
            return variant
    return truncate(variants[-1], columns)


def holder_variants(device: JudgedDevice) -> TextVariants:
    """Return who holds a GPU or MIG instance, or why it cannot be used."""
    verdict = device.verdict
    if verdict.state in ("broken", "unknown") and isinstance(device, JudgedGpu) and device.fault:
        return _fault_variants(device, device.fault)
    if verdict.state == "free":
        return _free_variants(device)
    if verdict.state == "ghost" and not device.processes and device.memory_used_bytes is not None:
        memory = f"{format_size(device.memory_used_bytes)} unaccounted"
        return (*_note_variants([f"nobody: {memory}"], verdict.notes), memory)
    if isinstance(device, JudgedGpu) and device.instances:
        return (*_note_variants([verdict.reason], verdict.notes), _free_instances(device))
    if verdict.state in ("busy", "held") and device.processes:
        return _user_variants(device, device.processes)
    return _note_variants([verdict.reason], verdict.notes)


def _fault_variants(gpu: JudgedGpu, fault: Fault) -> TextVariants:
    """Return what is wrong, and who is on it: whoever resets it has to ask them first."""
    text, kind = fault_text(fault), fault.kind.replace("_", " ")
    users = () if gpu.processes is None else owners(gpu.processes)
    if users:
        names = [SEPARATOR.join(variant) for variant in _name_variants(users)]
        return (f"{text}{SEPARATOR}{names[0]}", *(f"{kind}{SEPARATOR}{name}" for name in names))
    if gpu.verdict.was:
        return (f"{text}{SEPARATOR}was {gpu.verdict.was}", f"{kind}{SEPARATOR}{gpu.verdict.was}")
    return (text,)


def _free_instances(gpu: JudgedGpu) -> str:
    free = sum(instance.verdict.state == "free" for instance in gpu.instances)
    return f"{free} of {pluralize(len(gpu.instances), 'instance')} free"


def fault_text(fault: Fault) -> str:
    """Return the kind of fault and the driver's text, without repeating one in the other."""
    kind = fault.kind.replace("_", " ")
    if kind in fault.detail.lower():
        return fault.detail
    return f"{kind}: {fault.detail}" if fault.detail else kind


def _free_variants(device: JudgedDevice) -> TextVariants:
    if isinstance(device, JudgedGpu) and device.asleep:
        return _note_variants(["asleep"], device.verdict.notes)
    # With processes that do not count (a display server), or unreadable ones, say why it is free.
    no_process = device.processes is not None and not device.processes
    if not no_process:
        return _note_variants([device.verdict.reason], device.verdict.notes)
    return _note_variants([], device.verdict.notes)


def _user_variants(device: JudgedDevice, processes: Sequence[Process]) -> TextVariants:
    idle = device.verdict.idle_seconds
    if len(processes) == 1 and processes[0].user and not (idle or device.verdict.notes):
        return (processes[0].user,)  # as nearly all GPUs in use
    users = owners(processes)
    unseen = sum(owner(process) == HIDDEN_USER for process in compute_or_all_processes(processes))
    idle_text = [f"idle {format_elapsed(idle)}"] if idle and idle >= _MIN_IDLE_SECONDS else []
    # The names already say how many users share it and how many processes are hidden.
    notes = [note for note in device.verdict.notes if note.kind not in ("shared", "hidden")]
    if len(users) == 1 and not unseen:
        return _note_variants([*users, *idle_text], notes)
    parts = [
        [*names, *idle_text, *hidden]
        for names, hidden in zip(
            _name_variants(users), _hidden_variants(unseen, alone=not users), strict=True
        )
    ]
    texts = [SEPARATOR.join([*part, *(note.words for note in notes)]) for part in parts]
    return (*texts, *_note_variants(parts[-1], notes)[1:])


def _note_variants(texts: Sequence[str], notes: Sequence[Note]) -> TextVariants:
    """Return these texts with the notes, in full and in short."""
    if not notes:
        return (SEPARATOR.join(texts),)
    full = SEPARATOR.join([*texts, *(note.words for note in notes)])
    short = SEPARATOR.join([*texts, *(_short_note(note) for note in notes)])
    return (full,) if short == full else (full, short)


def _short_note(note: Note) -> str:
    if note.kind == "idle_user":
        return f"{note.user} idle"
    return _SHORT_NOTES.get(note.kind, note.words)


def _name_variants(users: Sequence[str]) -> tuple[list[str], ...]:
    # As many variants as `_hidden_variants` returns: they are joined pairwise.
    if len(users) < 2:
        return (list(users),) * 4
    names = ", ".join(users)
    return (
        [f"{names} (shared by {len(users)})"],
        [f"{names} (shared)"],
        [f"{users[0]} and {len(users) - 1} more"],
        [f"{users[0]} +{len(users) - 1}"],
    )


def _hidden_variants(count: int, *, alone: bool) -> tuple[list[str], ...]:
    if not count:
        return ([],) * 4
    plus = "" if alone else "+"
    short = [f"{plus}{count} unseen"]
    return [f"{plus}{pluralize(count, 'process')} you may not see"], short, short, short
