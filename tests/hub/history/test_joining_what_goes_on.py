"""What has ended and what goes on, as one: nothing twice, and memory knows better."""

from typing import Any

from fleet_smi.hub.history.going_on import (
    Written,
    between,
    nodes_then,
    together,
    with_open_looks,
    with_open_occupancies,
    with_open_periods,
    with_open_samples,
)
from fleet_smi.hub.history.rows import Batch, NodeRow, Presence, SeriesRow
from fleet_smi.hub.history.samples import Moments, Sampled
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Holder,
    Occupancy,
    Period,
)
from fleet_smi.model.strip import UNTOLD, Look, Samples, Stood
from tests.hub.history.batches import packed

GPU = GpuOfNode(uuid="GPU-1", node_id="one", node="gpu01", index=0)
OTHER = GpuOfNode(uuid="GPU-2", node_id="one", node="gpu01", index=1)
PLACE = ("one", "GPU-1")
FREE: Look = ("free", "", 0)


def period(start: float, end: float | None, state: Any = "busy", **fields: Any) -> Period:
    return Period(start=start, end=end, state=state, reason="", **fields)


def occupancy(start: float, end: float | None, pid: int = 7) -> Occupancy:
    return Occupancy(holder=Holder(pid=pid, user="bob"), start=start, end=end)


def written(*periods: tuple[GpuOfNode, Period], presence: Presence | None = None) -> Written:
    node = NodeRow(node_id="one", name="gpu01")
    heard = [] if presence is None else [presence]
    return Written(nodes=[node], presence=heard, gpus=[GPU, OTHER], periods=periods, series=[])


def test_a_period_that_goes_on_after_all_replaces_the_one_that_was_said_to_have_ended() -> None:
    ended = [GpuPeriods(gpu=GPU, periods=(period(0, 5), period(5, 9, certain=False)))]
    going_on = Batch(periods=[(PLACE, period(5, None))])
    (row,) = with_open_periods(ended, [GPU, OTHER], going_on)
    assert [(one.start, one.end) for one in row.periods] == [(0, 5), (5, None)]


def test_what_looks_so_still_replaces_what_was_said_to_have_ended() -> None:
    bobs: Look = ("busy", "bob", 0)
    holder = Holder(pid=7, user="bob")
    going_on = Batch(periods=[(PLACE, period(5, None, holders=(holder,)))])
    stood: list[Stood] = [(0.0, 5.0, FREE, 1.0), (5.0, 9.0, bobs, None)]
    expected: list[Stood] = [(0, 5, FREE, 1.0), (5, None, bobs, None)]
    assert with_open_looks([(GPU, stood)], going_on) == {PLACE: expected}


def test_what_ended_a_moment_ago_is_joined_in_its_place() -> None:
    stood: list[Stood] = [(0.0, 5.0, FREE, None), (9.0, 12.0, FREE, None)]
    just_ended = Batch(periods=[(PLACE, period(5, 9, "held", busy_percent=2.0))])
    known = together([just_ended], Batch(periods=[(PLACE, period(12, None))]))
    assert [one[:2] for one in with_open_looks([(GPU, stood)], known)[PLACE]] == [
        (0, 5), (5, 9), (9, 12), (12, None),
    ]  # fmt: skip


def test_what_goes_on_knows_better_than_what_waits_to_be_written() -> None:
    silent = Batch(periods=[(PLACE, period(5, 9, certain=False))])
    known = together([silent], Batch(periods=[(PLACE, period(5, None))]))
    (row,) = with_open_periods([], [GPU], known)
    assert [(one.start, one.end) for one in row.periods] == [(5, None)]
    (node,) = nodes_then(20, written(presence=Presence(node_id="one", start=0, end=99)), known)
    assert [gpu.period.end for gpu in node.gpus] == [None]


