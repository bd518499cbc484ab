"""Judging of steady samples of many GPUs at once: which are, and what they change.

It has the columns of a GPU in the arrays of `figure_columns.py`.
"""

from math import nan
from typing import cast

import numpy as np

from fleet_smi.fleet.packed_batch import Flags, Numbers
from fleet_smi.model.throttle_reasons import THROTTLE_REASONS
from fleet_smi.model.verdict.readings import MAX_WATTS
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.throttling import throttle_kind
from fleet_smi.model.verdict.window import FULL_PERCENT, MEAN_CEILING, MEAN_RELEASE

# The columns of a GPU: first its figures, as above, then the limits of steady samples, then what
# these change.
BUSY, ENCODER, DECODER, MEMORY, TEMPERATURE, POWER, THROTTLE = range(7)
MEMORY_LIMIT, UNTIL, MAY_TURN, COMPUTES, LEAST, MOST = range(10, 16)
POWER_THRESHOLD, LIMIT_WATTS, IS_POWER_OVER, IS_QUIET = range(16, 20)
HAS_MARK, HELD, NOTED_BEYOND = range(20, 23)
MEAN, IDLE_FROM, WORKED_AT, FULL_FROM, LOW_POWER_FROM, PEAK, CHANGES = range(23, 30)
COLUMN_COUNT = 30

SLOWED = sum(
    [1 << at for at, reason in enumerate(THROTTLE_REASONS) if throttle_kind((reason,)) is not None]
)


def judge_steady(gpus: Numbers, at: Numbers, weights: Numbers, limits: Thresholds) -> Flags:
    """Add a sample to the GPUs of each node, and return for which nodes all are steady.

    It does what `LiveStanding.add_steady` does, except for GPUs without a reading of their load, at
    work in their video engines, or under load without a process: these are not steady here.
    """
    load, memory, watts = gpus[..., BUSY], gpus[..., MEMORY], gpus[..., POWER]
    mean, idle_from, full_from = gpus[..., MEAN], gpus[..., IDLE_FROM], gpus[..., FULL_FROM]
    low_power_from, peak = gpus[..., LOW_POWER_FROM], gpus[..., PEAK]
    idle_percent = limits.idle_percent
    capped = np.minimum(load, MEAN_CEILING * idle_percent)
    new_mean = mean + (capped - mean) * weights
    was_idle = idle_from == idle_from
    release = np.where(was_idle, MEAN_RELEASE * idle_percent, idle_percent)
    is_spike = (load < limits.noise_percent) & (new_mean < release)
    is_idle = (load < idle_percent) | is_spike
    is_turned = is_idle != was_idle
    share = watts / gpus[..., LIMIT_WATTS]
    share[~((watts >= 0.0) & (watts <= MAX_WATTS))] = nan
    is_low = share < limits.idle_power_fraction
    is_over = share >= gpus[..., POWER_THRESHOLD]
    least, throttle = gpus[..., LEAST], gpus[..., THROTTLE]
    is_unused = (
        (load == 0.0)
        & (gpus[..., IS_QUIET] != 0.0)
        & (is_over == (gpus[..., IS_POWER_OVER] != 0.0))
        & ((least != least) | ((memory >= least) & (memory <= gpus[..., MOST])))
    )
    is_slowed = np.nan_to_num(throttle).astype(np.int64) & SLOWED != 0
    steady: Flags = (
        (at < gpus[..., UNTIL])
        & (load >= 0.0)
        & (load <= 100.0)
        & (mean == mean)
        & ~((gpus[..., ENCODER] > 0.0) | (gpus[..., DECODER] > 0.0))
        & (~is_turned | (gpus[..., MAY_TURN] != 0.0))
        & ((gpus[..., COMPUTES] != 0.0) | is_unused)
        & ~(memory > gpus[..., MEMORY_LIMIT])
        & ~is_slowed
    )
    gpus[..., CHANGES] += is_turned
    gpus[..., PEAK] = np.where(is_turned, 0.0, np.where(is_idle, np.maximum(peak, load), peak))
    full = np.where(load < FULL_PERCENT, nan, np.where(full_from != full_from, at, full_from))
    kept_full = np.where(was_idle, full_from, nan)
    gpus[..., FULL_FROM] = np.where(is_idle, kept_full, full)
    gpus[..., WORKED_AT] = np.where(is_idle, gpus[..., WORKED_AT], at)
    gpus[..., IDLE_FROM] = np.where(is_idle, np.where(was_idle, idle_from, at), nan)
    low_from = np.where(low_power_from != low_power_from, at, low_power_from)
    gpus[..., LOW_POWER_FROM] = np.where(is_low, low_from, nan)
    gpus[..., MEAN] = new_mean
    return cast(Flags, steady.all(axis=1))
