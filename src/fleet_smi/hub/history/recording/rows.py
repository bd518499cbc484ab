"""The rows of a write batch: the types that the recorder hands to the storage queue."""

from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.model.fleet import State
from fleet_smi.model.history import Gap, GpuOfNode, Occupancy, Period, RibbonPoint, Sums

OccupancyKey = tuple[GpuKey, float, int]
"""The GPU, the start and the pid of an occupancy."""


class NodeRow(Struct, frozen=True, kw_only=True, gc=False):
    """A node with its current display name and labels."""

    node_id: str
    name: str
    labels: dict[str, str] = {}


class Presence(Struct, frozen=True, kw_only=True, gc=False):
    """An interval during which a node reported; `end` is `None` while it still does."""

    node_id: str
    start: float
    end: float | None
    certain: bool = True


class UsageRow(Struct, frozen=True, kw_only=True, gc=False):
    """The usage sums of one user on one GPU in one state, for the hour that begins at `hour`."""

    hour: int
    gpu_key: GpuKey
    user: str
    group: str
    state: State
    sums: Sums


class Checkpoint(Struct, frozen=True, kw_only=True, gc=False):
    """The encoded open state of one node, from which a restarted hub resumes."""

    node_id: str
    data: bytes


class OpenIntervals(Struct, frozen=True):
    """Intervals that have not ended, or are not written yet."""

    periods: list[tuple[GpuKey, Period]]
    occupancies: list[tuple[GpuKey, Occupancy]]
    presence: list[Presence]


class RejectedRow(NamedTuple):
    """A row that the database rejects: the list that it is from, and its node if it has one."""

    name: str
    node_id: str | None
    error: Exception


class WriteBatch(Struct, kw_only=True):
    """Rows that are written in one transaction, in the order of these fields.

    Writing the same rows twice changes nothing.
    """

    nodes: list[NodeRow] = []
    gpus: list[GpuOfNode] = []
    replaced: list[tuple[float, float]] = []
    """Time spans of which everything that is stored goes: the clock was set back before them."""
    periods: list[tuple[GpuKey, Period]] = []
    removed_occupancies: list[OccupancyKey] = []
    """Rows that late reports have shown to be parts of others."""
    occupancies: list[tuple[GpuKey, Occupancy]] = []
    presence: list[Presence] = []
    series: list[SeriesRow] = []
    moments: list[RibbonPoint] = []
    gaps: list[Gap] = []
    usage: list[UsageRow] = []
    checkpoints: list[Checkpoint] = []
    removed_nodes: list[str] = []
    """Ids of nodes whose checkpoints are to be deleted."""

    @property
    def interval_row_count(self) -> int:
        """The number of rows whose start time the recorder chose.

        They must be written with a checkpoint: an older one would let a restarted hub write
        them again under a slightly different start. All other rows are keyed by clock times
        and replace themselves.
        """
        return len(self.periods) + len(self.occupancies) + len(self.presence)

    def remove_occupancies(self, keys: Collection[OccupancyKey]) -> None:
        """Remove rows: those that are stored, and those of this batch."""
        if keys:
            # Stored rows are removed before others are written: one of this batch would stay.
            self.removed_occupancies += keys
            removed = set(keys)
            self.occupancies = [
                (gpu_key, row)
                for gpu_key, row in self.occupancies
                if (gpu_key, row.start, row.holder.pid) not in removed
            ]

    def extend(self, *others: "WriteBatch") -> None:
        """Append all rows of other batches, without rows of this one that they remove."""
        # Of all batches at once, because this one may have very many rows.
        self.remove_occupancies([key for other in others for key in other.removed_occupancies])
        for name in self.__struct_fields__:
            if name != "removed_occupancies":
                for other in others:
                    getattr(self, name).extend(getattr(other, name))
