"""What is too old, or too much, is taken away: a little at a time, so that nobody waits."""

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, delete, func, select

from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.strip_samples import SAMPLE_INTERVALS
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.schema import DAY_SECONDS, WEEK_SECONDS
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.units import MIB

_ROWS_A_TURN = 4000
_MOST_FREE_BYTES = 64 * MIB


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    """How long what is kept, and how much of all."""

    series_seconds: dict[int, float]
    """For each grain of the series in seconds, how many seconds back it is kept."""
    ledger_seconds: float
    max_bytes: int


class _Aging(Struct, frozen=True):
    """Rows of a table by the time that decides when they go, and so much later."""

    table: Table
    time: ColumnElement[float]
    among: tuple[ColumnElement[bool], ...] = ()
    lasts_seconds: int = 0


_LEDGER = (
    _Aging(schema.periods, schema.periods.c.end),
    *(
        _Aging(schema.samples, schema.samples.c.bucket, (schema.samples.c.grain == grain,))
        for grain in SAMPLE_INTERVALS
    ),
    _Aging(schema.occupancies, schema.occupancies.c.end),
    _Aging(schema.presence, schema.presence.c.end),
    _Aging(schema.usage_hours, schema.usage_hours.c.bucket),
    _Aging(schema.person_days, schema.person_days.c.bucket),
    _Aging(schema.gpu_days, schema.gpu_days.c.bucket),
    _Aging(schema.person_weeks, schema.person_weeks.c.bucket, lasts_seconds=WEEK_SECONDS),
    _Aging(schema.gpu_weeks, schema.gpu_weeks.c.bucket, lasts_seconds=WEEK_SECONDS),
    _Aging(schema.moments, schema.moments.c.at),
    _Aging(schema.gaps, schema.gaps.c.end),
)


def _series(grain: int) -> _Aging:
    return _Aging(schema.series, schema.series.c.start, (schema.series.c.grain == grain,))


def _needed_seconds(grain: int) -> int:
    """So long longer rows may still be made of those of a grain: a hub goes on from them."""
    longer = dict(pairwise(GRAINS[1:]))
    return 2 * longer.get(grain, 0)


def prune_steps(store: HistoryStore, policy: RetentionPolicy, now: float) -> Iterator[None]:
    """Do one small piece of the work each time the next is asked for."""
    for grain, seconds in policy.series_seconds.items():
        yield from _take_older(store, _series(grain), now - max(seconds, _needed_seconds(grain)))
    for aging in _LEDGER:
        yield from _take_older(store, aging, now - policy.ledger_seconds)
    yield from _take_excess(store, policy, now)
    while store.free_bytes() > _MOST_FREE_BYTES and store.vacuum_step():
        yield


def _take_older(store: HistoryStore, aging: _Aging, before: float) -> Iterator[None]:
    while _take_turn(store, aging, before):
        yield


def _take_turn(store: HistoryStore, aging: _Aging, before: float) -> int:
    """Take some of the oldest rows away; how many there were."""
    old = (*aging.among, aging.time < before - aging.lasts_seconds)
    oldest = select(aging.time).where(*old).order_by(aging.time)
    with store.read_transaction() as connection:
        if connection.scalar(oldest.limit(1)) is None:
            return 0
        last = connection.scalar(oldest.offset(_ROWS_A_TURN).limit(1))
    if last is not None:
        old = (*old, aging.time <= last)
    with store.write_transaction() as connection:
        return connection.execute(delete(aging.table).where(*old)).rowcount


def _take_excess(store: HistoryStore, keep: RetentionPolicy, now: float) -> Iterator[None]:
    """Take the oldest of the finest grain first, and of the ledger last."""
    excess = store.size_bytes() - store.free_bytes() - keep.max_bytes
    for grain in sorted(keep.series_seconds):
        # Counted rather than measured: PostgreSQL tells what is free only later.
        while excess > 0 and (rows := _take_turn(store, _series(grain), now)):
            excess -= rows * store.series_row_bytes()
            yield
    if excess > 0:
        with store.read_transaction() as connection:
            oldest = connection.scalar(select(func.min(schema.usage_hours.c.bucket)))
        for aging in _LEDGER if oldest is not None else ():
            yield from _take_older(store, aging, oldest + DAY_SECONDS)
