"""Load without a compute process: memory, utilisation and power against their thresholds.

Each threshold has hysteresis: what was over it counts as over until it is well under.
"""

from typing import NamedTuple

from fleet_smi.model.snapshot import Gpu, Instance
from fleet_smi.model.verdict.process_group import ProcessGroup
from fleet_smi.model.verdict.readings import (
    MemoryLevel,
    is_over,
    memory_level,
    valid_percent,
    video_percent,
)
from fleet_smi.model.verdict.thresholds import Thresholds

# With fewer samples than this, idle power outweighs a utilisation that may be an artefact.
_TRUSTED_SAMPLES = 3
# What was over its threshold counts as over until it is under this fraction of it.
_LOAD_RELEASE = 0.5
_POWER_RELEASE = 0.8


class OverThreshold(NamedTuple):
    """Which readings are over their thresholds."""

    memory: bool = False
    load: bool = False
    power: bool = False


NONE_OVER_THRESHOLD = OverThreshold()


def check_thresholds(
    previous: OverThreshold,
    gpu: Gpu | Instance,
    card: Gpu,
    group: ProcessGroup,
    recent: tuple[float, ...],
    power_share: float | None,
    thresholds: Thresholds,
) -> tuple[MemoryLevel, OverThreshold]:
    """Return how much memory is used and what is over its threshold, given what was before."""
    level = memory_level(
        gpu,
        thresholds,
        shared=card.memory_shared,
        was_high=previous.memory,
        desktop_bytes=group.memory_bytes if group.desktop else None,
    )
    memory = previous.memory if level == "unknown" else level == "high"
    load = is_load_over(
        previous.load,
        recent,
        thresholds,
        is_doubtful=level != "high" and group.unoccupied and is_power_low(power_share, thresholds),
        video_percent=video_percent(gpu),
        is_load_known=valid_percent(gpu.busy_percent) is not None,
    )
    # The power of a whole card says nothing about one of its instances.
    power = (
        gpu is card
        and power_share is not None
        and power_share >= power_threshold(previous.power, thresholds)
    )
    over = memory, load, power
    return level, previous if over == previous else OverThreshold(*over)


def is_power_low(power_share: float | None, thresholds: Thresholds) -> bool:
    """Return whether it is known to draw idle power."""
    return power_share is not None and power_share < thresholds.idle_power_fraction


def power_threshold(was_over: bool, thresholds: Thresholds) -> float:
    """Return the share of its power limit from which on it draws more than idle power."""
    idle_share = thresholds.idle_power_fraction
    return _POWER_RELEASE * idle_share if was_over else idle_share


def is_load_over(
    was_over: bool,
    recent: tuple[float, ...],
    thresholds: Thresholds,
    *,
    is_doubtful: bool,
    video_percent: float,
    is_load_known: bool,
) -> bool:
    """Return whether the median utilisation is more than a display causes.

    A few samples on an empty GPU are doubtful at idle power: a first read is known to show 100 %
    where nothing runs.
    """
    # Where no sample comes near the lowest threshold, the median cannot.
    if not recent or max(recent) < _LOAD_RELEASE * thresholds.idle_percent:
        return False
    has_video = video_percent >= thresholds.idle_percent
    if is_doubtful and len(recent) < _TRUSTED_SAMPLES and not has_video:
        return False
    # Where the utilisation of the cores is unknown, busy video engines are all the evidence.
    only_video = has_video and not is_load_known
    threshold = thresholds.idle_percent if only_video else thresholds.display_percent
    return is_over(median_load(recent) or 0.0, threshold, was_over, _LOAD_RELEASE)


def median_load(loads: tuple[float, ...]) -> float | None:
    """Return the median of these utilisations; `None` when there are none."""
    ordered = sorted(loads)
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else None
