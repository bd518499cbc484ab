"""Retention: delete rows that are too old or exceed the size limit, in small steps."""

from collections.abc import Generator, Iterator
from itertools import pairwise

from msgspec import Struct
from sqlalchemy import ColumnElement, Table, delete, func, select

from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.strip_samples import SAMPLE_INTERVALS, bucket_seconds
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.ledger_shares import LedgerShares
from fleet_smi.hub.history.storage.partitions import (
    BY_TABLE,
    PERIODS,
    Partition,
    partitions_ahead,
)
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
    column: str
    grain: int | None = None
    span_seconds: int = 0

    def conditions(self, table: Table, before: float) -> tuple[ColumnElement[bool], ...]:
        """Which rows of the table, or of a partition of it, have expired."""
        expired = table.c[self.column] <= before - self.span_seconds
        return (expired,) if self.grain is None else (table.c.grain == self.grain, expired)


_LEDGER_EXPIRY = (
    _Expiry(schema.periods, "end"),
    *(
        _Expiry(schema.samples, "bucket", grain, bucket_seconds(grain))
        for grain in SAMPLE_INTERVALS
    ),
    _Expiry(schema.occupancies, "end"),
    _Expiry(schema.presence, "end"),
    _Expiry(schema.usage_hours, "bucket", span_seconds=HOUR_SECONDS),
    _Expiry(schema.person_days, "bucket", span_seconds=DAY_SECONDS),
    _Expiry(schema.gpu_days, "bucket", span_seconds=DAY_SECONDS),
    _Expiry(schema.person_weeks, "bucket", span_seconds=WEEK_SECONDS),
    _Expiry(schema.gpu_weeks, "bucket", span_seconds=WEEK_SECONDS),
    _Expiry(schema.moments, "at"),
    _Expiry(schema.gaps, "end"),
)


def _series_expiry(grain: int) -> _Expiry:
    return _Expiry(schema.series, "start", grain)


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
    store.create_partitions(partitions_ahead(now))
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
    # Without the span: partitions end where rows do.
    for partition in _partitions(store, expiry, before):
        # It has the rows that begin in its time: some may end later.
        outlives = f'"end" > {before!r}' if expiry.column == "end" else None
        store.drop_partition(partition, outlives)
        yield
    while _delete_step(store, expiry, before):
        yield


def _partitions(store: HistoryStore, expiry: _Expiry, before: float) -> list[Partition]:
    """The partitions that lie before a time, the oldest first."""
    found = [
        partition
        for partition in store.partitions()
        if (partition.table, partition.grain) == (expiry.table.name, expiry.grain)
        and partition.end <= before
    ]
    return sorted(found, key=lambda partition: partition.start)


def _delete_step(store: HistoryStore, expiry: _Expiry, before: float) -> int:
    """Delete some of the oldest rows and return their number; of partitions only the default."""
    table, partitioning = expiry.table, BY_TABLE.get(expiry.table.name)
    if store.kind == "postgresql" and partitioning is not None:
        table = partitioning.default
    time, expired = table.c[expiry.column], expiry.conditions(table, before)
    oldest = select(time).where(*expired).order_by(time)
    # Searched in a read transaction: the write lock is held for the deletion only.
    with store.read_transaction() as connection:
        if connection.scalar(oldest.limit(1)) is None:
            return 0
        last = connection.scalar(oldest.offset(_ROWS_PER_STEP).limit(1))
    if last is not None:
        expired = (*expired, time <= last)
    with store.write_transaction() as connection:
        return connection.execute(delete(table).where(*expired)).rowcount


def _delete_excess(
    store: HistoryStore, policy: RetentionPolicy, now: float, shares: LedgerShares
) -> Iterator[None]:
    """Delete down to the size limit.

    First what single nodes have in the ledger beyond an equal share. Then of all nodes the oldest
    rows: those of the finest grain first, the ledger last.
    """
    excess = yield from shares.trim(store, policy.max_bytes, now)
    for grain in sorted(policy.series_seconds):
        excess = yield from _delete_excess_series(store, _series_expiry(grain), now, excess)
    # One day of the ledger per run: what that frees is measured before more is deleted.
    if excess > 0:
        with store.read_transaction() as connection:
            oldest = connection.scalar(select(func.min(schema.usage_hours.c.bucket)))
        for expiry in _LEDGER_EXPIRY if oldest is not None else ():
            yield from _delete_older(store, expiry, _end_of_oldest(store, oldest, now))


def _delete_excess_series(
    store: HistoryStore, expiry: _Expiry, now: float, excess: int
) -> Generator[None, None, int]:
    """Delete the oldest rows of a grain while there is an excess; return what is left of it."""
    # Estimated by row count: PostgreSQL shows freed space only after a later vacuum.
    while excess > 0 and (rows := _delete_step(store, expiry, now)):
        excess -= rows * store.series_row_bytes()
        yield
    for partition in _partitions(store, expiry, now):
        if excess <= 0:
            break
        excess -= store.drop_partition(partition)
        yield
    return excess


def _end_of_oldest(store: HistoryStore, oldest: int, now: float) -> float:
    """Until when the ledger is deleted for room: its first day, or its first partition."""
    if store.kind == "sqlite":
        return oldest + DAY_SECONDS
    return min(now, PERIODS.partition_at(None, oldest).end)
