"""What is asked of the history: answers from the database, of what has ended.

Every method looks at a disk or asks a server: call them where waiting does no harm.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, select, tuple_

from fleet_smi.hub.history.queries import ribbon_sql, totals
from fleet_smi.hub.history.queries.period_sql import (
    period_from_row,
    select_last_periods,
    select_periods,
)
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.rows import NodeRow, Presence
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.hub.history.series.strip_samples import GpuStripSamples, SampleTimes
from fleet_smi.hub.history.storage import schema, series_reader, strip_sample_rows
from fleet_smi.hub.history.storage.holder_codec import decode_holders
from fleet_smi.hub.history.storage.schema import gpus, nodes, occupancies, people, presence
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.heat_strip import StripInterval
from fleet_smi.model.history import (
    Gap,
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Occupancy,
    Period,
    Ribbon,
    Series,
    Sums,
    Usages,
)

_NODE = (nodes.c.node_id, nodes.c.name, nodes.c.labels)
_PRESENCE = select(nodes.c.node_id, presence.c.start, presence.c.end, presence.c.certain)
_MANY_NODES = 16
AnyRow = Row[*tuple[Any, ...]]
_labels = msgspec.json.Decoder(dict[str, str]).decode


class HistoryQueries:
    """Questions about stretches from `start` to `end`, by the hub's clock."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    def nodes(self) -> list[NodeRow]:
        """Every node that was ever written down."""
        with self._store.read_transaction() as connection:
            rows = connection.execute(select(*_NODE).order_by(nodes.c.key)).all()
        return [
            NodeRow(node_id=node_id, name=name, labels=_labels(labels))
            for node_id, name, labels in rows
        ]

    def gpus(self, node_ids: Collection[str] | None = None) -> list[GpuOfNode]:
        """Every GPU and instance that was ever written down, of these nodes."""
        with self._store.read_transaction() as connection:
            return list(_gpus(connection, node_ids).values())

    def periods(
        self, gpu_keys: Collection[GpuKey] | None, start: float, end: float
    ) -> list[GpuPeriods]:
        """How these GPUs stood, or all; one that nobody heard of in that time is left out."""
        node_ids = None if gpu_keys is None else {node_id for node_id, _ in gpu_keys}
        with self._store.read_transaction() as connection:
            known = _gpus(connection, node_ids)
            rows = connection.execute(select_periods(start, end, node_ids)).all()
        return [
            GpuPeriods(gpu=known[key], periods=tuple(map(period_from_row, of_gpu)))
            for key, of_gpu in groupby(rows, _gpu_key)
            if key is not None
            and (gpu_keys is None or (known[key].node_id, known[key].uuid) in gpu_keys)
        ]

    def strip_intervals(
        self, gpu_keys: Collection[GpuKey], start: float, end: float
    ) -> list[tuple[GpuOfNode, list[StripInterval]]]:
        """The same of these GPUs, as far as a heat strip shows it."""
        asked_of = _few(gpu_keys)
        with self._store.read_transaction() as connection:
            known = _gpus(connection, asked_of)
            rows = connection.execute(
                select_periods(start, end, asked_of, schema.LOOK_COLUMNS)
            ).all()
        return [
            (
                known[key],
                [
                    (since, until, (state, user, others), load)
                    for _, since, until, state, user, others, load in of_gpu
                ],
            )
            for key, of_gpu in groupby(rows, _gpu_key)
            if key is not None and (known[key].node_id, known[key].uuid) in gpu_keys
        ]

    def strip_samples(self, gpu_keys: Collection[GpuKey], times: SampleTimes) -> GpuStripSamples:
        """How these GPUs looked at some moments; one that nobody heard of then is left out."""
        asked_of = _few(gpu_keys)
        with self._store.read_transaction() as connection:
            known = _gpus(connection, asked_of)
            found = strip_sample_rows.read_samples(
                connection, times, None if asked_of is None else known
            )
            looks = strip_sample_rows.read_looks(connection)
        each = {(known[key].node_id, known[key].uuid): some for key, some in found.items()}
        return GpuStripSamples({place: each[place] for place in gpu_keys if place in each}, looks)

    def periods_at(self, at: float) -> list[tuple[GpuOfNode, Period]]:
        """The last period of each GPU that had begun by then; it may have ended before."""
        with self._store.read_transaction() as connection:
            known = _gpus(connection)
            rows = connection.execute(select_last_periods(at)).all()
        return [(known[row.gpu], period_from_row(row)) for row in rows if row.gpu is not None]

    def occupancies(
        self, start: float, end: float, user: str | None = None, node_id: str | None = None
    ) -> list[GpuOccupancies]:
        """The processes on each GPU in that time: of this user, on this node."""
        within = (occupancies.c.end > start) & (occupancies.c.start < end)
        if user is not None:
            theirs = select(people.c.key).where(people.c.user == user)
            asked = select(occupancies).where(within, occupancies.c.person.in_(theirs))
        else:
            # Found in an index alone, then looked up: most that end later also begin later.
            keys = occupancies.primary_key
            asked = select(occupancies).where(tuple_(*keys).in_(select(*keys).where(within)))
        with self._store.read_transaction() as connection:
            known = _gpus(connection, None if node_id is None else {node_id})
            if node_id is not None:
                asked = asked.where(occupancies.c.gpu.in_(known))
            rows = connection.execute(asked).all()
        return [
            GpuOccupancies(gpu=known[key], occupancies=tuple(map(_occupancy, of_gpu)))
            for key, of_gpu in groupby(sorted(rows, key=_gpu_and_start), _gpu_key)
        ]

    def presence(self, start: float, end: float) -> list[Presence]:
        """When each node was heard, the oldest first."""
        asked = _PRESENCE.where(presence.c.node == nodes.c.key)
        between = asked.where(presence.c.end > start, presence.c.start < end)
        with self._store.read_transaction() as connection:
            return list(map(_presence, connection.execute(between.order_by(presence.c.start))))

    def presence_at(self, at: float) -> list[Presence]:
        """The last stretch of each node that had begun by then; it may have ended before."""
        begun = presence.alias()
        last = select(func.max(begun.c.start)).where(
            begun.c.node == nodes.c.key, begun.c.start <= at
        )
        of_node = (presence.c.node == nodes.c.key) & (presence.c.start == last.scalar_subquery())
        asked = _PRESENCE.select_from(nodes.join(presence, of_node))
        with self._store.read_transaction() as connection:
            return list(map(_presence, connection.execute(asked)))

    def gaps(self, start: float, end: float) -> list[Gap]:
        """Where something could not be written down, the oldest first."""
        with self._store.read_transaction() as connection:
            return ribbon_sql.read_gaps(connection, start, end)

    def series(
        self,
        node_id: str,
        start: float,
        end: float,
        max_points: int = 1000,
        live_rows: Sequence[SeriesRow] = (),
    ) -> Series:
        """The figures of a node, as fine as there are and not more than so many points."""
        with self._store.read_transaction() as connection:
            grain = series_reader.choose_grain(connection, start, end, max_points, live_rows)
            ended = series_reader.read_rows(connection, node_id, start, end, grain)
            coarsest = series_reader.read_fallback_rows(connection, node_id, start, end, grain)
        rows = series_reader.merge_live_rows(ended, live_rows, start, end, grain)
        return series_reader.to_series(rows, start, end, grain, max_points, coarsest)

    def series_at(self, at: float) -> list[SeriesRow]:
        """The finest row of each node that there is of a moment."""
        with self._store.read_transaction() as connection:
            return series_reader.read_rows_at(connection, at)

    def usages(
        self, start: float, end: float, by: GroupBy = "user", *, daily: bool = False
    ) -> Usages:
        """What everybody or everything comes to."""
        with self._store.read_transaction() as connection:
            return totals.read_usages(connection, start, end, by, daily=daily)

    def ribbon(self, start: float, end: float, max_columns: int) -> Ribbon:
        """The fleet over time, in at most so many parts; those that nobody kept are left out."""
        with self._store.read_transaction() as connection:
            return ribbon_sql.read_ribbon(connection, start, end, max_columns)

    def oldest_time(self) -> float | None:
        """Since when there is anything."""
        with self._store.read_transaction() as connection:
            found = [
                connection.scalar(select(func.min(column)))
                for column in (schema.moments.c.at, presence.c.start)
            ]
        return min([at for at in found if at is not None], default=None)


