"""Retention: delete rows that are too old or exceed the size limit, in small steps."""

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, delete, func, select

from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.strip_samples import SAMPLE_INTERVALS, bucket_seconds
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.ledger_shares import LedgerShares
from fleet_smi.hub.history.storage.schema import DAY_SECONDS, HOUR_SECONDS, WEEK_SECONDS
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.units import MIB

_ROWS_PER_STEP = 4000
_MAX_FREE_BYTES = 64 * MIB


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    """How long each kind of row is retained, and the size limit of the database."""

    series_seconds: dict[int, float]
    """For each grain of the series, in seconds, its retention in seconds."""
    ledger_seconds: float
    max_bytes: int


class _Expiry(Struct, frozen=True):
    """Some rows of a table, and the column that decides when they expire.

    `span_seconds` is added where the column has the start of a row, not its end: a row expires
    when all of it is too old, because a part of it would be missing from figures otherwise.
    """

    table: Table
    time: ColumnElement[float]
    conditions: tuple[ColumnElement[bool], ...] = ()
    span_seconds: int = 0


_LEDGER_EXPIRY = (
    _Expiry(schema.periods, schema.periods.c.end),
    *(
        _Expiry(
            schema.samples,
            schema.samples.c.bucket,
            (schema.samples.c.grain == grain,),
            bucket_seconds(grain),
        )
        for grain in SAMPLE_INTERVALS
    ),
    _Expiry(schema.occupancies, schema.occupancies.c.end),
    _Expiry(schema.presence, schema.presence.c.end),
    _Expiry(schema.usage_hours, schema.usage_hours.c.bucket, span_seconds=HOUR_SECONDS),
    _Expiry(schema.person_days, schema.person_days.c.bucket, span_seconds=DAY_SECONDS),
    _Expiry(schema.gpu_days, schema.gpu_days.c.bucket, span_seconds=DAY_SECONDS),
    _Expiry(schema.person_weeks, schema.person_weeks.c.bucket, span_seconds=WEEK_SECONDS),
    _Expiry(schema.gpu_weeks, schema.gpu_weeks.c.bucket, span_seconds=WEEK_SECONDS),
    _Expiry(schema.moments, schema.moments.c.at),
    _Expiry(schema.gaps, schema.gaps.c.end),
)


def _series_expiry(grain: int) -> _Expiry:
    return _Expiry(schema.series, schema.series.c.start, (schema.series.c.grain == grain,))


def _min_series_seconds(grain: int) -> int:
    """The minimum retention of a grain: a restarted hub makes rows of the next grain from it."""
    next_grain = dict(pairwise(GRAINS[1:]))
    return 2 * next_grain.get(grain, 0)


def prune_steps(
    store: HistoryStore,
    policy: RetentionPolicy,
    now: float,
    shares: LedgerShares | None = None,
) -> Iterator[None]:
    """Delete what has expired, one short transaction per step of the iterator."""
    for grain, seconds in policy.series_seconds.items():
        yield from _delete_older(
            store, _series_expiry(grain), now - max(seconds, _min_series_seconds(grain))
        )
    for expiry in _LEDGER_EXPIRY:
        yield from _delete_older(store, expiry, now - policy.ledger_seconds)
    yield from _delete_excess(store, policy, now, shares or LedgerShares())
    # Some free pages stay: the next rows reuse them.
    while store.free_bytes() > _MAX_FREE_BYTES and store.vacuum_step():
        yield


def _delete_older(store: HistoryStore, expiry: _Expiry, before: float) -> Iterator[None]:
    while _delete_step(store, expiry, before):
        yield


def _delete_step(store: HistoryStore, expiry: _Expiry, before: float) -> int:
    """Delete some of the oldest rows and return their number."""
    expired = (*expiry.conditions, expiry.time <= before - expiry.span_seconds)
    oldest = select(expiry.time).where(*expired).order_by(expiry.time)
    # Searched in a read transaction: the write lock is held for the deletion only.
    with store.read_transaction() as connection:
        if connection.scalar(oldest.limit(1)) is None:
            return 0
        last = connection.scalar(oldest.offset(_ROWS_PER_STEP).limit(1))
    if last is not None:
        expired = (*expired, expiry.time <= last)
    with store.write_transaction() as connection:
        return connection.execute(delete(expiry.table).where(*expired)).rowcount


def _delete_excess(
    store: HistoryStore, policy: RetentionPolicy, now: float, shares: LedgerShares
) -> Iterator[None]:
    """Delete down to the size limit.

    First what single nodes have in the ledger beyond an equal share. Then of all nodes the oldest
    rows: those of the finest grain first, the ledger last.
    """
    excess = yield from shares.trim(store, policy.max_bytes, now)
    for grain in sorted(policy.series_seconds):
        # Estimated by row count: PostgreSQL shows freed space only after a later vacuum.
        while excess > 0 and (rows := _delete_step(store, _series_expiry(grain), now)):
            excess -= rows * store.series_row_bytes()
            yield
    # One day of the ledger per run: what that frees is measured before more is deleted.
    if excess > 0:
        with store.read_transaction() as connection:
            oldest = connection.scalar(select(func.min(schema.usage_hours.c.bucket)))
        for expiry in _LEDGER_EXPIRY if oldest is not None else ():
            yield from _delete_older(store, expiry, oldest + DAY_SECONDS)
