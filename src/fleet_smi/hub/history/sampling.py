"""The samples of GPUs in the database: noted with the periods that they are in, and read."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, Row, select, text

from fleet_smi.hub.history import schema
from fleet_smi.hub.history.samples import NOTHING, Key, Moments, Packed, Stretch, marked, marks
from fleet_smi.hub.history.schema import LOOKS, writing_again
from fleet_smi.model.strip import Look, Samples

_GPUS_AT_ONCE = 500
_WRITING = writing_again(schema.samples)
_ALL_LOOKS = text(
    'INSERT INTO looks (state, "user", others) SELECT DISTINCT state, "user", others FROM periods'
)


def write_samples(connection: Connection, stretches: Iterable[Stretch]) -> None:
    """Note the samples in these stretches; what is known of others stays."""
    new = marks(stretches)
    known = _known(connection, new)
    _write(connection, {key: marked(known.get(key, NOTHING), more) for key, more in new.items()})


def write_all(connection: Connection) -> None:
    """Note the samples in all periods that are written, where none is noted yet."""
    connection.execute(_ALL_LOOKS)
    numbers = {look: number for number, look in looks_by_number(connection).items()}
    for gpu in connection.scalars(select(schema.gpus.c.key)).all():
        found = connection.execute(select(*LOOKS).where(schema.periods.c.gpu == gpu)).all()
        new = marks(
            Stretch(gpu, start, end, numbers[state, user, others], busy_percent)
            for _, start, end, state, user, others, busy_percent in found
        )
        _write(connection, {key: marked(NOTHING, more) for key, more in new.items()})


def read_samples(
    connection: Connection, moments: Moments, of_gpus: Collection[int] | None
) -> dict[int, Samples]:
    """How each of these GPUs, or all, looked at these moments."""
    buckets, pick = moments.buckets(), moments.picked()
    place = {bucket: number for number, bucket in enumerate(buckets)}
    found: dict[int, list[Packed]] = defaultdict(lambda: [NOTHING] * len(buckets))
    for _, bucket, gpu, looks, loads in _rows(connection, moments.grain, buckets, of_gpus):
        found[gpu][place[bucket]] = looks, loads
    return {gpu: pick(rows) for gpu, rows in found.items()}


def looks_by_number(connection: Connection) -> dict[int, Look]:
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


def _known(connection: Connection, keys: Iterable[Key]) -> dict[Key, Packed]:
    """What is noted already of what has these keys."""
    gpus: dict[tuple[int, int], list[int]] = defaultdict(list)
    for grain, bucket, gpu in keys:
        gpus[grain, bucket].append(gpu)
    return {
        Key(*key, gpu): (looks, loads)
        for key, of_key in gpus.items()
        for first in range(0, len(of_key), _GPUS_AT_ONCE)
        for _, _, gpu, looks, loads in _rows(
            connection, key[0], [key[1]], of_key[first : first + _GPUS_AT_ONCE]
        )
    }


def _write(connection: Connection, packed: Mapping[Key, Packed]) -> None:
    rows = [
        {**key._asdict(), "looks": looks, "loads": loads} for key, (looks, loads) in packed.items()
    ]
    if rows:
        connection.execute(_WRITING, rows)
