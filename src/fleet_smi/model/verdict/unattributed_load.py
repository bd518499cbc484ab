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
    load = power = low_power = False
    if power_share is not None:
        idle_share = thresholds.idle_power_fraction
        low_power = power_share < idle_share
        # The power of a whole card says nothing about one of its instances.
        power = gpu is card and is_over(power_share, idle_share, previous.power, _POWER_RELEASE)
    # Where no sample comes near the lowest threshold, the median cannot.
    if recent and max(recent) >= _LOAD_RELEASE * thresholds.idle_percent:
        doubtful = level != "high" and low_power
        load = _is_loaded(previous, gpu, group, recent, thresholds, doubtful=doubtful)
    over = memory, load, power
    return level, previous if over == previous else OverThreshold(*over)


def _is_loaded(
    previous: OverThreshold,
    gpu: Gpu | Instance,
    group: ProcessGroup,
    recent: tuple[float, ...],
    thresholds: Thresholds,
    *,
    doubtful: bool,
) -> bool:
    """Return whether the median utilisation is more than a display causes.

    A few samples on an empty GPU are `doubtful` at idle power: a first read is known to show
    100 % where nothing runs.
    """
    video = video_percent(gpu) >= thresholds.idle_percent
    if doubtful and len(recent) < _TRUSTED_SAMPLES and group.unoccupied and not video:
        return False
    # Where the utilisation of the cores is unknown, busy video engines are all the evidence.
    only_video = video and valid_percent(gpu.busy_percent) is None
    threshold = thresholds.idle_percent if only_video else thresholds.display_percent
    return is_over(median_load(recent) or 0.0, threshold, previous.load, _LOAD_RELEASE)


def median_load(loads: tuple[float, ...]) -> float | None:
    """Return the median of these utilisations; `None` when there are none."""
    ordered = sorted(loads)
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else None
