"""A history storage in memory: rows replace those with the same key, as in the database."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from msgspec.structs import asdict, replace

from fleet_smi.fleet.fleet import FleetChange, FleetState
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.rows import (
    Checkpoint,
    NodeRow,
    Presence,
    RejectedRow,
    UsageRow,
    WriteBatch,
)
from fleet_smi.hub.history.series.codec import MAX_ROW_SECONDS, cut_row, slice_row_at
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.model.history import Gap, GpuOfNode, Occupancy, Period, RibbonPoint, Sums
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON


class InMemoryHistory:
    """Every row that was put, by its key."""

    is_behind = is_full = is_failing = False

    def __init__(self) -> None:
        self.batches: list[WriteBatch] = []
        self.gaps: list[Gap] = []
        self.nodes: dict[str, NodeRow] = {}
        self.gpus: dict[GpuKey, GpuOfNode] = {}
        self.moments: dict[float, RibbonPoint] = {}
        self._periods: dict[tuple[GpuKey, float], Period] = {}
        self._occupancies: dict[tuple[GpuKey, float, int], Occupancy] = {}
        self._presence: dict[tuple[str, float], Presence] = {}
        self._series: dict[tuple[int, str, int], SeriesRow] = {}
        self._usage: dict[tuple[object, ...], UsageRow] = {}
        self._checkpoints: dict[str, Checkpoint] = {}

    def put(self, batch: WriteBatch) -> int:
        self.batches.append(batch)
        for span in batch.replaced:
            self._replace(*span)
        self.gaps += batch.gaps
        self.nodes |= {row.node_id: row for row in batch.nodes}
        self.gpus |= {(row.node_id, row.uuid): row for row in batch.gpus}
        self.moments |= {row.at: row for row in batch.moments}
        self._periods |= {(place, row.start): row for place, row in batch.periods}
        for place, start, pid in batch.removed_occupancies:
            self._occupancies.pop((place, start, pid), None)
        for place, row in batch.occupancies:
            self._occupancies[place, row.start, row.holder.pid] = row
        self._presence |= {(row.node_id, row.start): row for row in batch.presence}
        self._series |= {(row.grain_seconds, row.node_id, row.start): row for row in batch.series}
        for one in batch.usage:
            self._usage[one.hour, one.gpu_key, one.user, one.group, one.state] = one
        self._checkpoints |= {row.node_id: row for row in batch.checkpoints}
        for node_id in batch.removed_nodes:
            self._checkpoints.pop(node_id, None)
        return len(self.batches)

    def _replace(self, start: float, end: float) -> None:
        """Remove what is stored of a time span; rows that reach into it are cut."""
        tables: list[dict[Any, Any]] = [self._periods, self._occupancies, self._presence]
        for rows in tables:
            for key, row in list(rows.items()):
                if start <= row.start < end:
                    del rows[key]
                elif row.start < start < row.end:
                    rows[key] = _cut(row, start)
        self._usage = {key: row for key, row in self._usage.items() if not start < row.hour <= end}
        self._series = {
            key: cut_row(row, start) if start == end and row.start <= start else row
            for key, row in self._series.items()
            if not start < row.start <= end
        }

    def recorded_until(self) -> float:
        rows: list[Any] = [*self._periods.values(), *self._occupancies.values()]
        rows += self._presence.values()
        return max([row.end for row in rows if row.end is not None], default=-inf)

    def is_written(self, number: int) -> bool:
        return number <= len(self.batches)

    def take_rejected(self) -> list[RejectedRow]:
        return []

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._checkpoints[checkpoint.node_id] = checkpoint

    def checkpoints(self) -> list[Checkpoint]:
        return list(self._checkpoints.values())

    def unfinished_rows(self, since: Mapping[str, float]) -> list[SeriesRow]:
        mine = [one for one in self._series.values() if one.node_id in since]
        return sorted(mine, key=lambda one: one.start)

    def periods(self, uuid: str, node_id: str = "id-of-gpu01") -> list[Period]:
        mine = [one for (place, _), one in self._periods.items() if place == (node_id, uuid)]
        return sorted(mine, key=lambda one: one.start)

    def occupancies(self, uuid: str | None = None) -> list[Occupancy]:
        items = self._occupancies.items()
        mine = [one for (place, *_), one in items if uuid is None or place[1] == uuid]
        return sorted(mine, key=lambda one: (one.start, one.holder.pid))

    def presence(self, node_id: str = "id-of-gpu01") -> list[Presence]:
        mine = [one for one in self._presence.values() if one.node_id == node_id]
        return sorted(mine, key=lambda one: one.start)

    def series(self, grain_seconds: int = 10) -> list[SeriesRow]:
        """Return one row per grain that has data, whatever rows it was stored in."""
        mine = [one for one in self._series.values() if one.grain_seconds == grain_seconds]
        parts = [
            slice_row_at(row, start)
            for row in mine
            for start in range(
                row.start, row.start + MAX_ROW_SECONDS + grain_seconds, grain_seconds
            )
        ]
        return sorted([one for one in parts if one is not None], key=lambda one: one.start)

    def usage(self) -> list[UsageRow]:
        return list(self._usage.values())

    def gpu_seconds(self, **fields: object) -> float:
        """The GPU-seconds of the usage rows that have these values."""
        return sum(
            row.sums.gpu_seconds
            for row in self._usage.values()
            if all(getattr(row, name) == value for name, value in fields.items())
        )


def _cut(row: Any, end: float) -> Any:
    """The part of a row before a time, with its share of the sums."""
    cut: dict[str, Any] = {"end": end, "certain": False}
    if isinstance(row, Occupancy) and row.end is not None:
        share = (end - row.start) / (row.end - row.start)
        sums = asdict(row.sums).items()
        cut["sums"] = Sums(**{name: share * value for name, value in sums})
    return replace(row, **cut)


class RecordedFleet:
    """A fleet with a history recorder, which can be restarted on what was stored."""

    def __init__(
        self, stored: InMemoryHistory | None = None, fleet: FleetState | None = None
    ) -> None:
        self.stored = InMemoryHistory() if stored is None else stored
        self.fleet = FleetState() if fleet is None else fleet
        self.history = HistoryRecorder(self.fleet, self.stored)
        self.history.restore()

    def take(self, snapshot: Snapshot, at: float) -> FleetChange | None:
        change = self.fleet.apply(snapshot, at)
        if change is not None:
            self.history.record(change)
        return change

    def restart(self) -> "RecordedFleet":
        """Restart after a `kill -9`: only the stored rows and the fleet's state remain."""
        return RecordedFleet(self.stored, self.fleet)


def relative_times(rows: Iterable[Any]) -> list[tuple[float, float | None]]:
    """Return start and end of each row, in seconds after `NOON`."""
    return [(one.start - NOON, None if one.end is None else one.end - NOON) for one in rows]
