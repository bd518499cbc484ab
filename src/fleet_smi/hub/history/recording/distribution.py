"""Distribution of usage: what is used of a device is charged to its users and processes."""

from fleet_smi.hub.history.recording.device_use import DeviceUse
from fleet_smi.hub.history.recording.intervals import OpenInterval
from fleet_smi.hub.history.recording.usage import UsageAccumulator, UsageBucket, UsageBuckets
from fleet_smi.model.history import NO_USER


def distribute_usage(interval: OpenInterval, hour: int, buckets: UsageBuckets) -> None:
    """Charge the usage of an interval in equal shares per user, then per process of each.

    It goes into the buckets of `hour`, and the interval starts again from zero. The shares add
    up to the weight of the device, so that the sums by user, node and GPU are equal; the time
    of an unused device is charged to no user.
    """
    usage, use = interval.usage, interval.use
    if not usage.gpu_seconds:
        return
    interval.usage = UsageAccumulator()
    interval.measured_seconds += usage.measured_seconds
    interval.busy_seconds += usage.busy_seconds
    # Held means that processes have memory and do nothing with it.
    if use.state == "held":
        usage.idle_seconds = usage.gpu_seconds
    by_user = interval.occupants_by_user()
    if not by_user and use.weight:
        _accumulator(buckets, hour, use, NO_USER, "").add(usage, use.weight)
    for user, occupants in by_user.items():
        share = use.weight / len(by_user)
        group = occupants[0].holder.group or ""
        _accumulator(buckets, hour, use, user, group).add(usage, share)
        for occupant in occupants:
            occupant.usage.add(usage, share / len(occupants))


def _accumulator(
    buckets: UsageBuckets, hour: int, use: DeviceUse, user: str, group: str
) -> UsageAccumulator:
    bucket = UsageBucket(hour, use.uuid, user, group, use.charged_state or use.state)
    return buckets.setdefault(bucket, UsageAccumulator())
