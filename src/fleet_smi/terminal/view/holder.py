"""The WHO column: who or what is on a GPU, in as many words as there is room for."""

from collections.abc import Sequence

from fleet_smi.model.fleet import JudgedGpu, JudgedInstance
from fleet_smi.model.people import UNSEEN, owner, owners, workers
from fleet_smi.model.snapshot import Fault, Process
from fleet_smi.model.units import format_size
from fleet_smi.terminal.paint import fit, width
from fleet_smi.terminal.view.words import DOT, counted, duration

Part = JudgedGpu | JudgedInstance
Wordings = tuple[str, ...]
"""One meaning in several lengths, the longest first."""

_WORTH_TELLING_SECONDS = 60


def best(wordings: Wordings, room: int) -> str:
    """The longest wording that fits; the shortest, cut, when none does."""
    for wording in wordings:
        if width(wording) <= room:
            return wording
    return fit(wordings[-1], room)


def who(part: Part) -> Wordings:
    """Who is on a GPU or an instance of one, or why nobody can be."""
    verdict = part.verdict
    if verdict.state in ("broken", "unknown") and isinstance(part, JudgedGpu) and part.fault:
        return (fault_words(part.fault),)
    if verdict.state == "free":
        return _free(part)
    if verdict.state == "ghost" and not part.processes and part.memory_used_bytes is not None:
        kept = f"{format_size(part.memory_used_bytes)} unaccounted"
        return (f"nobody: {kept}", kept)
    if isinstance(part, JudgedGpu) and part.instances:
        return (verdict.reason, _instances_free(part))
    if verdict.state in ("busy", "held") and part.processes:
        return _people(part, part.processes)
    return (verdict.reason,)


def _instances_free(gpu: JudgedGpu) -> str:
    free = sum(one.verdict.state == "free" for one in gpu.instances)
    return f"{free} of {counted(len(gpu.instances), 'instance')} free"


def fault_words(fault: Fault) -> str:
    """The kind of fault, then the driver's own words, without saying the same twice."""
    kind = fault.kind.replace("_", " ")
    if kind in fault.detail.lower():
        return fault.detail
    return f"{kind}: {fault.detail}" if fault.detail else kind


def _free(part: Part) -> Wordings:
    if isinstance(part, JudgedGpu) and part.asleep:
        return ("asleep",)
    # Nobody there needs no words; anybody or anything that does not count does.
    plain = part.processes is not None and not part.processes
    if not plain:
        return (part.verdict.reason,)
    return (DOT.join(note.words for note in part.verdict.notes),)


def _people(part: Part, processes: Sequence[Process]) -> Wordings:
    users = owners(processes)
    unseen = sum(owner(process) == UNSEEN for process in workers(processes))
    idle = part.verdict.idle_seconds
    idle_words = [f"idle {duration(idle)}"] if idle and idle >= _WORTH_TELLING_SECONDS else []
    # The names in front say how many share it, and how many cannot be seen.
    notes = [note.words for note in part.verdict.notes if note.kind not in ("shared", "hidden")]
    return tuple(
        DOT.join([*names, *idle_words, *hidden, *notes])
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
    return [f"{plus}{counted(count, 'process')} you may not see"], short, short, short