def _gpus(connection: Connection, node_ids: Collection[str] | None = None) -> dict[int, GpuOfNode]:
    asked = select(gpus, nodes.c.node_id, nodes.c.name).join(nodes, nodes.c.key == gpus.c.node)
    if node_ids is not None:
        asked = asked.where(nodes.c.node_id.in_(node_ids))
    return {
        row.key: GpuOfNode(
            uuid=row.uuid,
            node_id=row.node_id,
            node=row.name,
            index=row[3],  # rows have a method of its name
            vendor=row.vendor,
            model=row.model,
            memory_total_bytes=row.memory_total_bytes,
            parent=row.parent,
        )
        for row in connection.execute(asked.order_by(gpus.c.key))
    }


def _few(places: Collection[GpuKey]) -> set[str] | None:
    """The nodes to ask for, if they are few: else all are read, in the order in which they lie."""
    node_ids = {node_id for node_id, _ in places}
    return node_ids if len(node_ids) < _MANY_NODES else None


def _occupancy(row: AnyRow) -> Occupancy:
    (_, start, _, end, certain, _, holder, gpu, measured, busy, idle, energy, *memory) = row
    mean_memory, peak_memory = memory
    return Occupancy(
        holder=decode_holders(holder)[0],
        start=start,
        end=end,
        certain=certain,
        sums=Sums(
            gpu_seconds=gpu,
            measured_seconds=measured,
            busy_seconds=busy,
            idle_seconds=idle,
            energy_joules=energy,
        ),
        mean_memory_bytes=mean_memory,
        peak_memory_bytes=peak_memory,
    )


_gpu_key = itemgetter(0)
_gpu_and_start = itemgetter(0, 1)


def _presence(row: AnyRow) -> Presence:
    node_id, start, end, certain = row
    return Presence(node_id=node_id, start=start, end=end, certain=certain)
