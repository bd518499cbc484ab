"""What the hub believes: late reports, silence, inventory, order."""

import math
from typing import Any

import pytest

from fleet_smi.fleet.fleet import FleetChange, FleetState, Via
from fleet_smi.model.fleet import JudgedGpu, NodeView
from fleet_smi.model.snapshot import CollectorRun, Fault
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, instance, process, snapshot


def only_node(fleet: FleetState, now: float = NOON) -> NodeView:
    (node,) = fleet.view(now).nodes
    return node


def rows(fleet: FleetState, now: float = NOON) -> list[tuple[int, str, str]]:
    return [
        (row.index, row.verdict.state, row.verdict.reason) for row in only_node(fleet, now).gpus
    ]


def filled(*reports: Any) -> FleetState:
    fleet = FleetState()
    for report in reports:
        assert fleet.apply(report, report.taken_at) is not None
    return fleet


def test_a_snapshot_becomes_a_judged_node() -> None:
    fleet = filled(snapshot(gpu(1), gpu(0, processes=(process(),), busy_percent=96.0)))
    assert rows(fleet) == [(0, "busy", "alice, 96 %"), (1, "free", "nobody on it")]
    assert isinstance(only_node(fleet).gpus[0], JudgedGpu)


def test_a_judged_gpu_keeps_every_reading() -> None:
    card = gpu(0, unread={"fan_percent": "not supported"}, throttle_reasons=("power",))
    (judged,) = only_node(filled(snapshot(card))).gpus
    assert all(getattr(judged, field) == getattr(card, field) for field in card.__struct_fields__)


def test_a_doubled_or_older_report_changes_nothing() -> None:
    fleet = filled(snapshot(gpu(), sequence=5))
    assert fleet.apply(snapshot(gpu(), sequence=5), NOON + 1) is None
    assert fleet.apply(snapshot(gpu(), taken_at=NOON - 9, sequence=4), NOON + 1) is None
    assert only_node(fleet, NOON + 1).age_seconds == 1


def test_a_restarted_agent_is_heard_though_it_counts_from_zero() -> None:
    fleet = filled(snapshot(gpu(), sequence=900))
    assert fleet.apply(snapshot(gpu(), taken_at=NOON + 1, sequence=0), NOON + 1) is not None


def test_a_node_whose_clock_was_set_back_is_heard() -> None:
    fleet = filled(snapshot(gpu(), sequence=5))
    assert fleet.apply(snapshot(gpu(), taken_at=NOON - HOUR, sequence=6), NOON + 1) is not None


def test_a_clock_that_was_ahead_does_not_lock_its_node_out() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), taken_at=NOON + HOUR, sequence=5), NOON)
    right = snapshot(gpu(), taken_at=NOON + 9, sequence=0, boot_id="boot-2")
    assert fleet.apply(right, NOON + 9) is not None


def test_a_late_report_from_before_a_reboot_is_dropped() -> None:
    fleet = filled(snapshot(gpu(), boot_id="boot-2"))
    late = snapshot(gpu(), taken_at=NOON - 60, sequence=900, boot_id="boot-1")
    assert fleet.apply(late, NOON + 1) is None


@pytest.mark.parametrize("taken_at", [math.nan, math.inf, -math.inf])
def test_a_report_from_no_time_is_dropped(taken_at: float) -> None:
    fleet = FleetState()
    assert fleet.apply(snapshot(gpu(), taken_at=taken_at), NOON) is None
    assert fleet.view(NOON).nodes == ()


def test_a_change_tells_which_states_turned() -> None:
    fleet = filled(snapshot(gpu(0), gpu(1)))
    taken = gpu(1, processes=(process(),), busy_percent=90.0)
    change = fleet.apply(snapshot(gpu(0), taken, taken_at=NOON + 1), NOON + 1)
    assert isinstance(change, FleetChange)
    assert not change.is_first
    (turn,) = change.transitions
    assert (turn.uuid, turn.before, turn.after.state) == (taken.uuid, "free", "busy")


def test_the_first_change_of_a_node_says_so() -> None:
    change = FleetState().apply(snapshot(gpu()), NOON)
    assert change is not None
    assert change.is_first
    assert [turn.before for turn in change.transitions] == [None]


def test_a_node_is_silent_after_three_missed_intervals() -> None:
    fleet = filled(snapshot(gpu(processes=(process(),), busy_percent=90.0), gpu(1)))
    assert not only_node(fleet, NOON + 3).silent
    node = only_node(fleet, NOON + 240)
    assert node.silent
    assert rows(fleet, NOON + 240) == [
        (0, "unknown", "silent for 4 min; was busy (alice)"),
        (1, "unknown", "silent for 4 min; was free"),
    ]
    assert [row.verdict.since for row in node.gpus] == [NOON + 3, NOON + 3]


