"""Load test counters: reports sent and acknowledged, with a latency histogram."""

from bisect import bisect_left
from itertools import accumulate
from math import log

from msgspec import Struct, field

_MIN_SECONDS = 20e-6
_GROWTH = 1.05  # per bucket, so a quantile is accurate to 5 %
_LOG_GROWTH = log(_GROWTH)
_BUCKETS = 340  # the last one counts five minutes and more


class LoadCounters(Struct, kw_only=True):
    """Report counts and acknowledgement latencies.

    `late` counts reports skipped because the previous one was still unacknowledged, or for lack
    of a connection; `failed` those the hub rejected permanently, or had not acknowledged at the
    end. A retry does not count as `sent`. `compact` of the sent ones were compact reports, and
    `sent_bytes` is the size of all bodies. The buckets of `latency_histogram` grow by 5 % each.
    """

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    late: int = 0
    lost_connections: int = 0
    compact: int = 0
    sent_bytes: int = 0
    latency_histogram: list[int] = field(default_factory=lambda: [0] * _BUCKETS)

    def acknowledge(self, seconds: float) -> None:
        """Count one acknowledged report."""
        self.acknowledged += 1
        bucket = int(log(max(seconds, _MIN_SECONDS) / _MIN_SECONDS) / _LOG_GROWTH)
        self.latency_histogram[min(bucket, _BUCKETS - 1)] += 1

    def latency_quantile_seconds(self, quantile: float) -> float | None:
        """Return a latency quantile, or `None` before the first acknowledgement."""
        cumulative = list(accumulate(self.latency_histogram))
        if not cumulative[-1]:
            return None
        bucket = bisect_left(cumulative, quantile * cumulative[-1])
        # The upper edge of the bucket: a quantile is never reported too small.
        return float(_MIN_SECONDS * _GROWTH ** (bucket + 1))

    def copy(self) -> "LoadCounters":
        """Return an independent copy."""
        return self.since(LoadCounters())

    def since(self, before: "LoadCounters") -> "LoadCounters":
        """Return the difference from an earlier copy."""
        return LoadCounters(
            sent=self.sent - before.sent,
            acknowledged=self.acknowledged - before.acknowledged,
            failed=self.failed - before.failed,
            late=self.late - before.late,
            lost_connections=self.lost_connections - before.lost_connections,
            compact=self.compact - before.compact,
            sent_bytes=self.sent_bytes - before.sent_bytes,
            latency_histogram=[
                now - then
                for now, then in zip(self.latency_histogram, before.latency_histogram, strict=True)
            ],
        )
