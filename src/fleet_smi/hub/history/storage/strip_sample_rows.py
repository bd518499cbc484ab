"""Reads and writes of heat-strip samples, which are updated with the periods they lie in."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, Row, select, text

from fleet_smi.hub.history.series.strip_samples import (
    NO_SAMPLES,
    LookInterval,
    PackedSamples,
    SampleKey,
    SampleTimes,
    apply_fills,
    sample_fills,
)
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.schema import LOOK_COLUMNS, upsert_statement
from fleet_smi.model.heat_strip import UNKNOWN_LOOK, LookSamples, StripLook

_GPUS_PER_QUERY = 500  # below the limit of bound parameters, 999 in older versions of SQLite
_UPSERT = upsert_statement(schema.samples)
_INSERT_LOOKS = text(
    'INSERT INTO looks (state, "user", others) SELECT DISTINCT state, "user", others FROM periods'
)


def write_samples(connection: Connection, intervals: Iterable[LookInterval]) -> None:
    """Update the samples within these intervals; all others stay as they are."""
    # A bucket is one packed row: it is read, changed and written as a whole.
    fills_by_key = sample_fills(intervals)
    stored = _read_stored(connection, fills_by_key)
    _write(
        connection,
        {
            key: apply_fills(stored.get(key, NO_SAMPLES), fills)
            for key, fills in fills_by_key.items()
        },
    )


def clear_samples(connection: Connection, start: float, end: float) -> None:
    """Set the samples of all GPUs within a time span to unknown."""
    span = LookInterval(gpu=0, start=start, end=end, look=UNKNOWN_LOOK, busy_percent=None)
    for (grain, bucket, _), fills in sample_fills([span]).items():
        stored = _select(connection, grain, [bucket], None)
        cleared = {
            SampleKey(grain, bucket, gpu): apply_fills((looks, loads), fills)
            for _, _, gpu, looks, loads in stored
        }
        _write(connection, cleared)


def backfill_samples(connection: Connection) -> None:
    """Fill an empty sample table from all stored periods."""
    connection.execute(_INSERT_LOOKS)
    look_ids = {look: look_id for look_id, look in read_looks(connection).items()}
    # One GPU at a time, so that memory does not grow with the size of the fleet.
    for gpu in connection.scalars(select(schema.gpus.c.key)).all():
        rows = connection.execute(select(*LOOK_COLUMNS).where(schema.periods.c.gpu == gpu)).all()
        fills_by_key = sample_fills(
            LookInterval(gpu, start, end, look_ids[state, user, others], busy_percent)
            for _, start, end, state, user, others, busy_percent in rows
        )
        _write(
            connection,
            {key: apply_fills(NO_SAMPLES, fills) for key, fills in fills_by_key.items()},
        )


def read_samples(
    connection: Connection, times: SampleTimes, gpu_ids: Collection[int] | None
) -> dict[int, LookSamples]:
    """The samples of each of these GPUs, or all, at these times."""
    buckets, pick = times.buckets(), times.make_picker()
    index = {bucket: number for number, bucket in enumerate(buckets)}
    packed: dict[int, list[PackedSamples]] = defaultdict(lambda: [NO_SAMPLES] * len(buckets))
    for _, bucket, gpu, looks, loads in _select(connection, times.grain, buckets, gpu_ids):
        packed[gpu][index[bucket]] = looks, loads
    return {gpu: pick(rows) for gpu, rows in packed.items()}


def read_looks(connection: Connection) -> dict[int, StripLook]:
    """All looks by their ids."""
    rows = connection.execute(select(schema.looks))
    return {look_id: (state, user, others) for look_id, state, user, others in rows}


def _select(
    connection: Connection, grain: int, buckets: Collection[int], gpu_ids: Collection[int] | None
) -> Sequence[Row[int, int, int, bytes, bytes]]:
    columns = schema.samples.c
    query = select(schema.samples).where(columns.grain == grain, columns.bucket.in_(buckets))
    if gpu_ids is not None:
        query = query.where(columns.gpu.in_(gpu_ids))
    return connection.execute(query).all()


def _read_stored(
    connection: Connection, keys: Iterable[SampleKey]
) -> dict[SampleKey, PackedSamples]:
    gpus: dict[tuple[int, int], list[int]] = defaultdict(list)
    for grain, bucket, gpu in keys:
        gpus[grain, bucket].append(gpu)
    return {
        SampleKey(*key, gpu): (looks, loads)
        for key, gpu_ids in gpus.items()
        for first in range(0, len(gpu_ids), _GPUS_PER_QUERY)
        for _, _, gpu, looks, loads in _select(
            connection, key[0], [key[1]], gpu_ids[first : first + _GPUS_PER_QUERY]
        )
    }


def _write(connection: Connection, packed: Mapping[SampleKey, PackedSamples]) -> None:
    rows = [
        {**key._asdict(), "looks": looks, "loads": loads} for key, (looks, loads) in packed.items()
    ]
    if rows:
        connection.execute(_UPSERT, rows)