def test_silence_is_by_the_clock_of_the_hub() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), taken_at=NOON - HOUR), NOON)
    assert not only_node(fleet, NOON + 1).silent
    assert only_node(fleet, NOON + 1).age_seconds == 1


def test_a_snapshot_without_an_interval_never_falls_silent() -> None:
    fleet = filled(snapshot(gpu(), interval_seconds=None))
    assert not only_node(fleet, NOON + 24 * HOUR).silent


def test_a_node_that_speaks_again_is_judged_again() -> None:
    fleet = filled(snapshot(gpu()))
    assert only_node(fleet, NOON + HOUR).silent
    fleet.apply(snapshot(gpu(), taken_at=NOON + HOUR, sequence=1), NOON + HOUR)
    assert rows(fleet, NOON + HOUR) == [(0, "free", "nobody on it")]


def test_instances_of_a_silent_node_are_unknown_too() -> None:
    fleet = filled(snapshot(gpu(mig_mode=True, instances=(instance(1),))))
    (row,) = only_node(fleet, NOON + HOUR).gpus
    assert [part.verdict.state for part in row.instances] == ["unknown"]


def test_each_instance_has_its_own_verdict() -> None:
    mine = process(gpu_memory_bytes=8 * GIB)
    taken = instance(2, processes=(mine,), memory_used_bytes=8 * GIB)
    fleet = filled(snapshot(gpu(mig_mode=True, busy_percent=None, instances=(instance(1), taken))))
    (row,) = only_node(fleet).gpus
    assert row.verdict.state == "busy"
    assert [part.verdict.state for part in row.instances] == ["free", "busy"]


def test_a_gpu_that_vanished_stays_as_a_broken_row() -> None:
    fleet = filled(snapshot(gpu(0), gpu(1)), snapshot(gpu(1), taken_at=NOON + 240))
    assert rows(fleet, NOON + 240) == [
        (0, "broken", "missing for 4 min"),
        (1, "free", "nobody on it"),
    ]
    lost = only_node(fleet, NOON + 240).gpus[0]
    assert (lost.name, lost.busy_percent, lost.processes) == ("NVIDIA H100 80GB HBM3", None, None)
    assert lost.fault == Fault(kind="missing", detail="missing", since=NOON)


def test_a_vanished_gpu_goes_on_being_missing_and_can_come_back() -> None:
    fleet = filled(
        snapshot(gpu(0), gpu(1)),
        snapshot(gpu(1), taken_at=NOON + 1),
        snapshot(gpu(1), taken_at=NOON + 60),
    )
    assert rows(fleet, NOON + 60)[0] == (0, "broken", "missing for 1 min")
    fleet.apply(snapshot(gpu(0), gpu(1), taken_at=NOON + 61), NOON + 61)
    assert [row[1] for row in rows(fleet, NOON + 61)] == ["free", "free"]


def test_gpus_behind_a_failed_reading_are_unknown_and_not_missing() -> None:
    failed = CollectorRun(name="nvidia", outcome="failed", seconds=5.0, detail="no answer in 5 s")
    fleet = filled(snapshot(gpu(0)), snapshot(taken_at=NOON + 1, runs=(failed,)))
    assert rows(fleet, NOON + 1) == [(0, "unknown", "no answer in 5 s")]


def test_a_gpu_that_moved_is_not_missing_at_its_old_place() -> None:
    fleet = filled(
        snapshot(gpu(0), gpu(1), node="old"),
        snapshot(gpu(1), node="new", taken_at=NOON + 1),
        snapshot(gpu(0), node="old", taken_at=NOON + 2),
    )
    by_name = {node.name: node for node in fleet.view(NOON + 2).nodes}
    assert [row.index for row in by_name["old"].gpus] == [0]


@pytest.mark.parametrize("order", [(True, False), (False, True)], ids=["to", "from"])
def test_a_gpu_that_went_by_its_place_and_tells_its_uuid_now_is_the_same(
    order: tuple[bool, bool],
) -> None:
    cards = {
        True: (gpu(0, uuid="gpu0@vm", uuid_is_made=True), gpu(1)),
        False: (gpu(0, uuid="GPU-a"), gpu(1)),
    }
    first, then = (cards[each] for each in order)
    fleet = filled(snapshot(*first), snapshot(*then, taken_at=NOON + 60))
    assert [row.uuid for row in only_node(fleet, NOON + 60).gpus] == [card.uuid for card in then]


def test_a_gpu_without_a_uuid_in_another_slot_hides_none_that_is_missing() -> None:
    old = gpu(0, pci_bus_id="0000:01:00.0")
    new = gpu(0, uuid="gpu0@vm", uuid_is_made=True, pci_bus_id="0000:81:00.0")
    fleet = filled(snapshot(old), snapshot(new, taken_at=NOON + 60))
    assert [row[1] for row in rows(fleet, NOON + 60)].count("broken") == 1


