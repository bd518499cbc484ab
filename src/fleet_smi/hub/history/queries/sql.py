"""SQL queries over the stored history: everything that has ended.

Every method reads from a disk or a server: call them on a worker thread.
"""

from collections.abc import Collection, Sequence
from itertools import groupby
from math import inf
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
from fleet_smi.hub.history.storage.bulk import fetch_all
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

_NODE_COLUMNS = (nodes.c.node_id, nodes.c.name, nodes.c.labels)
_SELECT_PRESENCE = select(nodes.c.node_id, presence.c.start, presence.c.end, presence.c.certain)
_MAX_NODES_IN_QUERY = 16
AnyRow = Row[*tuple[Any, ...]]
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode


class HistoryQueries:
    """Queries of a store; times are those of the hub's clock."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._partitioned = store.kind == "postgresql"

    def nodes(self) -> list[NodeRow]:
        """Every stored node."""
        with self._store.read_transaction() as connection:
            rows = connection.execute(select(*_NODE_COLUMNS).order_by(nodes.c.key)).all()
        return [
            NodeRow(node_id=node_id, name=name, labels=_decode_labels(labels))
            for node_id, name, labels in rows
        ]

    def gpus(self, node_ids: Collection[str] | None = None) -> list[GpuOfNode]:
        """Every stored GPU and instance, of these nodes or all."""
        with self._store.read_transaction() as connection:
            return list(_gpus(connection, node_ids).values())

    def periods(
        self, gpu_keys: Collection[GpuKey] | None, start: float, end: float
    ) -> list[GpuPeriods]:
        """The periods of these GPUs, or all, in a range; a GPU without any is left out."""
        node_ids = None if gpu_keys is None else {node_id for node_id, _ in gpu_keys}
        with self._store.read_transaction() as connection:
            gpu_by_id = _gpus(connection, node_ids)
            query = select_periods(start, end, node_ids, partitioned=self._partitioned)
            rows = connection.execute(query).all()
        # Nulls are from the outer join: the row of a GPU without periods.
        return [
            GpuPeriods(gpu=gpu_by_id[gpu_id], periods=tuple(map(period_from_row, of_gpu)))
            for gpu_id, of_gpu in groupby(rows, _gpu_id)
            if gpu_id is not None
            and (
                gpu_keys is None or (gpu_by_id[gpu_id].node_id, gpu_by_id[gpu_id].uuid) in gpu_keys
            )
        ]

    def strip_intervals(
        self, gpu_keys: Collection[GpuKey], start: float, end: float
    ) -> list[tuple[GpuOfNode, list[StripInterval]]]:
        """The periods of these GPUs in a range, with only what a heat strip shows."""
        node_ids = _few_node_ids(gpu_keys)
        with self._store.read_transaction() as connection:
            gpu_by_id = _gpus(connection, node_ids)
            query = select_periods(
                start, end, node_ids, schema.LOOK_COLUMNS, partitioned=self._partitioned
            )
            rows = fetch_all(connection, query)
        return [
            (
                gpu_by_id[gpu_id],
                [
                    (since, until, (state, user, others), load)
                    for _, since, until, state, user, others, load in of_gpu
                ],
            )
            for gpu_id, of_gpu in groupby(rows, _gpu_id)
            if gpu_id is not None
            and (gpu_by_id[gpu_id].node_id, gpu_by_id[gpu_id].uuid) in gpu_keys
        ]

    def strip_samples(self, gpu_keys: Collection[GpuKey], times: SampleTimes) -> GpuStripSamples:
        """The strip samples of these GPUs at these times; a GPU without any is left out."""
        node_ids = _few_node_ids(gpu_keys)
        with self._store.read_transaction() as connection:
            gpu_by_id = _gpus(connection, node_ids)
            by_id = strip_sample_rows.read_samples(
                connection, times, None if node_ids is None else gpu_by_id
            )
            looks = strip_sample_rows.read_looks(connection)
        by_gpu = {
            (gpu_by_id[gpu_id].node_id, gpu_by_id[gpu_id].uuid): samples
            for gpu_id, samples in by_id.items()
        }
        wanted = {gpu_key: by_gpu[gpu_key] for gpu_key in gpu_keys if gpu_key in by_gpu}
        return GpuStripSamples(wanted, looks)

    def periods_at(self, at: float) -> list[tuple[GpuOfNode, Period]]:
        """The last period of each GPU that began at or before a time; it may have ended."""
        with self._store.read_transaction() as connection:
            gpu_by_id = _gpus(connection)
            query = select_last_periods(at, partitioned=self._partitioned)
            rows = connection.execute(query).all()
        return [(gpu_by_id[row.gpu], period_from_row(row)) for row in rows if row.gpu is not None]

    def occupancies(
        self, start: float, end: float, user: str | None = None, node_id: str | None = None
    ) -> list[GpuOccupancies]:
        """The processes on each GPU in a range, of one user and on one node or all."""
        overlaps = (occupancies.c.end > start) & (occupancies.c.start < end)
        if user is not None:
            person_keys = select(people.c.key).where(people.c.user == user)
            query = select(occupancies).where(overlaps, occupancies.c.person.in_(person_keys))
        else:
            # The subquery reads an index only: most occupancies that end later also begin later,
            # so a condition on both times would otherwise read many rows for nothing.
            keys = occupancies.primary_key
            query = select(occupancies).where(tuple_(*keys).in_(select(*keys).where(overlaps)))
        with self._store.read_transaction() as connection:
            gpu_by_id = _gpus(connection, None if node_id is None else {node_id})
            if node_id is not None:
                query = query.where(occupancies.c.gpu.in_(gpu_by_id))
            rows = connection.execute(query).all()
        return [
            GpuOccupancies(gpu=gpu_by_id[gpu_id], occupancies=tuple(map(_occupancy, of_gpu)))
            for gpu_id, of_gpu in groupby(sorted(rows, key=_gpu_and_start), _gpu_id)
        ]

    def durations(self, since: float, limit: int) -> list[tuple[str, float]]:
        """Who had a GPU for how many seconds, of what ended since a time; the latest last."""
        found = occupancies.c.end, occupancies.c.start, people.c.user
        of_person = occupancies.join(people, people.c.key == occupancies.c.person)
        query = select(*found).select_from(of_person).where(occupancies.c.end > since)
        latest = query.order_by(occupancies.c.end.desc()).limit(limit)
        with self._store.read_transaction() as connection:
            rows = connection.execute(latest).all()
        # One job has a row per process and GPU: to the minute, they are one.
        jobs = {(user, start // 60, end // 60): end - start for end, start, user in reversed(rows)}
        return [(user, seconds) for (user, _, _), seconds in jobs.items()]

    def presence(self, start: float, end: float) -> list[Presence]:
        """The intervals in which nodes were reporting, the oldest first."""
        query = _SELECT_PRESENCE.where(presence.c.node == nodes.c.key)
        overlapping = query.where(presence.c.end > start, presence.c.start < end)
        with self._store.read_transaction() as connection:
            return list(map(_presence, connection.execute(overlapping.order_by(presence.c.start))))

    def presence_at(self, at: float) -> list[Presence]:
        """The last interval of each node that began at or before a time; it may have ended."""
        earlier = presence.alias()
        last = select(func.max(earlier.c.start)).where(
            earlier.c.node == nodes.c.key, earlier.c.start <= at
        )
        of_node = (presence.c.node == nodes.c.key) & (presence.c.start == last.scalar_subquery())
        query = _SELECT_PRESENCE.select_from(nodes.join(presence, of_node))
        with self._store.read_transaction() as connection:
            return list(map(_presence, connection.execute(query)))

    def gaps(self, start: float, end: float) -> list[Gap]:
        """The gaps in which rows could not be written, the oldest first."""
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
        """The figures of a node at the finest grain that gives at most `max_points` points."""
        with self._store.read_transaction() as connection:
            grain = series_reader.choose_grain(connection, start, end, max_points, live_rows)
            stored = series_reader.read_rows(connection, node_id, start, end, grain)
            fallback = series_reader.read_fallback_rows(connection, node_id, start, end, grain)
        rows = series_reader.merge_live_rows(stored, live_rows, start, end, grain)
        return series_reader.to_series(rows, start, end, grain, max_points, fallback)

    def series_at(self, at: float) -> list[SeriesRow]:
        """The finest row of each node that contains a time."""
        with self._store.read_transaction() as connection:
            return series_reader.read_rows_at(connection, at)

    def usages(
        self,
        start: float,
        end: float,
        by: GroupBy = "user",
        *,
        daily: bool = False,
        not_before: float = -inf,
    ) -> Usages:
        """The usage sums of a range, cut where the ledger begins: `not_before`, or later."""
        with self._store.read_transaction() as connection:
            return totals.read_usages(
                connection, start, end, by, daily=daily, not_before=not_before
            )

    def ribbon(self, start: float, end: float, max_columns: int) -> Ribbon:
        """The fleet over time in at most `max_columns` columns; those without data are left out."""
        with self._store.read_transaction() as connection:
            return ribbon_sql.read_ribbon(connection, start, end, max_columns)

    def oldest_time(self) -> float | None:
        """The time of the oldest stored row; `None` in an empty history."""
        with self._store.read_transaction() as connection:
            # Nothing else is older: all rows of a node lie within its presence.
            oldest = [
                connection.scalar(select(func.min(column)))
                for column in (schema.moments.c.at, presence.c.start)
            ]
        return min([at for at in oldest if at is not None], default=None)


def _gpus(connection: Connection, node_ids: Collection[str] | None = None) -> dict[int, GpuOfNode]:
    query = select(gpus, nodes.c.node_id, nodes.c.name).join(nodes, nodes.c.key == gpus.c.node)
    if node_ids is not None:
        query = query.where(nodes.c.node_id.in_(node_ids))
    return {
        key: GpuOfNode(
            uuid=uuid,
            node_id=node_id,
            node=name,
            index=index,
            vendor=vendor,
            model=model,
            memory_total_bytes=memory_total_bytes,
            parent=parent,
        )
        for (
            key,
            _,
            uuid,
            index,
            vendor,
            model,
            memory_total_bytes,
            parent,
            node_id,
            name,
        ) in fetch_all(connection, query.order_by(gpus.c.key))
    }


def _few_node_ids(gpu_keys: Collection[GpuKey]) -> set[str] | None:
    """The node ids to select, if they are few; `None` to read all, which is one sequential scan."""
    node_ids = {node_id for node_id, _ in gpu_keys}
    return node_ids if len(node_ids) < _MAX_NODES_IN_QUERY else None


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


_gpu_id = itemgetter(0)  # the integer in the database, not a `GpuKey`
_gpu_and_start = itemgetter(0, 1)


def _presence(row: AnyRow) -> Presence:
    node_id, start, end, certain = row
    return Presence(node_id=node_id, start=start, end=end, certain=certain)
