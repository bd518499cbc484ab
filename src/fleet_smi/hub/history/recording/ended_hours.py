"""Usage of the current hour of recorders that have ended, for the next recorder of their node."""

from math import inf

from fleet_smi.hub.history.recording.ledger import Ledger
from fleet_smi.hub.history.recording.ledger_state import LedgerState
from fleet_smi.hub.history.recording.usage import UsageBuckets, hour_start


class EndedHours:
    """The sums of nodes that were removed or set aside, as long as their hour lasts.

    A row of sums replaces the stored one of its hour: that of a node which comes back within the
    hour must have what was counted before.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, UsageBuckets] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def add(self, node_id: str, ledger: Ledger, now: float) -> None:
        """Keep the sums of a ledger that has ended; forget those of earlier hours."""
        hour = hour_start(now) if now > -inf else 0
        self._buckets = {
            other: buckets
            for other, buckets in self._buckets.items()
            if any(bucket.hour >= hour for bucket in buckets)
        }
        self._buckets[node_id] = ledger.hour_buckets

    def next_ledger(self, node_id: str) -> Ledger:
        """A new ledger of a node, which continues the sums that were kept."""
        buckets = self._buckets.pop(node_id, {})
        return Ledger(node_id, LedgerState(buckets=list(buckets.items())))
