"""The samples of GPUs in the database: noted with the periods that they are in, and read."""

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
from fleet_smi.model.heat_strip import LookSamples, StripLook

_GPUS_AT_ONCE = 500
_WRITING = upsert_statement(schema.samples)
_ALL_LOOKS = text(
    'INSERT INTO looks (state, "user", others) SELECT DISTINCT state, "user", others FROM periods'
)


def write_samples(connection: Connection, intervals: Iterable[LookInterval]) -> None:
    """Note the samples in these stretches; what is known of others stays."""
    new = sample_fills(intervals)
    known = _known(connection, new)
    _write(
        connection,
        {key: apply_fills(known.get(key, NO_SAMPLES), more) for key, more in new.items()},
    )


def backfill_samples(connection: Connection) -> None:
    """Note the samples in all periods that are written, where none is noted yet."""
    connection.execute(_ALL_LOOKS)
    numbers = {look: number for number, look in read_looks(connection).items()}
    for gpu in connection.scalars(select(schema.gpus.c.key)).all():
        found = connection.execute(select(*LOOK_COLUMNS).where(schema.periods.c.gpu == gpu)).all()
        new = sample_fills(
            LookInterval(gpu, start, end, numbers[state, user, others], busy_percent)
            for _, start, end, state, user, others, busy_percent in found
        )
        _write(connection, {key: apply_fills(NO_SAMPLES, more) for key, more in new.items()})


def read_samples(
    connection: Connection, times: SampleTimes, gpu_ids: Collection[int] | None
) -> dict[int, LookSamples]:
    """How each of these GPUs, or all, looked at these moments."""
    buckets, pick = times.buckets(), times.make_picker()
    place = {bucket: number for number, bucket in enumerate(buckets)}
    found: dict[int, list[PackedSamples]] = defaultdict(lambda: [NO_SAMPLES] * len(buckets))
    for _, bucket, gpu, looks, loads in _rows(connection, times.grain, buckets, gpu_ids):
        found[gpu][place[bucket]] = looks, loads
    return {gpu: pick(rows) for gpu, rows in found.items()}


def read_looks(connection: Connection) -> dict[int, StripLook]:
    """All looks that any GPU ever had."""
    found = connection.execute(select(schema.looks))
    return {number: (state, user, others) for number, state, user, others in found}


def _rows(
    connection: Connection, grain: int, buckets: Collection[int], of_gpus: Collection[int] | None
) -> Sequence[Row[int, int, int, bytes, bytes]]:
    kept = schema.samples.c
    asked = select(schema.samples).where(kept.grain == grain, kept.bucket.in_(buckets))
    if of_gpus is not None:
        asked = asked.where(kept.gpu.in_(of_gpus))
    return connection.execute(asked).all()


def _known(connection: Connection, keys: Iterable[SampleKey]) -> dict[SampleKey, PackedSamples]:
    """What is noted already of what has these keys."""
    gpus: dict[tuple[int, int], list[int]] = defaultdict(list)
    for grain, bucket, gpu in keys:
        gpus[grain, bucket].append(gpu)
    return {
        SampleKey(*key, gpu): (looks, loads)
        for key, of_key in gpus.items()
        for first in range(0, len(of_key), _GPUS_AT_ONCE)
        for _, _, gpu, looks, loads in _rows(
            connection, key[0], [key[1]], of_key[first : first + _GPUS_AT_ONCE]
        )
    }


def _write(connection: Connection, packed: Mapping[SampleKey, PackedSamples]) -> None:
    rows = [
        {**key._asdict(), "looks": looks, "loads": loads} for key, (looks, loads) in packed.items()
    ]
    if rows:
        connection.execute(_WRITING, rows)
