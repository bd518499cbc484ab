"""Replaced rows: time that is recorded again is in the database once."""

from fleet_smi.hub.history.queries.totals import read_usages
from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import (
    DAY,
    HOUR,
    KEEP_ALL,
    occupancy,
    period,
    place,
    sums,
    usage,
)


def write(store: HistoryStore, *batches: WriteBatch) -> float:
    writer = HistoryWriter(store, KEEP_ALL)
    for batch in batches:
        writer.put(batch)
    writer.close()
    assert writer.last_written == len(batches)
    return writer.recorded_until()


def spans(store: HistoryStore, table: str) -> list[tuple[float, float]]:
    with store.read_transaction() as connection:
        rows = connection.execute(schema.metadata.tables[table].select()).all()
    return sorted((row.start - DAY, row.end - DAY) for row in rows)


RECORDED = WriteBatch(
    periods=[
        (place(), period(DAY, DAY + 50.0)),
        (place(), period(DAY + 50.0, DAY + 150.0)),
        (place(), period(DAY + 150.0, DAY + 180.0)),
        (place(), period(DAY + 210.0, DAY + 300.0)),
    ],
    presence=[Presence(node_id="id-1", start=DAY, end=DAY + 300.0)],
)


def test_intervals_of_a_replaced_span_are_removed_or_cut(store: HistoryStore) -> None:
    until = write(store, RECORDED, WriteBatch(replaced=[(DAY + 100.0, DAY + 200.0)]))
    assert spans(store, "periods") == [(0, 50), (50, 100), (210, 300)]
    assert spans(store, "presence") == [(0, 100)]
    assert until == DAY + 300.0


def test_rows_of_the_same_batch_are_written_after_the_span_is_removed(store: HistoryStore) -> None:
    again = WriteBatch(
        replaced=[(DAY + 100.0, DAY + 200.0)],
        periods=[(place(), period(DAY + 100.0, DAY + 200.0))],
    )
    write(store, RECORDED, again)
    assert spans(store, "periods") == [(0, 50), (50, 100), (100, 200), (210, 300)]


def test_an_occupancy_that_is_cut_keeps_its_share_of_the_sums(store: HistoryStore) -> None:
    job = occupancy(DAY, DAY + 400.0, sums=sums(400.0))
    cut = WriteBatch(occupancies=[(place(), job)])
    write(store, cut, WriteBatch(replaced=[(DAY + 100.0, DAY + 200.0)]))
    with store.read_transaction() as connection:
        (row,) = connection.execute(schema.occupancies.select()).all()
    assert (row.start, row.end, row.certain) == (DAY, DAY + 100.0, False)
    assert row.gpu_seconds == 100.0


def test_hours_that_are_recorded_again_count_once_in_all_sums(store: HistoryStore) -> None:
    first = [usage(DAY + hour * HOUR, 3600.0) for hour in range(3)]
    again = [usage(DAY + HOUR, 1200.0)]
    write(
        store,
        WriteBatch(usage=first),
        WriteBatch(replaced=[(DAY + HOUR - 10.0, DAY + HOUR + 10.0)], usage=again),
    )
    with store.read_transaction() as connection:
        for by in ("user", "node", "gpu", "model", "group"):
            found = read_usages(connection, DAY, DAY + 86400.0, by, daily=False)
            assert found.total.gpu_seconds == 3600.0 + 1200.0 + 3600.0
