"""Idle time before the verdict: a GPU is called held after the idle window, and was idle in it.

A period keeps the state that was shown at the time. But the minutes for which a process did nothing
before the GPU was called held are idle time of its user, too. They are added when the verdict
comes, as far as they lie in the current hour, because the sums of earlier hours are final.
"""

from fleet_smi.hub.history.recording.device_use import DeviceUse
from fleet_smi.hub.history.recording.intervals import OpenInterval
from fleet_smi.hub.history.recording.usage import UsageAccumulator, UsageBucket, UsageBuckets


def add_idle_window(
    busy: OpenInterval, use: DeviceUse, at: float, hour: int, buckets: UsageBuckets
) -> None:
    """Charge the end of a busy interval as idle, where it ends because the device is held.

    Its usage up to `at` must have been distributed.
    """
    if busy.use.state != "busy" or use.state != "held" or use.idle_seconds is None:
        return
    seconds = min(use.idle_seconds, at - max(busy.start, float(hour)))
    by_user = busy.occupants_by_user()
    for user, occupants in by_user.items():
        share, group = busy.use.weight / len(by_user), occupants[0].holder.group or ""
        state = busy.use.charged_state or busy.use.state
        charged = buckets.get(UsageBucket(hour, busy.use.uuid, user, group, state))
        if charged is None or seconds <= 0.0:
            continue
        idle = UsageAccumulator(idle_seconds=seconds)
        charged.add(idle, share)
        for occupant in occupants:
            occupant.usage.add(idle, share / len(occupants))
