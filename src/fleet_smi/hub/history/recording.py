"""A batch as rows of the database."""

from msgspec.structs import asdict
from sqlalchemy import Connection, text

from fleet_smi.hub.history import schema
from fleet_smi.hub.history.adding import write_hours
from fleet_smi.hub.history.keys import Keys
from fleet_smi.hub.history.packed import packed_holders
from fleet_smi.hub.history.rows import Batch, Place, Presence, SeriesRow, UsageRow
from fleet_smi.hub.history.samples import Stretch
from fleet_smi.hub.history.sampling import write_samples
from fleet_smi.hub.history.schema import writing_again
from fleet_smi.hub.history.statements import Row, execute
from fleet_smi.model.fleet import STATES
from fleet_smi.model.history import Gap, Moment, Occupancy, Period
from fleet_smi.model.strip import look_of

_PERIOD = writing_again(schema.periods)
_OCCUPANCY = writing_again(schema.occupancies)
_PRESENCE = writing_again(schema.presence)
_SERIES = writing_again(schema.series)
_MOMENT = writing_again(schema.moments)
_GAP = writing_again(schema.gaps)
_CHECKPOINT = writing_again(schema.checkpoints)
_FORGET = text("DELETE FROM checkpoints WHERE node = :node")


def write_batch(connection: Connection, keys: Keys, batch: Batch) -> None:
    """Write all of a batch; the caller ends the transaction."""
    keys.learn(connection, batch)
    rows = _Rows(keys)
    execute(connection, _PERIOD, [rows.period(*each) for each in batch.periods])
    write_samples(connection, [rows.stretch(*each) for each in batch.periods])
    execute(connection, _OCCUPANCY, [rows.occupancy(*each) for each in batch.occupancies])
    execute(connection, _PRESENCE, [rows.presence(each) for each in batch.presence])
    execute(connection, _SERIES, [rows.series(each) for each in batch.series])
    execute(connection, _MOMENT, [_moment(each) for each in batch.moments])
    write_hours(connection, [rows.usage(each) for each in batch.usage])
    kept = {each.node_id: each.data for each in batch.checkpoints}
    execute(connection, _CHECKPOINT, [rows.checkpoint(*each) for each in kept.items()])
    execute(connection, _FORGET, [{"node": keys.node[node_id]} for node_id in batch.forgotten])


def write_gap(connection: Connection, gap: Gap) -> None:
    """Write down that something was not."""
    connection.execute(_GAP, asdict(gap))


class _Rows:
    """The rows of a batch, with the numbers that the database has for what they name."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def period(self, place: Place, period: Period) -> Row:
        _, user, others = look_of(period)
        return {
            "gpu": self._keys.gpu[place],
            "start": period.start,
            "end": period.end,
            "certain": period.certain,
            "state": period.state,
            "user": user,
            "others": others,
            "reason": period.reason,
            "holders": packed_holders(period.holders) if period.holders else None,
            "busy_percent": period.busy_percent,
        }

    def stretch(self, place: Place, period: Period) -> Stretch:
        return Stretch(
            gpu=self._keys.gpu[place],
            start=period.start,
            end=period.end or period.start,
            look=self._keys.look[look_of(period)],
            busy_percent=period.busy_percent,
        )

    def occupancy(self, place: Place, occupancy: Occupancy) -> Row:
        holder = occupancy.holder
        return {
            "gpu": self._keys.gpu[place],
            "start": occupancy.start,
            "pid": holder.pid,
            "end": occupancy.end,
            "certain": occupancy.certain,
            "person": self._keys.person[holder.user, holder.group or ""],
            "holder": packed_holders((holder,)),
            **asdict(occupancy.sums),
            "mean_memory_bytes": occupancy.mean_memory_bytes,
            "peak_memory_bytes": occupancy.peak_memory_bytes,
        }

    def presence(self, presence: Presence) -> Row:
        return {
            "node": self._keys.node[presence.node_id],
            "start": presence.start,
            "end": presence.end,
            "certain": presence.certain,
        }

    def series(self, row: SeriesRow) -> Row:
        return {
            "grain": row.grain_seconds,
            "start": row.start,
            "node": self._keys.node[row.node_id],
            "layout": self._keys.layout[row.uuids],
            "data": row.data,
        }

    def usage(self, row: UsageRow) -> Row:
        return {
            "bucket": row.hour,
            "gpu": self._keys.gpu[row.place],
            "person": self._keys.person[row.user, row.group],
            "state": row.state,
            **asdict(row.sums),
        }

    def checkpoint(self, node_id: str, data: bytes) -> Row:
        return {"node": self._keys.node[node_id], "data": data}


def _moment(moment: Moment) -> Row:
    return {
        "at": moment.at,
        "nodes": moment.nodes,
        "nodes_reporting": moment.nodes_reporting,
        **{state: moment.gpus.get(state, 0.0) for state in STATES},
    }
