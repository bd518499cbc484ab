"""What everybody comes to on each GPU, an hour at a time."""

from collections.abc import Iterable

from msgspec import Struct

from fleet_smi.hub.history.recording.rows import UsageRow
from fleet_smi.model.fleet import State
from fleet_smi.model.history import Sums

HOUR_SECONDS = 3600


class UsageAccumulator(Struct, array_like=True, gc=False):
    """Sums that grow."""

    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    energy_joules: float = 0.0

    def add(self, other: "UsageAccumulator", share: float = 1.0) -> None:
        """Let a share of another's be in this one."""
        self.gpu_seconds += share * other.gpu_seconds
        self.measured_seconds += share * other.measured_seconds
        self.busy_seconds += share * other.busy_seconds
        self.idle_seconds += share * other.idle_seconds
        self.energy_joules += share * other.energy_joules

    def to_sums(self) -> Sums:
        """What they are now."""
        return Sums(
            gpu_seconds=self.gpu_seconds,
            measured_seconds=self.measured_seconds,
            busy_seconds=self.busy_seconds,
            idle_seconds=self.idle_seconds,
            energy_joules=self.energy_joules,
        )


class UsageBucket(Struct, frozen=True, array_like=True, gc=False):
    """Who was on what, in which state, in the hour that begins at `hour`."""

    hour: int
    uuid: str
    user: str
    group: str
    state: State


UsageBuckets = dict[UsageBucket, UsageAccumulator]


def hour_start(at: float) -> int:
    """When the hour of a moment began."""
    return int(at // HOUR_SECONDS) * HOUR_SECONDS


def usage_rows(node_id: str, buckets: UsageBuckets, hours: Iterable[int]) -> list[UsageRow]:
    """What is known of these hours, ready to be written."""
    wanted = frozenset(hours)
    return [
        UsageRow(
            hour=bucket.hour,
            gpu_key=(node_id, bucket.uuid),
            user=bucket.user,
            group=bucket.group,
            state=bucket.state,
            sums=account.to_sums(),
        )
        for bucket, account in buckets.items()
        if bucket.hour in wanted
    ]


def add_buckets(buckets: UsageBuckets, others: UsageBuckets) -> None:
    """Let what others come to be in these."""
    for bucket, account in others.items():
        buckets.setdefault(bucket, UsageAccumulator()).add(account)


def filter_hours(buckets: UsageBuckets, hours: Iterable[int]) -> UsageBuckets:
    """Those of these hours."""
    wanted = frozenset(hours)
    return {bucket: account for bucket, account in buckets.items() if bucket.hour in wanted}
