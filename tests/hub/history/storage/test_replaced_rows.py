"""Replaced rows: time that is recorded again is in the database once."""

from msgspec.structs import replace

from fleet_smi.hub.history.queries.totals import read_usages
from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.series.codec import GRAINS, decode_rows
from fleet_smi.hub.history.series.strip_samples import SampleTimes
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.series_reader import read_rows
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.strip_sample_rows import read_samples
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.heat_strip import UNKNOWN_LOOK
from tests.hub.history.batches import (
    DAY,
    HOUR,
    KEEP_ALL,
    UUIDS,
    gpu,
    occupancy,
    period,
    place,
    series_row,
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


def test_series_of_a_replaced_span_are_removed_or_cut(store: HistoryStore) -> None:
    whole = replace(series_row(DAY), data=6 * series_row(DAY).data)
    rows = [whole, *(series_row(DAY + at) for at in (60, 70, 80))]
    coarse = [series_row(DAY, grain=grain) for grain in GRAINS[2:]]
    write(
        store,
        WriteBatch(series=[*rows, *coarse]),
        WriteBatch(replaced=[(DAY + 25.0, DAY + 25.0)]),
        # As time goes on; what is recorded meanwhile stays.
        WriteBatch(replaced=[(DAY + 25.0, DAY + 60.0)], series=[series_row(DAY + 30, busy=7.0)]),
        WriteBatch(replaced=[(DAY + 60.0, DAY + 75.0)]),
    )
    with store.read_transaction() as connection:
        found = read_rows(connection, "id-1", DAY, DAY + 100.0, 10)
        arrays = decode_rows(found, UUIDS)
        means = arrays.values[:, 1, 0].tolist()
        assert [at - DAY for at in arrays.starts.tolist()] == [0, 10, 20, 30, 80]
        assert arrays.seconds.tolist() == [10, 10, 5, 10, 10]
        assert means == [50, 50, 50, 7, 50]
        for grain in GRAINS[2:]:
            (row,) = read_rows(connection, "id-1", DAY, DAY + 1.0, grain)
            assert decode_rows([row], UUIDS).seconds.tolist() == [25.0]


def test_strip_samples_of_a_replaced_span_are_cleared(store: HistoryStore) -> None:
    quarters = SampleTimes(900, range(DAY // 900, DAY // 900 + 6))
    recorded = WriteBatch(gpus=[gpu()], periods=[(place(), period(DAY, DAY + 6 * 900.0))])
    write(store, recorded, WriteBatch(replaced=[(DAY + 1000.0, DAY + 3000.0)]))
    with store.read_transaction() as connection:
        (samples,) = read_samples(connection, quarters, None).values()
    assert [look != UNKNOWN_LOOK for look in samples.looks] == [True] * 2 + [False] * 2 + [True] * 2
