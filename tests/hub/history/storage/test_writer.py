"""The history writer: whole batches, descriptions, checkpoints, retention."""

import pytest
from msgspec.structs import replace

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import Checkpoint, WriteBatch
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.history import Gap
from tests.builders import NOON, process, snapshot
from tests.builders import gpu as card_of
from tests.hub.history.batches import (
    DAY,
    KEEP_ALL,
    gpu,
    node,
    numbered_batch,
    occupancy,
    period,
    place,
    series_row,
)
from tests.hub.history.in_memory_history import RecordedFleet
from tests.hub.history.storage.writing import all_written, rows_in, writing


def test_all_of_a_batch_is_written(store: HistoryStore) -> None:
    with writing(store) as writer:
        writer.put(numbered_batch(1))
        all_written(writer)
    found = rows_in(store)
    assert {name for name, rows in found.items() if not rows} == {"gaps", "samples"}
    assert (writer.failures, writer.last_error, writer.current_gap) == (0, None, None)


def test_writing_a_batch_twice_changes_nothing(store: HistoryStore) -> None:
    batches = [numbered_batch(1), numbered_batch(2)]
    with writing(store) as writer:
        for batch in batches:
            writer.put(batch)
        all_written(writer)
        once = rows_in(store)
        for batch in batches:
            writer.put(batch)
        all_written(writer)
    assert rows_in(store) == once


def test_gaps_are_written_and_joined_occupancies_removed(store: HistoryStore) -> None:
    last = WriteBatch(
        gaps=[Gap(start=5.0, end=5.0, why="the clock was set back")],
        removed_occupancies=[
            (place(), float(DAY + 10), 100),
            (place(), float(DAY + 20), 100),
            (place(), 1.0, 1),
        ],
        occupancies=[(place(), occupancy(float(DAY + 20), float(DAY + 40)))],
    )
    with writing(store) as writer:
        for batch in (numbered_batch(1), numbered_batch(2), numbered_batch(3), last):
            writer.put(batch)
        all_written(writer)
    (found,) = HistoryQueries(store).occupancies(0.0, 1e12)
    assert [(one.start, one.end) for one in found.occupancies] == [
        (DAY + 20, DAY + 40),
        (DAY + 30, DAY + 40),
    ]
    assert HistoryQueries(store).gaps(0.0, 9.0) == last.gaps


def test_a_renamed_node_keeps_its_id(store: HistoryStore) -> None:
    with writing(store) as writer:
        writer.put(WriteBatch(nodes=[node()], gpus=[gpu()]))
        writer.put(WriteBatch(nodes=[node(name="new"), node(2)], gpus=[gpu(index=0, model="B200")]))
    nodes = rows_in(store, "nodes")["nodes"]
    assert [(key, name) for key, _, name, _ in nodes] == [(1, "new"), (nodes[1][0], "gpu2")]
    assert [each.model for each in HistoryQueries(store).gpus()] == ["B200"]


def test_a_gpu_without_a_description_is_stored_by_its_uuid(store: HistoryStore) -> None:
    with writing(store) as writer:
        writer.put(WriteBatch(periods=[(place(), period(1.0, 2.0))]))
    (found,) = HistoryQueries(store).periods(None, 0.0, 9.0)
    assert (found.gpu.node, found.gpu.uuid) == ("id-1", "GPU-a")


def test_stored_descriptions_survive_a_restart(where: str) -> None:
    for batch in (
        WriteBatch(nodes=[node(name="called so")], gpus=[gpu()]),
        WriteBatch(periods=[(place(), period(1.0, 2.0))]),
    ):
        store = open_history(where)
        with writing(store) as writer:
            writer.put(batch)
        described = HistoryQueries(store).nodes(), HistoryQueries(store).gpus()
        store.close()
    assert described == ([node(name="called so")], [replace(gpu(), node="called so")])


def test_checkpoints_that_were_not_restored_are_closed_before_they_are_replaced(
    store: HistoryStore,
) -> None:
    before, after = RecordedFleet(), RecordedFleet()
    for second in range(30):
        card = card_of(processes=(process(1),), busy_percent=95.0)
        before.take(snapshot(card, sequence=second, run_id="run"), NOON + second)
        after.take(snapshot(card_of(), sequence=second, run_id="next"), NOON + 900 + second)
    for watched in (before, after):
        watched.history.close()
        with writing(store) as writer:  # and nobody asks it for what was open
            for batch in watched.stored.batches:
                writer.put(batch)
    (found,) = HistoryQueries(store).periods(None, NOON, NOON + 60)
    assert [(one.start, one.end, one.certain) for one in found.periods] == [
        (NOON, NOON + 30, False)
    ]
    (left,) = HistoryQueries(store).occupancies(NOON, NOON + 60)
    assert left.occupancies[0].sums.gpu_seconds == pytest.approx(30.0)


def test_a_new_hub_reads_the_last_checkpoint_of_each_node(where: str) -> None:
    store = open_history(where)
    with writing(store) as writer:
        writer.put(WriteBatch(checkpoints=[Checkpoint(node_id="a", data=b"1")]))
        later = [Checkpoint(node_id="a", data=b"2"), Checkpoint(node_id="b", data=b"\x00\xff")]
        writer.put(WriteBatch(checkpoints=later))
        writer.put(WriteBatch(checkpoints=[Checkpoint(node_id="c", data=b"3")]))
        writer.put(WriteBatch(removed_nodes=["c", "unknown"]))
    store.close()
    store = open_history(where)
    with writing(store) as writer:
        assert sorted(writer.checkpoints(), key=lambda each: each.node_id) == later
    store.close()


def test_rows_of_the_finest_grain_that_have_expired_are_not_written(store: HistoryStore) -> None:
    keep = replace(KEEP_ALL, series_seconds={10: 3600.0, 60: 3600.0, 900: 1e12})
    writer = HistoryWriter(store, keep, clock=lambda: float(DAY), prune_interval_seconds=1e9)
    batch = numbered_batch(1)
    batch.series = [
        series_row(DAY - age, grain=grain) for age in (86400, 600) for grain in (10, 60, 900)
    ]
    writer.put(batch)
    writer.close()
    found = rows_in(store, "series", "periods", "usage_hours")
    assert sorted(row[:2] for row in found["series"]) == [
        (10, DAY - 600), (60, DAY - 86400), (60, DAY - 600), (900, DAY - 86400), (900, DAY - 600),
    ]  # fmt: skip
    assert len(found["periods"]) == len(found["usage_hours"]) == 1


def test_closing_writes_all_queued_batches(store: HistoryStore) -> None:
    with writing(store) as writer:
        for number in range(40):
            writer.put(numbered_batch(number))
    assert len(rows_in(store, "moments")["moments"]) == 40


def test_hundreds_of_nodes_in_one_batch_are_written(store: HistoryStore) -> None:
    batch = WriteBatch(
        nodes=[node(number) for number in range(500)],
        series=[series_row(DAY, number=number) for number in range(500)],
        checkpoints=[Checkpoint(node_id=f"id-{each}", data=bytes(2000)) for each in range(500)],
    )
    with writing(store) as writer:
        writer.put(batch)
        all_written(writer)
    assert len(rows_in(store, "series")["series"]) == 500
