"""The WHO column: who or what is on a GPU, in as many words as there is room for."""

from collections.abc import Sequence

from fleet_smi.model.fleet import JudgedDevice, JudgedGpu
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner, owners
from fleet_smi.model.snapshot import Fault, Process
from fleet_smi.model.units import format_size
from fleet_smi.terminal.paint import display_width, truncate
from fleet_smi.terminal.view.formatting import SEPARATOR, format_elapsed, pluralize

TextVariants = tuple[str, ...]
"""One meaning in several lengths, the longest first."""

_WORTH_TELLING_SECONDS = 60


def longest_fitting(variants: TextVariants, columns: int) -> str:
    """The longest wording that fits; the shortest, cut, when none does."""
    for wording in variants:
        if display_width(wording) <= columns:
            return wording
    return truncate(variants[-1], columns)


def holder_variants(device: JudgedDevice) -> TextVariants:
    """Who is on a GPU or an instance of one, or why nobody can be."""
    verdict = device.verdict
    if verdict.state in ("broken", "unknown") and isinstance(device, JudgedGpu) and device.fault:
        return (fault_text(device.fault),)
    if verdict.state == "free":
        return _free(device)
    if verdict.state == "ghost" and not device.processes and device.memory_used_bytes is not None:
        kept = f"{format_size(device.memory_used_bytes)} unaccounted"
        return (f"nobody: {kept}", kept)
    if isinstance(device, JudgedGpu) and device.instances:
        return (verdict.reason, _instances_free(device))
    if verdict.state in ("busy", "held") and device.processes:
        return _people(device, device.processes)
    return (verdict.reason,)


def _instances_free(gpu: JudgedGpu) -> str:
    free = sum(one.verdict.state == "free" for one in gpu.instances)
    return f"{free} of {pluralize(len(gpu.instances), 'instance')} free"


def fault_text(fault: Fault) -> str:
    """The kind of fault, then the driver's own words, without saying the same twice."""
    kind = fault.kind.replace("_", " ")
    if kind in fault.detail.lower():
        return fault.detail
    return f"{kind}: {fault.detail}" if fault.detail else kind


def _free(part: JudgedDevice) -> TextVariants:
    if isinstance(part, JudgedGpu) and part.asleep:
        return ("asleep",)
    # Nobody there needs no words; anybody or anything that does not count does.
    plain = part.processes is not None and not part.processes
    if not plain:
        return (part.verdict.reason,)
    return (SEPARATOR.join(note.words for note in part.verdict.notes),)


def _people(part: JudgedDevice, processes: Sequence[Process]) -> TextVariants:
    users = owners(processes)
    unseen = sum(owner(process) == HIDDEN_USER for process in compute_or_all_processes(processes))
    idle = part.verdict.idle_seconds
    idle_words = [f"idle {format_elapsed(idle)}"] if idle and idle >= _WORTH_TELLING_SECONDS else []
    # The names in front say how many share it, and how many cannot be seen.
    notes = [note.words for note in part.verdict.notes if note.kind not in ("shared", "hidden")]
    return tuple(
        SEPARATOR.join([*names, *idle_words, *hidden, *notes])
        for names, hidden in zip(_names(users), _hidden(unseen, alone=not users), strict=True)
    )


def _names(users: Sequence[str]) -> tuple[list[str], ...]:
    if len(users) < 2:
        return (list(users),) * 4
    names = ", ".join(users)
    return (
        [f"{names} (shared by {len(users)})"],
        [f"{names} (shared)"],
        [f"{users[0]} and {len(users) - 1} more"],
        [f"{users[0]} +{len(users) - 1}"],
    )


def _hidden(count: int, *, alone: bool) -> tuple[list[str], ...]:
    if not count:
        return ([],) * 4
    plus = "" if alone else "+"
    short = [f"{plus}{count} unseen"]
    return [f"{plus}{pluralize(count, 'process')} you may not see"], short, short, short
