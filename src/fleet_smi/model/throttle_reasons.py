"""The throttle reasons that drivers report, as numbers: one bit for each."""

from functools import lru_cache

NVIDIA_THROTTLE_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)
"""In the order of NVML's bits."""
# The file names of Intel's driver, which its collector sorts. New ones go to the end: the position
# of each is part of the compact report.
THROTTLE_REASONS = (
    *NVIDIA_THROTTLE_REASONS,
    *("pl1", "pl2", "pl4", "prochot", "ratl", "thermal", "vr_tdc", "vr_thermalert"),
)


@lru_cache(maxsize=256)
def throttle_bits(reasons: tuple[str, ...]) -> int | None:
    """Return the reasons as a number; `None` where one is not known, or the order is unusual."""
    bits = sum([1 << THROTTLE_REASONS.index(each) for each in {*reasons} & {*THROTTLE_REASONS}])
    return bits if throttle_reasons(bits) == reasons else None


@lru_cache(maxsize=256)
def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Return the reasons that a number stands for."""
    return tuple([each for at, each in enumerate(THROTTLE_REASONS) if bits >> at & 1])
