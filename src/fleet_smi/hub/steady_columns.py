"""Judging of steady samples of many GPUs at once: which are, and what they change.

It has the columns of a GPU in the arrays of `figure_columns.py`.
"""

from math import nan

import numpy as np

from fleet_smi.hub.packed_batch import Flags, Numbers
from fleet_smi.model.throttle_reasons import THROTTLE_REASONS
from fleet_smi.model.verdict.readings import MAX_WATTS
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.throttling import throttle_kind
from fleet_smi.model.verdict.window import FULL_PERCENT, MEAN_CEILING, MEAN_RELEASE

# The columns of a GPU: first its figures, as above, then what steady samples change, then their
# limits.
BUSY, ENCODER, DECODER, MEMORY, TEMPERATURE, POWER, THROTTLE = range(7)
FIGURE_COUNT = 10
MEAN, IDLE_FROM, WORKED_AT, FULL_FROM, LOW_POWER_FROM, PEAK, CHANGES = range(10, 17)
MOVING_COUNT = 17
MEMORY_LIMIT, UNTIL, MAY_TURN, COMPUTES, LEAST, MOST = range(17, 23)
POWER_THRESHOLD, LIMIT_WATTS, IS_POWER_OVER, IS_QUIET = range(23, 27)
HAS_MARK, HELD, NOTED_BEYOND = range(27, 30)
COLUMN_COUNT = 30

SLOWED = sum(
    [1 << at for at, reason in enumerate(THROTTLE_REASONS) if throttle_kind((reason,)) is not None]
)


def judge_steady(gpus: Numbers, at: Numbers, weights: Numbers, limits: Thresholds) -> Flags:
    """Add a sample to GPUs, and return which are steady.

    `gpus[column]` has a row for each node, as `at` and `weights` do. It does what
    `LiveStanding.add_steady` does, except for GPUs without a reading of their load, at work in
    their video engines, or under load without a process: these are not steady here.
    """
    load, memory, watts = gpus[BUSY], gpus[MEMORY], gpus[POWER]
    mean, idle_from, full_from = gpus[MEAN], gpus[IDLE_FROM], gpus[FULL_FROM]
    low_power_from, peak = gpus[LOW_POWER_FROM], gpus[PEAK]
    idle_percent = limits.idle_percent
    new_mean = mean + (np.minimum(load, MEAN_CEILING * idle_percent) - mean) * weights
    was_idle = idle_from == idle_from
    release = np.where(was_idle, MEAN_RELEASE * idle_percent, idle_percent)
    is_idle = (load < idle_percent) | ((load < limits.noise_percent) & (new_mean < release))
    is_turned = is_idle != was_idle
    share = watts / gpus[LIMIT_WATTS]
    is_known = (watts >= 0.0) & (watts <= MAX_WATTS)
    if not is_known.all():
        share[~is_known] = nan
    is_low = share < limits.idle_power_fraction
    least, throttle = gpus[LEAST], gpus[THROTTLE]
    is_unused = (
        (load == 0.0)
        & (gpus[IS_QUIET] != 0.0)
        & ((share >= gpus[POWER_THRESHOLD]) == (gpus[IS_POWER_OVER] != 0.0))
        & ((least != least) | ((memory >= least) & (memory <= gpus[MOST])))
    )
    steady: Flags = (
        (at < gpus[UNTIL])
        & (load >= 0.0)
        & (load <= 100.0)
        & (mean == mean)
        & ~((gpus[ENCODER] > 0.0) | (gpus[DECODER] > 0.0))
        & (~is_turned | (gpus[MAY_TURN] != 0.0))
        & ((gpus[COMPUTES] != 0.0) | is_unused)
        & ~(memory > gpus[MEMORY_LIMIT])
    )
    if throttle.any():
        steady &= np.nan_to_num(throttle).astype(np.int64) & SLOWED == 0
    if is_turned.any():
        gpus[CHANGES] += is_turned
        peak = np.where(is_turned, 0.0, peak)
        gpus[PEAK] = np.where(is_idle & ~is_turned, np.maximum(peak, load), peak)
    else:
        gpus[PEAK] = np.where(is_idle, np.maximum(peak, load), peak)
    full = np.where(load < FULL_PERCENT, nan, np.where(full_from != full_from, at, full_from))
    gpus[FULL_FROM] = np.where(is_idle, np.where(was_idle, full_from, nan), full)
    gpus[WORKED_AT] = np.where(is_idle, gpus[WORKED_AT], at)
    gpus[IDLE_FROM] = np.where(is_idle, np.where(was_idle, idle_from, at), nan)
    low_from = np.where(low_power_from != low_power_from, at, low_power_from)
    gpus[LOW_POWER_FROM] = np.where(is_low, low_from, nan)
    gpus[MEAN] = new_mean
    return steady
