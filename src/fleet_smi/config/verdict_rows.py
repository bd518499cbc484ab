"""The rows of the settings table for the thresholds of verdicts."""

from fleet_smi.config import value_types
from fleet_smi.config.setting_row import Setting
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS as THRESHOLDS

VERDICT_ROWS: tuple[Setting, ...] = (
    Setting(
        "verdict",
        "free_memory",
        value_types.SIZE,
        THRESHOLDS.free_memory_bytes,
        "a GPU with less memory in use is free",
    ),
    Setting(
        "verdict",
        "free_memory_fraction",
        value_types.FRACTION,
        THRESHOLDS.free_memory_fraction,
        "a GPU with a smaller share in use is free",
    ),
    Setting(
        "verdict",
        "idle_percent",
        value_types.PERCENT,
        THRESHOLDS.idle_percent,
        "less utilisation is idle",
    ),
    Setting(
        "verdict",
        "idle_window",
        value_types.DURATION,
        THRESHOLDS.idle_window_seconds,
        "idle for this long is held",
    ),
    Setting(
        "verdict",
        "idle_power_fraction",
        value_types.FRACTION,
        THRESHOLDS.idle_power_fraction,
        "a smaller share of its power limit is near idle",
    ),
    Setting(
        "verdict",
        "load_percent",
        value_types.PERCENT,
        THRESHOLDS.load_policy_percent,
        "--policy load offers a GPU with less load",
    ),
    Setting(
        "verdict",
        "load_memory_percent",
        value_types.PERCENT,
        THRESHOLDS.load_policy_memory_percent,
        "--policy load offers a GPU with at most this memory traffic",
    ),
    Setting(
        "verdict",
        "silent_after",
        value_types.COUNT,
        THRESHOLDS.silent_after_intervals,
        "missed reports before a node counts as silent",
    ),
)
