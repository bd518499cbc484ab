"""Ledger state: what is open in the ledger of one node, as stored in a checkpoint."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.hub.history.recording.intervals import Occupant, OpenInterval
from fleet_smi.hub.history.recording.occupancy_joins import EndedOccupant
from fleet_smi.hub.history.recording.usage import UsageAccumulator, UsageBucket

TimeGap = tuple[float, float]
"""Start and end of a silence of the node. In a `Gap` of the model, rows could not be written."""


class LedgerState(Struct, kw_only=True, array_like=True):
    """The open state of a ledger, as stored in a checkpoint.

    The node has reported since `since`, the end of its last gap. `dormant` are the occupants of
    each device when the node fell silent: they continue if they are there after the gap. `ended`
    are those that have ended since, in case that late reports fill a gap. Usage between
    `counted_from` and `counted_until` was counted before the clock was set back. The node was first
    recorded at `begun`, where that is known.
    """

    since: float | None = None
    hour: int = 0
    intervals: dict[str, OpenInterval] = {}
    dormant: dict[str, list[Occupant]] = {}
    buckets: list[tuple[UsageBucket, UsageAccumulator]] = []
    gaps: list[TimeGap] = []
    ended: list[EndedOccupant] = []
    counted_until: float = 0.0
    counted_from: float = 0.0
    begun: float | None = None


def move_columns(state: LedgerState, positions: Mapping[int, int]) -> None:
    """Change the sample columns that open intervals refer to, by former and new position."""
    for interval in state.intervals.values():
        busy, power = interval.use.busy_index, interval.use.power_index
        interval.use = replace(
            interval.use,
            busy_index=None if busy is None else positions.get(busy),
            power_index=None if power is None else positions.get(power),
        )
