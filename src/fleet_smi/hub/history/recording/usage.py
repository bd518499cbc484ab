"""Hourly usage accumulators: GPU-seconds, load and energy per user, GPU and state."""

from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.hub.history.recording.rows import UsageRow
from fleet_smi.model.fleet import State
from fleet_smi.model.history import Sums

HOUR_SECONDS = 3600


# Both structs are part of a node's checkpoint: a new field must come last, with a default.
class UsageAccumulator(Struct, array_like=True, gc=False):
    """Mutable sums; `Sums` is their immutable counterpart."""

    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    energy_joules: float = 0.0

    def add(self, other: "UsageAccumulator", share: float = 1.0) -> None:
        """Add a share of another accumulator to this one."""
        self.gpu_seconds += share * other.gpu_seconds
        self.measured_seconds += share * other.measured_seconds
        self.busy_seconds += share * other.busy_seconds
        self.idle_seconds += share * other.idle_seconds
        self.energy_joules += share * other.energy_joules

    def to_sums(self) -> Sums:
        """Return the current sums."""
        return Sums(
            gpu_seconds=self.gpu_seconds,
            measured_seconds=self.measured_seconds,
            busy_seconds=self.busy_seconds,
            idle_seconds=self.idle_seconds,
            energy_joules=self.energy_joules,
        )


class UsageBucket(Struct, frozen=True, array_like=True, gc=False):
    """The key of an accumulator: user, device and state in the hour that begins at `hour`."""

    hour: int
    uuid: str
    user: str
    group: str
    state: State


UsageBuckets = dict[UsageBucket, UsageAccumulator]


def hour_start(at: float) -> int:
    """The start of the hour that contains a time."""
    return int(at // HOUR_SECONDS) * HOUR_SECONDS


def usage_rows(node_id: str, buckets: UsageBuckets, hours: Iterable[int]) -> list[UsageRow]:
    """The buckets of these hours as rows to be written."""
    wanted = frozenset(hours)
    return [
        UsageRow(
            hour=bucket.hour,
            gpu_key=(node_id, bucket.uuid),
            user=bucket.user,
            group=bucket.group,
            state=bucket.state,
            sums=accumulator.to_sums(),
        )
        for bucket, accumulator in buckets.items()
        if bucket.hour in wanted
    ]


def add_buckets(buckets: UsageBuckets, others: UsageBuckets) -> None:
    """Add the sums of other buckets to these."""
    for bucket, accumulator in others.items():
        buckets.setdefault(bucket, UsageAccumulator()).add(accumulator)


def filter_hours(buckets: UsageBuckets, hours: Iterable[int]) -> UsageBuckets:
    """The buckets of these hours only."""
    wanted = frozenset(hours)
    return {bucket: sums for bucket, sums in buckets.items() if bucket.hour in wanted}