def test_a_target_that_is_expected_no_longer_is_listed_no_longer_unless_it_was_heard() -> None:
    fleet, folder, node = FleetState(), Via("files", "/nfs"), Via("files", "gpu01")
    fleet.record_failure(folder, "no node has left a file there", NOON)
    fleet.apply(snapshot(gpu(0)), NOON, node)
    for via in (folder, node, Via("files", "nobody")):
        fleet.drop_target(via)
    assert only_node(fleet).name == "gpu01"


def test_a_node_that_invents_gpus_cannot_fill_the_memory() -> None:
    fleet = FleetState()
    for second in range(300):
        card = gpu(0, uuid=f"GPU-{second}")
        fleet.apply(snapshot(card, taken_at=NOON + second), NOON + second)
    assert len(only_node(fleet, NOON + 299).gpus) < 100


def test_two_nodes_with_one_name_stay_two() -> None:
    fleet = filled(snapshot(gpu(), node_id="a"), snapshot(gpu(), node_id="b"))
    assert [node.node_id for node in fleet.view(NOON).nodes] == ["a", "b"]


def test_nodes_come_in_the_order_of_their_names() -> None:
    fleet = filled(*[snapshot(node=name) for name in ("gpu10", "gpu9", "cpu1")])
    fleet.apply(snapshot(node_id="id-of-cpu1", node="zeta", taken_at=NOON + 1), NOON + 1)
    assert [node.name for node in fleet.view(NOON).nodes] == ["gpu9", "gpu10", "zeta"]


def test_a_removed_node_is_forgotten() -> None:
    fleet = filled(snapshot(gpu()))
    fleet.remove("id-of-gpu01")
    fleet.remove("never heard of")
    assert fleet.view(NOON).nodes == ()
    assert fleet.node("id-of-gpu01", NOON) is None


def test_one_node_can_be_looked_at_alone() -> None:
    fleet = filled(snapshot(gpu()), snapshot(node="gpu02"))
    assert fleet.node("id-of-gpu01", NOON) == fleet.view(NOON).nodes[0]


def test_a_node_can_be_had_in_parts() -> None:
    fleet = filled(snapshot(gpu(0), gpu(1)), snapshot(gpu(1), taken_at=NOON + 1))
    for now in (NOON + 1, NOON + HOUR):
        parts, whole = fleet.node_parts("id-of-gpu01", now), fleet.node("id-of-gpu01", now)
        assert parts is not None
        assert whole is not None
        assert parts.node.silent == whole.silent
        rows = [(row.uuid, row.verdict) for row in whole.gpus]
        assert [(card.uuid, verdict) for card, verdict in parts.gpus] == rows
    assert fleet.node_parts("never heard of", NOON) is None


def test_the_summary_counts_gpus_by_state_and_nodes_by_voice() -> None:
    busy = gpu(0, processes=(process(),), busy_percent=90.0)
    fleet = filled(snapshot(busy, gpu(1)), snapshot(gpu(0), node="gpu02"))
    fleet.apply(snapshot(busy, gpu(1), taken_at=NOON + 60), NOON + 60)
    summary = fleet.view(NOON + 60).summary
    assert (summary.gpus, summary.free, summary.busy, summary.unknown) == (3, 1, 1, 1)
    assert (summary.nodes, summary.nodes_reporting) == (2, 1)


def test_idle_time_is_gathered_from_report_to_report() -> None:
    fleet = FleetState()
    mine = gpu(processes=(process(user="bob"),), memory_used_bytes=17 * GIB)
    for at in range(0, 11_000, 60):
        fleet.apply(snapshot(mine, taken_at=NOON + at, interval_seconds=60.0), NOON + at)
    assert rows(fleet, NOON + 11_000) == [(0, "held", "bob, idle for 3 h, 16.0 GiB kept")]


def test_the_uuid_of_a_gpu_carries_its_memory_and_not_its_index() -> None:
    worked = gpu(0, uuid="GPU-a", processes=(process(),), busy_percent=90.0)
    fleet = filled(snapshot(worked))
    moved = gpu(3, uuid="GPU-a", processes=(process(),), busy_percent=90.0)
    fleet.apply(snapshot(moved, taken_at=NOON + 1), NOON + 1)
    (row,) = only_node(fleet, NOON + 1).gpus
    assert (row.index, row.verdict.since) == (3, NOON)


def test_two_gpus_under_one_uuid_do_no_harm() -> None:
    fleet = filled(snapshot(gpu(0, uuid="GPU-a"), gpu(1, uuid="GPU-a")))
    assert [row[0] for row in rows(fleet)] == [0, 1]
