"""Policies of what counts as free: the verdict, or the rule of an older tool."""

from collections.abc import Callable

from fleet_smi.model.fleet import JudgedDevice, JudgedGpu, JudgedInstance, State
from fleet_smi.model.verdict.readings import (
    memory_level,
    total_memory,
    used_memory,
    valid_percent,
)
from fleet_smi.model.verdict.thresholds import Thresholds

_NEVER: tuple[State, ...] = ("broken", "unknown", "leased")


Policy = Callable[[JudgedDevice, float, Thresholds], bool]
"""Returns whether a device is offered, given the allowed memory use in percent."""


def is_offered(
    judged: JudgedDevice, policy: str, max_used_percent: float, thresholds: Thresholds
) -> bool:
    """Return whether this policy, a key of `POLICIES`, offers the device.

    None offers what is broken, unknown or leased. `max_used_percent` is for "memory" only.
    """
    if judged.verdict.state in _NEVER:
        return False
    return POLICIES[policy](judged, max_used_percent, thresholds)


def _free(judged: JudgedDevice, _percent: float, _thresholds: Thresholds) -> bool:
    return judged.verdict.state == "free"


def _no_process(judged: JudgedDevice, _percent: float, _thresholds: Thresholds) -> bool:
    processes = judged.processes
    if processes is None or judged.more_processes:
        return False
    return all(process.kind == "graphics" for process in processes)


def _memory(judged: JudgedDevice, max_used_percent: float, _thresholds: Thresholds) -> bool:
    used, total = used_memory(judged), total_memory(judged)
    if used is None or total is None:
        return False
    return used * 100 <= max_used_percent * total


def _load(judged: JudgedDevice, _percent: float, thresholds: Thresholds) -> bool:
    if isinstance(judged, JudgedInstance) or judged.processes is None or judged.processes:
        return False
    load, memory = valid_percent(judged.busy_percent), valid_percent(judged.memory_busy_percent)
    if load is None or memory is None:
        return False
    # As web-gpu-monitor compares them: a load at the limit is in use, memory traffic is not yet.
    return load < thresholds.load_policy_percent and memory <= thresholds.load_policy_memory_percent


def _context(judged: JudgedDevice, _percent: float, thresholds: Thresholds) -> bool:
    if judged.verdict.state == "free":
        return True
    shared = isinstance(judged, JudgedGpu) and judged.memory_shared
    return (
        judged.verdict.state == "held" and memory_level(judged, thresholds, shared=shared) == "low"
    )


POLICIES: dict[str, Policy] = {
    "free": _free,
    "no-process": _no_process,
    "memory": _memory,
    "load": _load,
    "context": _context,
}
"""`fleet-smi free --help` explains each of them."""
