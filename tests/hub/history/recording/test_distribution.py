"""Distribution of usage: shares of users, processes and MIG instances."""

import pytest

from fleet_smi.model.history import NO_USER
from fleet_smi.model.people import HIDDEN_USER
from fleet_smi.model.snapshot import Process
from fleet_smi.model.units import GIB, MIB
from tests.builders import NOON, gpu, instance, process, snapshot
from tests.hub.history.in_memory_history import RecordedFleet
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum

DISPLAY = process(
    9, user="root", kind="graphics", name="Xorg", command="/usr/bin/X", gpu_memory_bytes=300 * MIB
)


def test_two_people_share_a_gpu_in_equal_parts_and_their_processes_share_theirs() -> None:
    story = ReportingNode()
    people = (process(1), process(2), process(3, user="bob"))
    story.report_every_second(0, 12, gpu(processes=people, busy_percent=50.0, power_watts=300.0))
    story.tick(100)
    kept = story.stored
    assert (kept.gpu_seconds(user="alice"), kept.gpu_seconds(user="bob")) == approx_sum((6.0, 6.0))
    assert [one.sums.gpu_seconds for one in kept.occupancies()] == approx_sum([3.0, 3.0, 6.0])
    assert sum(one.sums.energy_joules for one in kept.occupancies()) == approx_sum(3600.0)
    assert sum(one.sums.busy_seconds for one in kept.occupancies()) == approx_sum(6.0)


def test_a_busy_gpu_without_visible_processes_is_charged_to_the_hidden_user() -> None:
    story = ReportingNode()
    hidden = gpu(processes=None, busy_percent=99.0, memory_used_bytes=40 * GIB)
    story.report_every_second(0, 10, hidden)
    story.tick(100)
    states = {row.state for row in story.stored.usage()}
    expected = HIDDEN_USER if states & {"busy", "held"} else NO_USER
    assert story.stored.gpu_seconds(user=expected) == approx_sum(10.0)


def test_instances_count_as_fractions_that_add_up_to_their_gpu() -> None:
    story = ReportingNode()
    big = instance(1, profile="4g.40gb", processes=(process(1),))
    small = instance(2, profile="1g.10gb", processes=(process(2, user="bob"),))
    everybody = (process(1), process(2, user="bob"))
    card = gpu(mig_mode=True, instances=(big, small), processes=everybody, busy_percent=None)
    story.report_every_second(0, 14, card)
    story.tick(100)
    kept = story.stored
    assert kept.gpu_seconds(user="alice") == approx_sum(14 * 4 / 7)
    assert kept.gpu_seconds(user="bob") == approx_sum(14 * 1 / 7)
    assert kept.gpu_seconds() == approx_sum(14.0)
    # Two sevenths belong to no instance: nobody can be busy on them.
    assert kept.gpu_seconds(state="busy") == approx_sum(14 * 5 / 7)
    assert kept.gpu_seconds(user=NO_USER, state="free") == approx_sum(14 * 2 / 7)
    assert [one.state for one in kept.periods(FIRST_GPU)] == ["busy"]
    assert kept.gpus[NODE_ID, small.uuid].parent == FIRST_GPU
    assert {row.uuids for row in kept.series()} == {(FIRST_GPU, big.uuid, small.uuid)}


@pytest.mark.parametrize("desktop", [(), (DISPLAY,)])
def test_a_gpu_whose_processes_come_and_go_is_charged_to_nobody_in_between(
    desktop: tuple[Process, ...],
) -> None:
    recorded = RecordedFleet()
    empty, used = gpu(processes=desktop), gpu(busy_percent=90.0, processes=(process(), *desktop))
    # Its use comes back once, after 30 s: the next end of a process does not free it immediately.
    cards = [used, used, empty, used, used, empty, empty, empty, empty]
    for number, card in enumerate(cards):
        report = snapshot(card, sequence=number, interval_seconds=30.0)
        recorded.take(report, NOON + number * 30.0)
    recorded.history.remove_node(NODE_ID, NOON + len(cards) * 30.0)
    recorded.history.flush()
    kept = recorded.stored
    between = [(one.holders, one.reason) for one in kept.periods(FIRST_GPU)][3]
    assert [one.state for one in kept.periods(FIRST_GPU)] == [
        "busy",
        "free",
        "busy",
        "busy",
        "free",
    ]
    assert between == ((), "its processes ended a moment ago")
    assert kept.gpu_seconds(user="alice") == approx_sum(120.0)
    assert kept.gpu_seconds(user=NO_USER) == approx_sum(150.0)
    assert {one.holder.user for one in kept.occupancies()} == {"alice"}


def test_the_idle_window_before_a_gpu_is_called_held_is_idle_time() -> None:
    story = ReportingNode()
    idle = gpu(processes=(process(1), process(2, user="bob")), busy_percent=0.0)
    story.report_every_second(0, 100, busy_gpu(1, user="alice"))
    story.report_every_second(100, 1200, idle)
    story.tick(1300)
    kept = story.stored
    # The state is as it was shown at the time, but both did nothing from 100 on.
    (held,) = [one for one in kept.periods(FIRST_GPU) if one.state == "held"]
    assert held.start - NOON > 600
    assert sum(row.sums.idle_seconds for row in kept.usage()) == pytest.approx(1100.0, abs=10.0)
    assert [one.sums.idle_seconds for one in kept.occupancies()] == pytest.approx(
        [550.0, 550.0], abs=10.0
    )
