"""Retention time: a clock that jumps ahead deletes nothing before it has lasted."""

from collections.abc import Sequence

import pytest

from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage.retention import RetentionPolicy
from fleet_smi.hub.history.storage.retention_time import RetentionTime
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import DAY, period, place, series_row
from tests.hub.history.storage.test_retention import rows_in
from tests.machines import wait_until

SECONDS = 86_400.0


def times_of(
    store: HistoryStore, readings: Sequence[tuple[float, float]], clock: RetentionTime | None = None
) -> list[float]:
    """The days that retention counts from, for days of the clock and days that have passed."""
    clock = clock or RetentionTime()
    found = []
    for now, elapsed in readings:
        with store.write_transaction() as connection:
            found.append(clock.update(connection, now * SECONDS, elapsed * SECONDS) / SECONDS)
    return found


def test_time_that_passes_counts(store: HistoryStore) -> None:
    assert times_of(store, [(100, 0), (100.5, 0.5), (101, 1)]) == [100, 100.5, 101]


def test_a_jump_ahead_counts_after_a_day(store: HistoryStore) -> None:
    readings = [(100, 0), (140, 0.1), (140.8, 0.9), (141.1, 1.2), (142, 2.1)]
    assert times_of(store, readings) == [100, 100, 100, 141.1, 142]


def test_a_jump_that_is_taken_back_never_counts(store: HistoryStore) -> None:
    assert times_of(store, [(100, 0), (140, 0.1), (100.2, 0.2), (101, 1)]) == [100, 100, 100.2, 101]


def test_a_restart_does_not_make_a_jump_count(store: HistoryStore) -> None:
    assert times_of(store, [(100, 0), (140, 0.1)]) == [100, 100]
    assert times_of(store, [(140.2, 7.0), (140.9, 7.7), (141.3, 8.1)]) == [100, 100, 141.3]


def test_a_time_before_counts_at_once(store: HistoryStore) -> None:
    assert times_of(store, [(100, 0), (60, 0.1), (60.5, 0.6)]) == [100, 60, 60.5]


@pytest.mark.parametrize("days_ahead", [0, 400])
def test_a_clock_set_far_ahead_deletes_no_history(store: HistoryStore, days_ahead: int) -> None:
    keep = RetentionPolicy(
        series_seconds={10: 90 * SECONDS}, ledger_seconds=90 * SECONDS, max_bytes=1 << 40
    )
    now = [DAY + SECONDS]
    writer = HistoryWriter(store, keep, clock=lambda: now[0], prune_interval_seconds=0.01)
    kept = WriteBatch(
        periods=[(place(), period(DAY, DAY + 60.0))], series=[series_row(DAY, grain=10)]
    )
    wait_until(lambda: rows_in(store)["facts"] > 1)  # pruned once
    now[0] += days_ahead * SECONDS
    writer.put(kept)
    expired = WriteBatch(periods=[(place(), period(DAY - 100 * SECONDS, DAY - 99 * SECONDS))])
    writer.put(expired)
    wait_until(lambda: writer.last_written == 2 and rows_in(store)["periods"] == 1)
    writer.close()
    assert rows_in(store)["series"] == 1
