"""What became of the reports that were sent, and how soon they were acknowledged."""

from bisect import bisect_left
from itertools import accumulate
from math import log

from msgspec import Struct, field

_LEAST_SECONDS = 20e-6
_GROWTH = 1.05
_LOG_GROWTH = log(_GROWTH)
_BUCKETS = 340  # the last holds whatever took five minutes and more


class LoadCounters(Struct, kw_only=True):
    """Counts of reports; `late` are turns that passed while an earlier one was still out.

    `failed` were refused for good. `spread` counts the acknowledged by how long they took,
    in steps of 5 %.
    """

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    late: int = 0
    lost_connections: int = 0
    latency_histogram: list[int] = field(default_factory=lambda: [0] * _BUCKETS)

    def acknowledge(self, seconds: float) -> None:
        """Count one report that the hub has taken."""
        self.acknowledged += 1
        step = int(log(max(seconds, _LEAST_SECONDS) / _LEAST_SECONDS) / _LOG_GROWTH)
        self.latency_histogram[min(step, _BUCKETS - 1)] += 1

    def latency_quantile_seconds(self, quantile: float) -> float | None:
        """How soon that share of the acknowledged came back; `None` when there are none."""
        up_to = list(accumulate(self.latency_histogram))
        if not up_to[-1]:
            return None
        step = bisect_left(up_to, quantile * up_to[-1])
        return float(_LEAST_SECONDS * _GROWTH ** (step + 1))

    def copy(self) -> "LoadCounters":
        """As it is now."""
        return self.since(LoadCounters())

    def since(self, before: "LoadCounters") -> "LoadCounters":
        """What was counted after `before` was copied."""
        return LoadCounters(
            sent=self.sent - before.sent,
            acknowledged=self.acknowledged - before.acknowledged,
            failed=self.failed - before.failed,
            late=self.late - before.late,
            lost_connections=self.lost_connections - before.lost_connections,
            latency_histogram=[
                now - then
                for now, then in zip(self.latency_histogram, before.latency_histogram, strict=True)
            ],
        )
