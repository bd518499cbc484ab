"""What has ended and what goes on, as one: nothing twice, and memory knows better."""

from typing import Any

from fleet_smi.hub.history.going_on import (
    Written,
    nodes_then,
    with_open_looks,
    with_open_occupancies,
    with_open_periods,
)
from fleet_smi.hub.history.grains import Row, pack
from fleet_smi.hub.history.rows import Batch, NodeRow, Presence, SeriesRow
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Holder,
    Occupancy,
    Period,
)
from fleet_smi.model.strip import Look, Stood

GPU = GpuOfNode(uuid="GPU-1", node_id="one", node="gpu01", index=0)
OTHER = GpuOfNode(uuid="GPU-2", node_id="one", node="gpu01", index=1)
PLACE = ("one", "GPU-1")


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
    (row,) = with_open_periods(ended, [GPU, OTHER], going_on, 100)
    assert [(one.start, one.end) for one in row.periods] == [(0, 5), (5, None)]


def test_what_looks_so_still_replaces_what_was_said_to_have_ended() -> None:
    free: Look = ("free", "", 0)
    bobs: Look = ("busy", "bob", 0)
    holder = Holder(pid=7, user="bob")
    going_on = Batch(periods=[(PLACE, period(5, None, holders=(holder,)))])
    ended: list[tuple[GpuOfNode, list[Stood]]] = [(GPU, [(0.0, 5.0, free), (5.0, 9.0, bobs)])]
    assert with_open_looks(ended, going_on, 100) == {PLACE: [(0, 5, free), (5, None, bobs)]}
    assert with_open_looks(ended, going_on, 5) == {PLACE: ended[0][1]}


def test_what_began_after_the_range_is_not_in_it() -> None:
    going_on = Batch(
        periods=[(PLACE, period(50, None))], occupancies=[(PLACE, occupancy(50, None))]
    )
    assert with_open_periods([], [GPU], going_on, 50) == []
    assert with_open_occupancies([], [GPU], going_on, 50) == []
    assert len(with_open_periods([], [GPU], going_on, 51)) == 1


def test_two_processes_that_began_at_once_are_two() -> None:
    ended = [GpuOccupancies(gpu=GPU, occupancies=(occupancy(5, 9, pid=8),))]
    going_on = Batch(occupancies=[(PLACE, occupancy(5, None))])
    (row,) = with_open_occupancies(ended, [GPU], going_on, 100)
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
        data=pack(Row(10.0, values, values, values)),
    )  # fmt: skip
    known = written((GPU, period(0, 50)), presence=Presence(node_id="one", start=0, end=99))
    (node,) = nodes_then(5, known._replace(series=[row]), Batch())
    assert node.figures == {"cpu_percent": 12.0, "memory_percent": None}
    (gpu,) = node.gpus
    assert gpu.figures["memory_used_mebibytes"] == 2048.0
    assert (gpu.figures["busy_percent"], gpu.figures["sm_clock_mhz"]) == (80.0, None)
