"""The reason texts of verdicts: short sentences for people."""

from collections.abc import Sequence
from functools import lru_cache

from fleet_smi.model.fleet import Note
from fleet_smi.model.people import owners
from fleet_smi.model.snapshot import Fault, FaultKind, Gpu, Instance, Process
from fleet_smi.model.units import format_duration, format_size
from fleet_smi.model.verdict.readings import process_memory, used_memory

HIDDEN_PROCESS = "a process that cannot be seen"
UNKNOWN_OWNER = "somebody"
IN_USE_BY_HIDDEN_PROCESS = f"in use by {HIDDEN_PROCESS}"
USE_HAS_ENDED = "its processes ended a moment ago"
VACATED = Note("vacated", "nobody on it now")
"""The note on a device that is called in use though the processes that used it are gone."""
NO_MIG_INSTANCE = (
    "MIG is on and no instance exists: nothing can run here until the administrator creates one"
)
_ONE_SAMPLE = " (one sample)"
_MAX_NAMES = 3
_DAY_SECONDS = 86_400.0

_FAULTS: dict[FaultKind, str] = {
    "lost": "the driver no longer reaches it",
    "needs_reset": "must be reset before it can be used",
    "slow": "driver slow",
    "not_answering": "driver not answering",
    "mismatch": "driver and library versions do not match",
    "missing": "missing",
    "unreadable": "could not be read",
}
# Since when these have lasted tells more than the detail of the last failure.
_WITH_TIME: tuple[FaultKind, ...] = ("not_answering", "missing")


def mark_single_sample(reason: str, samples: int) -> str:
    """Mark a reason that rests on one sample and that a window could correct."""
    return reason + _ONE_SAMPLE if samples == 1 else reason


def describe_owners(processes: Sequence[Process]) -> str:
    """Name the owners of processes: "alice", "alice and bob", "alice, bob and 3 more"."""
    if len(processes) == 1 and processes[0].user:
        return processes[0].user
    names = owners(processes)
    if names:
        return join_names(names)
    if any(process.hidden for process in processes):
        return HIDDEN_PROCESS
    pids = sorted({process.pid for process in processes if not process.pid_is_made})
    return join_names([f"pid {pid}" for pid in pids]) if pids else UNKNOWN_OWNER


def join_names(names: Sequence[str]) -> str:
    """Join names to a phrase, cut short where there are many."""
    if len(names) > _MAX_NAMES:
        return f"{', '.join(names[: _MAX_NAMES - 1])} and {len(names) - _MAX_NAMES + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@lru_cache(maxsize=512)  # one text per GPU and report; most drivers report whole percentages
def format_load(load: float | None) -> str:
    """Format a utilisation: "96 %"."""
    # `+ 0.0`, because -0.0 equals 0.0 and would share its cached text.
    return "load unknown" if load is None else f"{load + 0.0:.0f} %"


def format_held_memory(held: int | None, gpu: Gpu | Instance) -> str | None:
    """Format what processes hold, or else what is used: "16.2 GiB"; `None` if neither is known."""
    held = held or used_memory(gpu)
    return None if held is None else format_size(held)


def format_used_memory(gpu: Gpu | Instance) -> str:
    """Format the memory in use: "71.1 GiB"."""
    used = used_memory(gpu)
    return "its memory" if used is None else format_size(used)


def describe_fault(fault: Fault, since: float | None, now: float) -> str:
    """Say what is wrong and since when; the remedy is a sentence of its own.

    "fell off the bus at 17:38. Reboot; if it returns, check the hardware".
    """
    text = fault.detail.strip() or _FAULTS[fault.kind]
    if since is not None and fault.kind in _WITH_TIME:
        text = f"{_FAULTS[fault.kind]} since {_format_clock(since, now)}"
    elif since is not None and fault.kind == "lost":
        text = f"{text} at {_format_clock(since, now)}"
    if not fault.remedy:
        return text
    # The remedy of a missing GPU starts with the name of the node that has it now.
    missing = fault.kind == "missing"
    return f"{text}: {fault.remedy}" if missing else f"{text}. {_capitalize(fault.remedy)}"


def _capitalize(text: str) -> str:
    """Write the first letter as a capital, unless the text starts with the name of a program."""
    return text if text.startswith("nvidia-smi") else text[:1].upper() + text[1:]


def _format_clock(at: float, now: float) -> str:
    """Format a time by the clock of this machine: "14:02", with the date if it is a day ago."""
    # Imported here: a command that finds no fault does not pay for it.
    from datetime import datetime

    moment = datetime.fromtimestamp(at).astimezone()
    return f"{moment:%H:%M}" if now - at < _DAY_SECONDS else f"{moment:%Y-%m-%d %H:%M}"


def describe_allocation(scheduler: str, holder: str, job: str | None, unused: float) -> str:
    """Say who a batch system allocated a GPU to: "allocated by Slurm to alice (job 4711)"."""
    text = f"allocated by {scheduler} to {holder}" + (f" (job {job})" if job else "")
    return f"{text}, unused for {format_duration(unused)}" if unused >= 1 else text


def describe_memory_errors(count: int) -> str:
    """Say why uncorrectable errors matter, and what to do."""
    noun = "error" if count == 1 else "errors"
    return f"{count} uncorrectable memory {noun}: results may be wrong; reset it or reboot the node"


def describe_stuck_process(gpu: Gpu | Instance, processes: Sequence[Process]) -> str:
    """Name the dead process that holds most: "pid 4711 is a zombie and still holds 12.0 GiB"."""
    largest = min(processes, key=lambda process: (-(process_memory(process) or 0), process.pid))
    condition = "a zombie" if largest.condition == "zombie" else "uninterruptible"
    size = format_held_memory(process_memory(largest), gpu) or "the GPU"
    more = f" ({len(processes) - 1} more like it)" if len(processes) > 1 else ""
    return f"pid {largest.pid} is {condition} and still holds {size}{more}"


def describe_instances(free: int, count: int, processes: Sequence[Process]) -> str:
    """Sum up a GPU from its instances: "3 of 7 instances free; alice and bob"."""
    text = f"{free} of {count} instances free"
    return f"{text}; {describe_owners(processes)}" if processes else text


def describe_last_known(state: str, processes: Sequence[Process]) -> str:
    """Say what was last known of a GPU whose node is silent: "busy (alice)"."""
    return (
        f"{state} ({describe_owners(processes)})"
        if processes and state in ("busy", "held")
        else state
    )
