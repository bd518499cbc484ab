"""Use that no computing process explains: memory, utilisation and power by their thresholds."""

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
# What was over its threshold counts as over until it is under this share of it.
_LOAD_KEPT = 0.5
_POWER_KEPT = 0.8


class OverThreshold(NamedTuple):
    """What is over its threshold: once it is, it stays so until it is well under."""

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
    settings: Thresholds,
) -> tuple[MemoryLevel, OverThreshold]:
    """How much memory is used, and what is over its threshold now, knowing what `was`."""
    level = memory_level(gpu, settings, shared=card.memory_shared, was_high=previous.memory)
    memory = previous.memory if level == "unknown" else level == "high"
    load = power = low_power = False
    if power_share is not None:
        idle_share = settings.idle_power_fraction
        low_power = power_share < idle_share
        # The power of a whole card says nothing about one of its instances.
        power = gpu is card and is_over(power_share, idle_share, previous.power, _POWER_KEPT)
    # Where no sample comes near the lowest threshold, the median cannot.
    if recent and max(recent) >= _LOAD_KEPT * settings.idle_percent:
        doubtful = level != "high" and low_power
        load = _is_loud(previous, gpu, group, recent, settings, doubtful=doubtful)
    over = memory, load, power
    return level, previous if over == previous else OverThreshold(*over)


def _is_loud(
    was: OverThreshold,
    gpu: Gpu | Instance,
    crowd: ProcessGroup,
    recent: tuple[float, ...],
    settings: Thresholds,
    *,
    doubtful: bool,
) -> bool:
    """Whether it works harder than a display would, by the median.

    A few samples on an empty GPU are `doubtful` at idle power: a first read is a known artefact.
    """
    video = video_percent(gpu) >= settings.idle_percent
    if doubtful and len(recent) < _TRUSTED_SAMPLES and crowd.unoccupied and not video:
        return False
    # Where the cores cannot be told, video engines at work are all the evidence there is.
    only_video = video and valid_percent(gpu.busy_percent) is None
    threshold = settings.idle_percent if only_video else settings.display_percent
    return is_over(median_load(recent) or 0.0, threshold, was.load, _LOAD_KEPT)


def median_load(loads: tuple[float, ...]) -> float | None:
    """The middle of these utilisations; `None` when there are none."""
    ordered = sorted(loads)
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else None
