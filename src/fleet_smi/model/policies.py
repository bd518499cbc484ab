"""Policies of what counts as free: the verdict, or the rule of an older tool."""

from collections.abc import Callable

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.readings import (
    memory_level,
    total_memory,
    used_memory,
    valid_percent,
)
from fleet_smi.model.verdict.thresholds import Thresholds

CLOSED_BY = "closed by "
"""How the reason begins of what an administrator has closed."""
NEVER_OFFERED: tuple[State, ...] = ("broken", "unknown", "leased")


Policy = Callable[[Gpu | Instance, Verdict, float, Thresholds], bool]
"""Returns whether a device is offered, given the allowed memory use in percent."""


def is_barred(verdict: Verdict) -> bool:
    """Return whether no policy offers a device, whatever its readings are."""
    return verdict.state in NEVER_OFFERED or closing_note(verdict) is not None


def closing_note(verdict: Verdict) -> str | None:
    """Return the words of a closing of a device that is in use; `None` if it is not closed."""
    for note in verdict.notes:
        if note.kind == "closed":
            return note.words
    return None


def is_closed(verdict: Verdict) -> bool:
    """Return whether an administrator keeps new work from a device: it will not become free."""
    is_leased_so = verdict.state == "leased" and verdict.reason.startswith(CLOSED_BY)
    return is_leased_so or closing_note(verdict) is not None


def is_offered(
    device: Gpu | Instance,
    verdict: Verdict,
    policy: str,
    max_used_percent: float,
    thresholds: Thresholds,
) -> bool:
    """Return whether this policy, a key of `POLICIES`, offers the device.

    None offers what is broken, unknown, leased or closed. `max_used_percent` is for "memory" only.
    """
    if is_barred(verdict):
        return False
    return POLICIES[policy](device, verdict, max_used_percent, thresholds)


def _free(_device: Gpu | Instance, verdict: Verdict, _percent: float, _: Thresholds) -> bool:
    return verdict.state == "free"


def _no_process(device: Gpu | Instance, _verdict: Verdict, _percent: float, _: Thresholds) -> bool:
    processes = device.processes
    if processes is None or device.more_processes:
        return False
    return all(process.kind == "graphics" for process in processes)


def _memory(
    device: Gpu | Instance, _verdict: Verdict, max_used_percent: float, _: Thresholds
) -> bool:
    used, total = used_memory(device), total_memory(device)
    if used is None or total is None or _refuses_another(device):
        return False
    return used * 100 <= max_used_percent * total


def _load(
    device: Gpu | Instance, _verdict: Verdict, _percent: float, thresholds: Thresholds
) -> bool:
    if isinstance(device, Instance) or device.processes is None or device.processes:
        return False
    load, memory = valid_percent(device.busy_percent), valid_percent(device.memory_busy_percent)
    if load is None or memory is None:
        return False
    # As web-gpu-monitor compares them: a load at the limit is in use, memory traffic is not yet.
    return load < thresholds.load_policy_percent and memory <= thresholds.load_policy_memory_percent


def _context(
    device: Gpu | Instance, verdict: Verdict, _percent: float, thresholds: Thresholds
) -> bool:
    if verdict.state == "free":
        return True
    if _refuses_another(device):
        return False
    shared = isinstance(device, Gpu) and device.memory_shared
    return verdict.state == "held" and memory_level(device, thresholds, shared=shared) == "low"


def _refuses_another(device: Gpu | Instance) -> bool:
    """Whether the driver lets no second process on a device (exclusive-process mode)."""
    if isinstance(device, Instance) or not device.processes:
        return False
    return (device.compute_mode or "").startswith("exclusive")


POLICIES: dict[str, Policy] = {
    "free": _free,
    "no-process": _no_process,
    "memory": _memory,
    "load": _load,
    "context": _context,
}
"""`fleet-smi free --help` explains each of them."""
