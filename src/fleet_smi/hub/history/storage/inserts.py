"""Inserts: write a batch as rows of the database."""

from msgspec.structs import asdict
from sqlalchemy import Connection, text

from fleet_smi.hub.history.recording.rows import Presence, UsageRow, WriteBatch
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.hub.history.series.strip_samples import LookInterval
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.bulk import RowValues, execute_bulk
from fleet_smi.hub.history.storage.holder_codec import encode_holders
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.replaced_rows import remove_span
from fleet_smi.hub.history.storage.schema import upsert_statement
from fleet_smi.hub.history.storage.strip_sample_rows import write_samples
from fleet_smi.hub.history.storage.usage_rollup import write_usage_hours
from fleet_smi.model.fleet import STATES
from fleet_smi.model.heat_strip import period_look
from fleet_smi.model.history import Gap, Occupancy, Period, RibbonPoint

_PERIOD = upsert_statement(schema.periods)
_OCCUPANCY = upsert_statement(schema.occupancies)
_PRESENCE = upsert_statement(schema.presence)
_SERIES = upsert_statement(schema.series)
_MOMENT = upsert_statement(schema.moments)
_GAP = upsert_statement(schema.gaps)
_CHECKPOINT = upsert_statement(schema.checkpoints)
_DELETE_OCCUPANCY = text(
    'DELETE FROM occupancies WHERE gpu = :gpu AND "start" = :start AND pid = :pid'
)
_DELETE_CHECKPOINT = text("DELETE FROM checkpoints WHERE node = :node")


def write_batch(connection: Connection, ids: IdCache, batch: WriteBatch) -> None:
    """Write all rows of a batch; the caller commits."""
    ids.resolve(connection, batch)
    for span in batch.replaced:
        remove_span(connection, *span)
    rows = _RowBuilder(ids)
    execute_bulk(connection, _PERIOD, [rows.period(*item) for item in batch.periods])
    # Samples are derived from the periods, so they are written in the same transaction.
    write_samples(connection, [rows.look_interval(*item) for item in batch.periods])
    # Before the inserts: a row may be there again.
    removed = [rows.occupancy_key(*item) for item in batch.removed_occupancies]
    execute_bulk(connection, _DELETE_OCCUPANCY, removed)
    execute_bulk(connection, _OCCUPANCY, [rows.occupancy(*item) for item in batch.occupancies])
    execute_bulk(connection, _PRESENCE, [rows.presence(item) for item in batch.presence])
    execute_bulk(connection, _SERIES, [rows.series(item) for item in batch.series])
    execute_bulk(connection, _MOMENT, [_moment(item) for item in batch.moments])
    for gap in batch.gaps:
        write_gap(connection, gap)
    write_usage_hours(connection, [rows.usage(item) for item in batch.usage])
    latest = {item.node_id: item.data for item in batch.checkpoints}
    execute_bulk(connection, _CHECKPOINT, [rows.checkpoint(*item) for item in latest.items()])
    execute_bulk(
        connection,
        _DELETE_CHECKPOINT,
        [{"node": ids.node[node_id]} for node_id in batch.removed_nodes],
    )


def write_gap(connection: Connection, gap: Gap) -> None:
    """Write a gap: a time range in which rows were lost."""
    connection.execute(_GAP, asdict(gap))


class _RowBuilder:
    """Builds database rows, with integer ids in place of names."""

    def __init__(self, ids: IdCache) -> None:
        self._ids = ids

    def period(self, gpu_key: GpuKey, period: Period) -> RowValues:
        _, user, others = period_look(period)
        return {
            "gpu": self._ids.gpu[gpu_key],
            "start": period.start,
            "end": period.end,
            "certain": period.certain,
            "state": period.state,
            "user": user,
            "others": others,
            "reason": period.reason,
            "holders": encode_holders(period.holders) if period.holders else None,
            "busy_percent": period.busy_percent,
        }

    def look_interval(self, gpu_key: GpuKey, period: Period) -> LookInterval:
        return LookInterval(
            gpu=self._ids.gpu[gpu_key],
            start=period.start,
            end=period.end or period.start,
            look=self._ids.look[period_look(period)],
            busy_percent=period.busy_percent,
        )

    def occupancy_key(self, gpu_key: GpuKey, start: float, pid: int) -> RowValues:
        return {"gpu": self._ids.gpu[gpu_key], "start": start, "pid": pid}

    def occupancy(self, gpu_key: GpuKey, occupancy: Occupancy) -> RowValues:
        holder = occupancy.holder
        return {
            "gpu": self._ids.gpu[gpu_key],
            "start": occupancy.start,
            "pid": holder.pid,
            "end": occupancy.end,
            "certain": occupancy.certain,
            "person": self._ids.person[holder.user, holder.group or ""],
            "holder": encode_holders((holder,)),
            **asdict(occupancy.sums),
            "mean_memory_bytes": occupancy.mean_memory_bytes,
            "peak_memory_bytes": occupancy.peak_memory_bytes,
        }

    def presence(self, presence: Presence) -> RowValues:
        return {
            "node": self._ids.node[presence.node_id],
            "start": presence.start,
            "end": presence.end,
            "certain": presence.certain,
        }

    def series(self, row: SeriesRow) -> RowValues:
        return {
            "grain": row.grain_seconds,
            "start": row.start,
            "node": self._ids.node[row.node_id],
            "layout": self._ids.layout[row.uuids, row.layout],
            "data": row.data,
        }

    def usage(self, row: UsageRow) -> RowValues:
        return {
            "bucket": row.hour,
            "gpu": self._ids.gpu[row.gpu_key],
            "person": self._ids.person[row.user, row.group],
            "state": row.state,
            **asdict(row.sums),
        }

    def checkpoint(self, node_id: str, data: bytes) -> RowValues:
        return {"node": self._ids.node[node_id], "data": data}


def _moment(point: RibbonPoint) -> RowValues:
    return {
        "at": point.at,
        "nodes": point.nodes,
        "nodes_reporting": point.nodes_reporting,
        **{state: point.gpus.get(state, 0.0) for state in STATES},
    }
