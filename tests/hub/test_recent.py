"""The last hour in memory: every figure in its place, and nothing that was not measured."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.hub.fleet import Change
from fleet_smi.hub.recent import GpuHour, Hour, Recent
from fleet_smi.hub.ring import GRAIN_SECONDS, GRAINS
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.snapshot import Host, Snapshot
from fleet_smi.model.units import GIB
from fleet_smi.model.uuids import uuids_of
from tests.builders import NOON, gpu, snapshot

NODE = "id-of-gpu01"
LAST = GRAINS - 1


def changed(taken: Snapshot, seconds: float = 0.0, *, late: bool = False) -> Change:
    return Change(snapshot=taken, at=NOON + seconds, reported=uuids_of(taken), late=late)


class Watched:
    """One node with the states that the test gives it."""

    def __init__(self, *uuids: str) -> None:
        self.states: dict[str, State] = dict.fromkeys(uuids or ("GPU-00000000",), "free")
        self.recent = Recent(lambda _: self.states)

    def take(
        self, seconds: float, *gpus: Any, late: bool = False, host: Host | None = None
    ) -> None:
        taken = snapshot(*(gpus or (gpu(0),)), node_id=NODE, host=host or Host())
        self.recent.take(changed(taken, seconds, late=late))

    def hour(self, seconds: float) -> Hour:
        return self.recent.hour(NODE, NOON + seconds)

    def gpu(self, seconds: float, uuid: str = "GPU-00000000") -> GpuHour:
        return self.hour(seconds).gpus[uuid]


def busy(percent: float | None, index: int = 0, **fields: Any) -> Any:
    return gpu(index, busy_percent=percent, **fields)


def test_an_hour_starts_with_its_oldest_grain_and_ends_with_this_one() -> None:
    hour = Watched().hour(7.0)
    assert hour.start == NOON - LAST * GRAIN_SECONDS
    assert len(hour.node.cpu_percent) == GRAINS
    assert set(hour.node.cpu_percent) == {None}


def test_a_grain_is_the_mean_of_what_came_within_it() -> None:
    watched = Watched()
    for second, percent in ((0, 10.0), (4, 20.0), (9, 60.0), (10, 80.0)):
        watched.take(second, busy(percent))
    assert watched.gpu(10.0).busy_percent[-2:] == [30.0, 80.0]


def test_looking_in_the_middle_of_a_grain_changes_nothing() -> None:
    watched = Watched()
    watched.take(0, busy(10.0))
    watched.take(1, busy(20.0))
    assert watched.gpu(1.0).busy_percent[-1] == 15.0
    watched.take(2, busy(60.0))
    assert watched.gpu(2.0).busy_percent[-1] == 30.0


def test_every_figure_has_its_own_place() -> None:
    watched = Watched()
    host = Host(cpu_percent=12.5, memory_used_bytes=GIB, memory_total_bytes=4 * GIB)
    card = busy(97.0, memory_used_bytes=71 * GIB, power_watts=365.0, temperature_celsius=-3.0)
    watched.take(0, card, host=host)
    hour, told = watched.hour(0.0), watched.gpu(0.0)
    assert (hour.node.cpu_percent[-1], hour.node.memory_percent[-1]) == (12.5, 25.0)
    assert (told.busy_percent[-1], told.memory_used_mebibytes[-1]) == (97.0, 71 * 1024)
    assert (told.power_watts[-1], told.temperature_celsius[-1]) == (365.0, -3.0)


def test_unknown_is_unknown_and_idle_is_zero() -> None:
    watched = Watched()
    watched.take(0, busy(0.0, power_watts=None))
    assert watched.gpu(0.0).busy_percent[-1] == 0.0
    assert watched.gpu(0.0).power_watts[-1] is None


def test_the_mean_is_of_what_is_known() -> None:
    watched = Watched()
    for second, percent in enumerate((None, 40.0, None, 50.0)):
        watched.take(second, busy(percent))
    assert watched.gpu(4.0).busy_percent[-1] == 45.0


def test_silence_is_a_hole_and_not_the_last_figure() -> None:
    watched = Watched()
    watched.take(0, busy(50.0))
    watched.take(40, busy(60.0))
    assert watched.gpu(49.0).busy_percent[-5:] == [50.0, None, None, None, 60.0]
    assert watched.gpu(49.0).state[-5:] == ["free", None, None, None, "free"]
    assert watched.gpu(70.0).busy_percent[-2:] == [None, None]


def test_after_an_hour_what_was_is_forgotten() -> None:
    watched = Watched()
    for minute in range(90):
        watched.take(60 * minute, busy(float(minute)))
    told = watched.gpu(60 * 89).busy_percent
    assert [figure for figure in told if figure is not None] == [float(m) for m in range(30, 90)]


def test_a_late_report_lands_in_its_place_and_has_no_state() -> None:
    watched = Watched()
    watched.take(0, busy(10.0))
    watched.take(60, busy(70.0))
    watched.take(20, busy(20.0), late=True)
    watched.take(21, busy(40.0), late=True)
    watched.take(61, busy(90.0))
    told = watched.gpu(61.0)
    assert told.busy_percent[-7:] == [10.0, None, 30.0, None, None, None, 80.0]
    assert told.state[-5:] == [None, None, None, None, "free"]


def test_a_late_report_that_shares_a_grain_has_its_weight_in_the_mean() -> None:
    watched = Watched()
    watched.take(0, busy(10.0))
    watched.take(1, busy(10.0))
    watched.take(10, busy(50.0))
    watched.take(2, busy(40.0), late=True)
    assert watched.gpu(10.0).busy_percent[-2:] == [20.0, 50.0]
    assert watched.gpu(10.0).state[-2:] == ["free", "free"]


def test_a_report_that_is_late_by_more_than_an_hour_is_let_go() -> None:
    watched = Watched()
    watched.take(4000, busy(10.0))
    watched.take(300, busy(99.0), late=True)
    watched.take(4001, busy(30.0))
    known = [one for one in watched.gpu(4001.0).busy_percent if one is not None]
    assert known == [20.0]


def test_states_are_as_they_were_judged_at_each_grain() -> None:
    watched = Watched()
    for second, state in enumerate(STATES):
        watched.states = {"GPU-00000000": state}
        watched.take(10 * second)
    assert tuple(watched.gpu(60.0).state[-7:]) == STATES


def test_a_gpu_that_is_gone_keeps_its_hour_as_long_as_it_is_missed() -> None:
    watched = Watched("GPU-00000000", "GPU-00000001")
    watched.take(0, busy(10.0), busy(20.0, 1))
    watched.states = {"GPU-00000001": "busy", "GPU-00000000": "broken"}
    watched.take(10, busy(30.0, 1))
    assert watched.gpu(10.0).busy_percent[-2:] == [10.0, None]
    assert watched.gpu(10.0).state[-2:] == ["free", "broken"]
    assert watched.gpu(10.0, "GPU-00000001").busy_percent[-2:] == [20.0, 30.0]
    watched.states = {"GPU-00000001": "busy"}
    watched.take(20, busy(40.0, 1))
    assert set(watched.hour(20.0).gpus) == {"GPU-00000001"}


def test_gpus_that_change_places_within_a_grain_keep_their_own_figures() -> None:
    watched = Watched("GPU-00000000", "GPU-00000001")
    watched.take(0, busy(10.0), busy(90.0, 1))
    watched.take(1, busy(90.0, 1), busy(10.0))
    assert watched.gpu(1.0).busy_percent[-1] == 10.0
    assert watched.gpu(1.0, "GPU-00000001").busy_percent[-1] == 90.0


def test_a_new_gpu_has_a_place_from_the_next_grain_on() -> None:
    watched = Watched()
    watched.take(0, busy(10.0))
    watched.states = {"GPU-00000000": "free", "GPU-00000001": "free"}
    watched.take(1, busy(20.0), busy(80.0, 1))
    watched.take(10, busy(20.0), busy(80.0, 1))
    assert watched.gpu(10.0).busy_percent[-2:] == [15.0, 20.0]
    assert watched.gpu(10.0, "GPU-00000001").busy_percent[-2:] == [None, 80.0]


def test_a_hub_whose_clock_is_set_back_goes_on_at_once() -> None:
    watched = Watched()
    watched.take(86_400, busy(10.0))
    watched.take(0, busy(50.0))
    watched.take(10, busy(60.0))
    assert watched.gpu(10.0).busy_percent[-3:] == [None, 50.0, 60.0]


def test_a_figure_that_is_too_large_to_be_one_is_unknown() -> None:
    watched = Watched()
    watched.take(0, busy(5.0, memory_used_bytes=2**50), host=Host(cpu_percent=1e6))
    watched.take(10)
    assert watched.gpu(10.0).memory_used_mebibytes[-2] is None
    assert watched.hour(10.0).node.cpu_percent[-2] is None
    assert watched.gpu(10.0).busy_percent[-2] == 5.0


def test_a_node_that_was_removed_is_forgotten() -> None:
    watched = Watched()
    watched.take(0, busy(10.0))
    watched.recent.forget(NODE)
    watched.recent.forget("nobody")
    assert watched.hour(0.0).gpus == {}


@given(st.lists(st.tuples(st.integers(0, 3599), st.floats(0, 100)), min_size=1, max_size=60))
def test_in_whatever_order_they_come_all_have_a_part_in_their_grain(
    reports: list[tuple[int, float]],
) -> None:
    watched = Watched()
    watched.take(3599, busy(None))
    for second, percent in reports:
        watched.take(second, busy(percent), late=True)
    told = watched.gpu(3599.0).busy_percent
    for grain in range(GRAINS):
        came = [percent for second, percent in reports if second // GRAIN_SECONDS == grain]
        figure = told[grain]
        if came and grain < LAST:
            assert figure is not None
            assert math.isclose(figure, sum(came) / len(came), abs_tol=0.5)
        elif not came:
            assert figure is None


def test_nodes_are_kept_apart() -> None:
    watched = Watched()
    watched.recent.take(changed(snapshot(gpu(0), node_id="one")))
    assert watched.recent.hour("other", NOON).gpus == {}


def test_a_report_holds_until_the_next_is_due_and_no_longer() -> None:
    watched = Watched()
    slow = snapshot(gpu(0, busy_percent=40.0), node_id=NODE, interval_seconds=60.0)
    watched.recent.take(changed(slow))
    (told,) = watched.hour(300.0).gpus.values()
    assert told.busy_percent[-31:] == [40.0] * 10 + [None] * 21
