"""Limits of steady samples: until when, and within which bands, no rule can change the state."""

from math import inf

from msgspec import Struct

from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.verdict.hysteresis import Standing
from fleet_smi.model.verdict.readings import MAX_WATTS, memory_band
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.unattributed_load import power_threshold
from fleet_smi.model.verdict.window import Window

# Before a time limit of a rule every sample is judged in full: sums of floats are not exact.
_MARGIN_SECONDS = 1.0


class SteadyLimits(Struct, frozen=True, gc=False):
    """The limits within which samples of the same use are steady.

    `until` is the next time limit of a rule. A GPU that `may_turn_idle`, or work again, has the
    same state both ways. The memory has a band only where it decides, and power is over its
    threshold from the share `power_threshold` of `limit_watts` on.
    """

    until: float = -inf
    may_turn_idle: bool = False
    least_memory: float | None = None
    most_memory: float = inf
    power_threshold: float = 0.0
    limit_watts: float | None = None


NEVER_STEADY = SteadyLimits()


def steady_limits(standing: Standing, gpu: Gpu, thresholds: Thresholds) -> SteadyLimits:
    """Return the limits for the samples that follow one of `gpu`, which was judged in full."""
    window, group = standing.window, standing.group
    if gpu.instances or gpu.mig_mode or not _is_settled(standing, thresholds):
        return NEVER_STEADY
    limit = gpu.power_limit_watts
    limit_watts = limit if limit is not None and 0.0 < limit <= MAX_WATTS else None
    until = _next_time_limit(window, thresholds) - _MARGIN_SECONDS
    if group.computes:
        # Busy, idle or not, until it has been idle for the window.
        may_turn_idle = group.has_living and standing.verdict.state == "busy"
        return SteadyLimits(until, may_turn_idle, limit_watts=limit_watts)
    if window.level == "unknown":
        return NEVER_STEADY
    over, least, most = window.over, None, inf
    if not gpu.memory_shared:  # else the processes alone decide
        desktop_bytes = group.memory_bytes if group.desktop else None
        least, most = memory_band(gpu, thresholds, over.memory, desktop_bytes)
        if gpu.memory_used_bytes is None or not least <= gpu.memory_used_bytes <= most:
            return NEVER_STEADY
    # Little memory and no load: nobody uses it, whatever it did before.
    may_turn_idle = not (over.memory or over.load or over.power)
    threshold = power_threshold(over.power, thresholds)
    return SteadyLimits(until, may_turn_idle, least, most, threshold, limit_watts)


def _is_settled(standing: Standing, thresholds: Thresholds) -> bool:
    """Return whether the state is what the rules say, and will be for the same readings."""
    window, group = standing.window, standing.group
    if standing.candidate is not None or window.samples == 1 or window.throttled is not None:
        return False
    if window.measured_at not in (None, window.last_at):
        return False  # a reading of the load was missed
    if group.pids is not None or window.listed_at is None:
        return True
    # Else the state may be that of processes which can no longer be listed.
    return window.last_at - window.listed_at >= thresholds.idle_window_seconds


def _next_time_limit(window: Window, thresholds: Thresholds) -> float:
    """Return when something will have lasted for the idle window."""
    at, window_seconds = window.last_at, thresholds.idle_window_seconds
    # What begins later cannot have lasted for the window before this.
    until = at + window_seconds
    for start in (window.idle_from, window.low_power_from, window.worked_at, window.joined_at):
        if start is not None and at - start < window_seconds:
            until = min(until, start + window_seconds)
    return until