def test_a_gap_that_was_filled_a_moment_ago_is_not_what_stood_last() -> None:
    known = written((GPU, period(50, 70)), presence=Presence(node_id="one", start=50, end=99))
    filled = Batch(
        periods=[(PLACE, period(20, 40, "held"))],
        presence=[Presence(node_id="one", start=20, end=40)],
    )
    (node,) = nodes_then(60, known, filled)
    assert (node.presence.start, [gpu.period.start for gpu in node.gpus]) == (50, [50])


def test_only_what_was_in_the_range_is_joined() -> None:
    known = Batch(
        periods=[(PLACE, period(0, 20)), (PLACE, period(50, None))],
        occupancies=[(PLACE, occupancy(0, 20)), (PLACE, occupancy(50, None))],
        presence=[Presence(node_id="one", start=0, end=20)],
    )
    assert between(20, 50, known) == Batch()
    assert between(19, 51, known) == known


def test_samples_are_told_of_what_goes_on_and_of_what_just_ended() -> None:
    moments = Moments.last_by(900, [900.0, 1800.0, 2700.0, 3600.0])
    known = Samples([1, 0, 0, 0], bytearray([50, UNTOLD, UNTOLD, UNTOLD]))
    just_ended, opened = period(1800, 2700, "held", busy_percent=7.4), period(2700, None, "free")
    going_on = Batch(periods=[(PLACE, just_ended), (PLACE, opened), (("two", "GPU-3"), opened)])
    found, looks = with_open_samples(Sampled({PLACE: known}, {1: FREE}), moments, going_on)
    shown = {place: [looks.get(number) for number in some.looks] for place, some in found.items()}
    held: Look = ("held", "", 0)
    assert shown == {
        PLACE: [FREE, held, FREE, FREE],
        ("two", "GPU-3"): [None, None, FREE, FREE],
    }
    assert list(found[PLACE].loads) == [50, 7, UNTOLD, UNTOLD]


def test_two_processes_that_began_at_once_are_two() -> None:
    ended = [GpuOccupancies(gpu=GPU, occupancies=(occupancy(5, 9, pid=8),))]
    going_on = Batch(occupancies=[(PLACE, occupancy(5, None))])
    (row,) = with_open_occupancies(ended, [GPU], going_on)
    assert {(one.holder.pid, one.end) for one in row.occupancies} == {(8, 9), (7, None)}


def test_a_node_is_known_once_it_was_heard() -> None:
    going_on = Batch(presence=[Presence(node_id="one", start=50, end=None)])
    assert nodes_then(49, written(), going_on) == []
    (node,) = nodes_then(50, written(), going_on)
    assert (node.node.name, node.presence.end) == ("gpu01", None)


def test_a_state_lasts_while_people_come_and_go() -> None:
    known = written((GPU, period(0, 50)), presence=Presence(node_id="one", start=0, end=99))
    same, other = period(50, None), period(50, None, "held")
    for going_on, since in ((same, 0), (other, 50)):
        (node,) = nodes_then(60, known, Batch(periods=[(PLACE, going_on)]))
        (gpu,) = node.gpus
        assert (gpu.period, gpu.since) == (going_on, since)


def test_figures_are_the_means_of_their_gpu_and_node() -> None:
    nan = float("nan")
    values = (12.0, nan, 80.0, 2.0, 300.0, 60.0, nan)
    row = SeriesRow(
        grain_seconds=10, node_id="one", start=0, uuids=("GPU-1",),
        data=packed(values),
    )  # fmt: skip
    known = written((GPU, period(0, 50)), presence=Presence(node_id="one", start=0, end=99))
    (node,) = nodes_then(5, known._replace(series=[row]), Batch())
    assert node.figures == {"cpu_percent": 12.0, "memory_percent": None}
    (gpu,) = node.gpus
    assert gpu.figures["memory_used_mebibytes"] == 2048.0
    assert (gpu.figures["busy_percent"], gpu.figures["sm_clock_mhz"]) == (80.0, None)
