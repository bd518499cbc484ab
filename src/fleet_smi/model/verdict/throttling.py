"""Throttling over the window: for which share of the last minutes a GPU was slowed down."""

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

_BUCKET_SECONDS = 30.0
_MIN_SECONDS = 60.0
"""A shorter slowdown is not worth a note, once there is a longer window."""

# By importance. The slowdown by hardware is also set beside its cause, so it comes last. A power
# cap is no slowdown: a card under full load runs at its limit as it should.
_KINDS = {
    "thermal": frozenset(
        {"hw_thermal_slowdown", "sw_thermal_slowdown", "thermal", "prochot", "vr_thermalert"}
    ),
    "power brake": frozenset({"hw_power_brake_slowdown"}),
    "hardware slowdown": frozenset({"hw_slowdown"}),
}


class ThrottleHistory(Struct, frozen=True, gc=False):
    """The seconds of slowdown, in buckets by time, and the latest kind of it.

    `now` says whether the latest sample was slowed down.
    """

    kind: str
    buckets: tuple[tuple[int, float], ...] = ()
    now: bool = False


@lru_cache(maxsize=256)
def throttle_kind(reasons: tuple[str, ...]) -> str | None:
    """Return what slows a GPU down: "thermal", "power brake"; `None` where nothing does."""
    return next((kind for kind, names in _KINDS.items() if names.intersection(reasons)), None)


def add_throttle_sample(
    history: ThrottleHistory | None, kind: str | None, at: float, elapsed: float, window: float
) -> ThrottleHistory | None:
    """Add the `elapsed` seconds before `at`; return `None` when the window has no slowdown."""
    buckets = history.buckets if history is not None else ()
    oldest = int((at - window) // _BUCKET_SECONDS)
    if buckets and buckets[0][0] <= oldest:
        buckets = tuple([bucket for bucket in buckets if bucket[0] > oldest])
    if kind is None:
        # Once the last slowdown is out of the window, nothing is left to track.
        return ThrottleHistory(history.kind, buckets, now=False) if history and buckets else None
    if elapsed > 0:
        number = int(at // _BUCKET_SECONDS)
        if buckets and buckets[-1][0] == number:
            buckets = (*buckets[:-1], (number, buckets[-1][1] + elapsed))
        else:
            buckets = (*buckets, (number, elapsed))
    return ThrottleHistory(kind, buckets, now=True)


def shift_throttling(history: ThrottleHistory, seconds: float) -> ThrottleHistory:
    """Return the history with its buckets moved, because the receiver's clock was set."""
    moved = round(seconds / _BUCKET_SECONDS)
    buckets = tuple([(number + moved, length) for number, length in history.buckets])
    return replace(history, buckets=buckets)


def describe_throttling(
    history: ThrottleHistory, observed: float
) -> tuple[str, float | None] | None:
    """Return the kind and its share of the `observed` seconds; `None` if not worth a note."""
    seconds = sum(length for _, length in history.buckets)
    if observed < _MIN_SECONDS:
        return (history.kind, None) if history.now else None
    if seconds < _MIN_SECONDS:
        return None
    return history.kind, min(1.0, seconds / observed)
