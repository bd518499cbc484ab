"""Stored and live rows are merged without duplicates; the live row wins."""

from typing import Any

from fleet_smi.hub.history.queries.merge_live import (
    StoredRowsAt,
    filter_batch,
    merge_batches,
    merge_occupancies,
    merge_periods,
    merge_strip_intervals,
    merge_strip_samples,
    nodes_at,
)
from fleet_smi.hub.history.recording.rows import NodeRow, Presence, WriteBatch
from fleet_smi.hub.history.series.layout import GPU_COLUMNS, NODE_COLUMNS
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.series.strip_samples import GpuStripSamples, SampleTimes
from fleet_smi.model.heat_strip import UNKNOWN_LOAD, LookSamples, StripInterval, StripLook
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Holder,
    Occupancy,
    Period,
)
from tests.hub.history.batches import pack_rows

GPU = GpuOfNode(uuid="GPU-1", node_id="one", node="gpu01", index=0)
OTHER = GpuOfNode(uuid="GPU-2", node_id="one", node="gpu01", index=1)
PLACE = ("one", "GPU-1")
FREE: StripLook = ("free", "", 0)


def period(start: float, end: float | None, state: Any = "busy", **fields: Any) -> Period:
    return Period(start=start, end=end, state=state, reason="", **fields)


def occupancy(start: float, end: float | None, pid: int = 7) -> Occupancy:
    return Occupancy(holder=Holder(pid=pid, user="bob"), start=start, end=end)


def written(*periods: tuple[GpuOfNode, Period], presence: Presence | None = None) -> StoredRowsAt:
    node = NodeRow(node_id="one", name="gpu01")
    presences = [] if presence is None else [presence]
    return StoredRowsAt(
        nodes=[node], presence=presences, gpus=[GPU, OTHER], periods=periods, series=[]
    )


def test_an_open_period_replaces_its_stored_uncertain_end() -> None:
    ended = [GpuPeriods(gpu=GPU, periods=(period(0, 5), period(5, 9, certain=False)))]
    going_on = WriteBatch(periods=[(PLACE, period(5, None))])
    (row,) = merge_periods(ended, [GPU, OTHER], going_on)
    assert [(one.start, one.end) for one in row.periods] == [(0, 5), (5, None)]


def test_an_open_strip_interval_replaces_its_stored_uncertain_end() -> None:
    bobs: StripLook = ("busy", "bob", 0)
    holder = Holder(pid=7, user="bob")
    going_on = WriteBatch(periods=[(PLACE, period(5, None, holders=(holder,)))])
    stood: list[StripInterval] = [(0.0, 5.0, FREE, 1.0), (5.0, 9.0, bobs, None)]
    expected: list[StripInterval] = [(0, 5, FREE, 1.0), (5, None, bobs, None)]
    assert merge_strip_intervals([(GPU, stood)], going_on) == {PLACE: expected}


def test_unwritten_periods_are_merged_in_time_order() -> None:
    stood: list[StripInterval] = [(0.0, 5.0, FREE, None), (9.0, 12.0, FREE, None)]
    just_ended = WriteBatch(periods=[(PLACE, period(5, 9, "held", busy_percent=2.0))])
    known = merge_batches([just_ended], WriteBatch(periods=[(PLACE, period(12, None))]))
    assert [one[:2] for one in merge_strip_intervals([(GPU, stood)], known)[PLACE]] == [
        (0, 5), (5, 9), (9, 12), (12, None),
    ]  # fmt: skip


def test_an_open_period_replaces_an_unwritten_one() -> None:
    silent = WriteBatch(periods=[(PLACE, period(5, 9, certain=False))])
    known = merge_batches([silent], WriteBatch(periods=[(PLACE, period(5, None))]))
    (row,) = merge_periods([], [GPU], known)
    assert [(one.start, one.end) for one in row.periods] == [(5, None)]
    (node,) = nodes_at(20, written(presence=Presence(node_id="one", start=0, end=99)), known)
    assert [gpu.period.end for gpu in node.gpus] == [None]


def test_a_just_filled_gap_is_not_the_latest_state() -> None:
    known = written((GPU, period(50, 70)), presence=Presence(node_id="one", start=50, end=99))
    filled = WriteBatch(
        periods=[(PLACE, period(20, 40, "held"))],
        presence=[Presence(node_id="one", start=20, end=40)],
    )
    (node,) = nodes_at(60, known, filled)
    assert (node.presence.start, [gpu.period.start for gpu in node.gpus]) == (50, [50])


def test_only_rows_in_the_range_are_merged() -> None:
    known = WriteBatch(
        periods=[(PLACE, period(0, 20)), (PLACE, period(50, None))],
        occupancies=[(PLACE, occupancy(0, 20)), (PLACE, occupancy(50, None))],
        presence=[Presence(node_id="one", start=0, end=20)],
    )
    assert filter_batch(20, 50, known) == WriteBatch()
    assert filter_batch(19, 51, known) == known


def test_samples_cover_open_and_unwritten_periods() -> None:
    moments = SampleTimes.at_or_before(900, [900.0, 1800.0, 2700.0, 3600.0])
    known = LookSamples([1, 0, 0, 0], bytearray([50, UNKNOWN_LOAD, UNKNOWN_LOAD, UNKNOWN_LOAD]))
    just_ended, opened = period(1800, 2700, "held", busy_percent=7.4), period(2700, None, "free")
    going_on = WriteBatch(
        periods=[(PLACE, just_ended), (PLACE, opened), (("two", "GPU-3"), opened)]
    )
    found, looks = merge_strip_samples(
        GpuStripSamples({PLACE: known}, {1: FREE}), moments, going_on
    )
    shown = {place: [looks.get(number) for number in some.looks] for place, some in found.items()}
    held: StripLook = ("held", "", 0)
    assert shown == {
        PLACE: [FREE, held, FREE, FREE],
        ("two", "GPU-3"): [None, None, FREE, FREE],
    }
    assert list(found[PLACE].loads) == [50, 7, UNKNOWN_LOAD, UNKNOWN_LOAD]


def test_two_processes_with_one_start_are_two() -> None:
    ended = [GpuOccupancies(gpu=GPU, occupancies=(occupancy(5, 9, pid=8),))]
    going_on = WriteBatch(occupancies=[(PLACE, occupancy(5, None))])
    (row,) = merge_occupancies(ended, [GPU], going_on)
    assert {(one.holder.pid, one.end) for one in row.occupancies} == {(8, 9), (7, None)}


def test_a_node_exists_from_its_first_report_on() -> None:
    going_on = WriteBatch(presence=[Presence(node_id="one", start=50, end=None)])
    assert nodes_at(49, written(), going_on) == []
    (node,) = nodes_at(50, written(), going_on)
    assert (node.node.name, node.presence.end) == ("gpu01", None)


def test_a_state_lasts_while_processes_change() -> None:
    known = written((GPU, period(0, 50)), presence=Presence(node_id="one", start=0, end=99))
    same, other = period(50, None), period(50, None, "held")
    for going_on, since in ((same, 0), (other, 50)):
        (node,) = nodes_at(60, known, WriteBatch(periods=[(PLACE, going_on)]))
        (gpu,) = node.gpus
        assert (gpu.period, gpu.since) == (going_on, since)


def test_figures_are_the_means_of_their_gpu_and_node() -> None:
    nan = float("nan")
    known_figures = {"cpu_percent": 12.0, "busy_percent": 80.0, "memory_used_bytes": 2048.0}
    values = [known_figures.get(name, nan) for name in (*NODE_COLUMNS, *GPU_COLUMNS)]
    row = SeriesRow(
        grain_seconds=10, node_id="one", start=0, uuids=("GPU-1",),
        data=pack_rows(values),
    )  # fmt: skip
    known = written((GPU, period(0, 50)), presence=Presence(node_id="one", start=0, end=99))
    (node,) = nodes_at(5, known._replace(series=[row]), WriteBatch())
    assert node.figures == {"cpu_percent": 12.0, "memory_percent": None}
    (gpu,) = node.gpus
    assert (gpu.figures["memory_used_bytes"], gpu.figures["power_watts"]) == (2048.0, None)
    assert (gpu.figures["busy_percent"], gpu.figures["sm_clock_mhz"]) == (80.0, None)


def test_a_row_that_an_unwritten_batch_removes_is_not_shown_beside_what_replaced_it() -> None:
    """Late reports have shown two occupancies to be one; that is not written yet."""
    ended = [GpuOccupancies(gpu=GPU, occupancies=(occupancy(0, 5), occupancy(8, 12)))]
    first = WriteBatch(occupancies=[(PLACE, occupancy(15, 20))])
    joined = WriteBatch(
        removed_occupancies=[(PLACE, 8, 7), (PLACE, 15, 7)], occupancies=[(PLACE, occupancy(0, 20))]
    )
    known = filter_batch(0, 30, merge_batches([first, joined], WriteBatch()))
    (row,) = merge_occupancies(ended, [GPU], known)
    assert [(one.start, one.end) for one in row.occupancies] == [(0, 20)]
    gone = WriteBatch(removed_occupancies=[(PLACE, 0, 7), (PLACE, 8, 7)])
    assert merge_occupancies(ended, [GPU], gone) == []
