"""The live state of the fleet: which reports are applied, silence, order, summary."""

import math

import pytest

from fleet_smi.fleet.fleet import FleetChange, FleetState, Via
from fleet_smi.model.fleet import JudgedGpu
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, instance, process, snapshot
from tests.fleet.fleet_views import fleet_of, gpu_rows, only_node


def test_a_snapshot_becomes_a_judged_node() -> None:
    fleet = fleet_of(snapshot(gpu(1), gpu(0, processes=(process(),), busy_percent=96.0)))
    assert gpu_rows(fleet) == [(0, "busy", "alice, 96 %"), (1, "free", "nobody on it")]
    assert isinstance(only_node(fleet).gpus[0], JudgedGpu)


def test_a_judged_gpu_keeps_every_reading() -> None:
    card = gpu(0, unread={"fan_percent": "not supported"}, throttle_reasons=("power",))
    (judged,) = only_node(fleet_of(snapshot(card))).gpus
    assert all(getattr(judged, field) == getattr(card, field) for field in card.__struct_fields__)


def test_a_duplicate_or_older_report_changes_nothing() -> None:
    fleet = fleet_of(snapshot(gpu(), sequence=5))
    assert fleet.apply(snapshot(gpu(), sequence=5), NOON + 1) is None
    assert fleet.apply(snapshot(gpu(), taken_at=NOON - 9, sequence=4), NOON + 1) is None
    assert only_node(fleet, NOON + 1).age_seconds == 1


def test_a_restarted_agent_is_accepted_though_it_counts_from_zero() -> None:
    fleet = fleet_of(snapshot(gpu(), sequence=900))
    assert fleet.apply(snapshot(gpu(), taken_at=NOON + 1, sequence=0), NOON + 1) is not None


def test_a_restarted_agent_is_accepted_though_its_last_report_was_delayed() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), sequence=900, run_id="run-1"), NOON + 5)
    again = snapshot(gpu(), taken_at=NOON + 2, sequence=1, run_id="run-2")
    change = fleet.apply(again, NOON + 2)
    assert change is not None
    assert not change.is_late
    older = snapshot(gpu(), taken_at=NOON + 1, sequence=901, run_id="run-1")
    assert (late := fleet.apply(older, NOON + 1)) is not None
    assert late.is_late


def test_a_node_whose_clock_was_set_back_is_accepted() -> None:
    fleet = fleet_of(snapshot(gpu(), sequence=5))
    assert fleet.apply(snapshot(gpu(), taken_at=NOON - HOUR, sequence=6), NOON + 1) is not None


def test_a_clock_that_was_ahead_does_not_lock_its_node_out() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), taken_at=NOON + HOUR, sequence=5), NOON)
    right = snapshot(gpu(), taken_at=NOON + 9, sequence=0, boot_id="boot-2")
    assert fleet.apply(right, NOON + 9) is not None


def test_a_late_report_from_before_a_reboot_is_dropped() -> None:
    fleet = fleet_of(snapshot(gpu(), boot_id="boot-2"))
    late = snapshot(gpu(), taken_at=NOON - 60, sequence=900, boot_id="boot-1")
    assert fleet.apply(late, NOON + 1) is None


@pytest.mark.parametrize("taken_at", [math.nan, math.inf, -math.inf])
def test_a_report_without_a_finite_time_is_dropped(taken_at: float) -> None:
    fleet = FleetState()
    assert fleet.apply(snapshot(gpu(), taken_at=taken_at), NOON) is None
    assert fleet.view(NOON).nodes == ()


def test_a_change_lists_the_transitions_of_state() -> None:
    fleet = fleet_of(snapshot(gpu(0), gpu(1)))
    taken = gpu(1, processes=(process(),), busy_percent=90.0)
    change = fleet.apply(snapshot(gpu(0), taken, taken_at=NOON + 1), NOON + 1)
    assert isinstance(change, FleetChange)
    assert not change.is_first
    (turn,) = change.transitions
    assert (turn.uuid, turn.before, turn.after.state) == (taken.uuid, "free", "busy")


def test_a_change_lists_the_removed_instance_beside_the_one_that_replaced_it() -> None:
    before, after = instance(1), instance(2)
    fleet = fleet_of(snapshot(gpu(mig_mode=True, instances=(before,))))
    replaced = snapshot(gpu(mig_mode=True, instances=(after,)), taken_at=NOON + 1)
    change = fleet.apply(replaced, NOON + 1)
    assert change is not None
    assert {before.uuid, after.uuid} <= set(change.occupancy_changed)


def test_the_first_change_of_a_node_says_so() -> None:
    change = FleetState().apply(snapshot(gpu()), NOON)
    assert change is not None
    assert change.is_first
    assert [turn.before for turn in change.transitions] == [None]


def test_a_node_is_silent_after_three_missed_intervals() -> None:
    fleet = fleet_of(snapshot(gpu(processes=(process(),), busy_percent=90.0), gpu(1)))
    assert not only_node(fleet, NOON + 3).silent
    node = only_node(fleet, NOON + 240)
    assert node.silent
    assert gpu_rows(fleet, NOON + 240) == [
        (0, "unknown", "silent for 4 min; was busy (alice)"),
        (1, "unknown", "silent for 4 min; was free"),
    ]
    assert [row.verdict.since for row in node.gpus] == [NOON + 3, NOON + 3]


def test_silence_is_by_the_clock_of_the_hub() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), taken_at=NOON - HOUR), NOON)
    assert not only_node(fleet, NOON + 1).silent
    assert only_node(fleet, NOON + 1).age_seconds == 1


def test_a_node_without_an_interval_never_becomes_silent() -> None:
    fleet = fleet_of(snapshot(gpu(), interval_seconds=None))
    assert not only_node(fleet, NOON + 24 * HOUR).silent


def test_a_silent_node_that_reports_again_is_judged_again() -> None:
    fleet = fleet_of(snapshot(gpu()))
    assert only_node(fleet, NOON + HOUR).silent
    fleet.apply(snapshot(gpu(), taken_at=NOON + HOUR, sequence=1), NOON + HOUR)
    assert gpu_rows(fleet, NOON + HOUR) == [(0, "free", "nobody on it")]


def test_instances_of_a_silent_node_are_unknown_too() -> None:
    fleet = fleet_of(snapshot(gpu(mig_mode=True, instances=(instance(1),))))
    (row,) = only_node(fleet, NOON + HOUR).gpus
    assert [part.verdict.state for part in row.instances] == ["unknown"]


def test_each_instance_has_its_own_verdict() -> None:
    mine = process(gpu_memory_bytes=8 * GIB)
    taken = instance(2, processes=(mine,), memory_used_bytes=8 * GIB)
    fleet = fleet_of(
        snapshot(gpu(mig_mode=True, busy_percent=None, instances=(instance(1), taken)))
    )
    (row,) = only_node(fleet).gpus
    assert row.verdict.state == "busy"
    assert [part.verdict.state for part in row.instances] == ["free", "busy"]


def test_a_dropped_target_is_removed_unless_it_has_reported() -> None:
    fleet, folder, node = FleetState(), Via("files", "/nfs"), Via("files", "gpu01")
    fleet.record_failure(folder, "no file of a node in this folder", NOON)
    fleet.apply(snapshot(gpu(0)), NOON, node)
    for via in (folder, node, Via("files", "nobody")):
        fleet.drop_target(via)
    assert only_node(fleet).name == "gpu01"


def test_two_nodes_with_one_name_stay_two() -> None:
    fleet = fleet_of(snapshot(gpu(), node_id="a"), snapshot(gpu(), node_id="b"))
    assert [node.node_id for node in fleet.view(NOON).nodes] == ["a", "b"]


def test_nodes_are_sorted_by_name() -> None:
    fleet = fleet_of(*[snapshot(node=name) for name in ("gpu10", "gpu9", "cpu1")])
    fleet.apply(snapshot(node_id="id-of-cpu1", node="zeta", taken_at=NOON + 1), NOON + 1)
    assert [node.name for node in fleet.view(NOON).nodes] == ["gpu9", "gpu10", "zeta"]


def test_a_removed_node_is_forgotten() -> None:
    fleet = fleet_of(snapshot(gpu()))
    fleet.remove("id-of-gpu01")
    fleet.remove("unknown")
    assert fleet.view(NOON).nodes == ()
    assert fleet.node("id-of-gpu01", NOON) is None


def test_one_node_equals_its_part_of_the_whole_view() -> None:
    fleet = fleet_of(snapshot(gpu()), snapshot(node="gpu02"))
    assert fleet.node("id-of-gpu01", NOON) == fleet.view(NOON).nodes[0]


def test_the_parts_of_a_node_agree_with_its_view() -> None:
    fleet = fleet_of(snapshot(gpu(0), gpu(1)), snapshot(gpu(1), taken_at=NOON + 1))
    for now in (NOON + 1, NOON + HOUR):
        parts, whole = fleet.node_parts("id-of-gpu01", now), fleet.node("id-of-gpu01", now)
        assert parts is not None
        assert whole is not None
        assert parts.node.silent == whole.silent
        rows = [(row.uuid, row.verdict) for row in whole.gpus]
        assert [(card.uuid, verdict) for card, verdict in parts.gpus] == rows
    assert fleet.node_parts("unknown", NOON) is None


def test_the_summary_counts_gpus_by_state_and_reporting_nodes() -> None:
    busy = gpu(0, processes=(process(),), busy_percent=90.0)
    fleet = fleet_of(snapshot(busy, gpu(1)), snapshot(gpu(0), node="gpu02"))
    fleet.apply(snapshot(busy, gpu(1), taken_at=NOON + 60), NOON + 60)
    summary = fleet.view(NOON + 60).summary
    assert (summary.gpus, summary.free, summary.busy, summary.unknown) == (3, 1, 1, 1)
    assert (summary.nodes, summary.nodes_reporting) == (2, 1)


def test_idle_time_accumulates_over_reports() -> None:
    fleet = FleetState()
    mine = gpu(processes=(process(user="bob"),), memory_used_bytes=17 * GIB)
    for at in range(0, 11_000, 60):
        fleet.apply(snapshot(mine, taken_at=NOON + at, interval_seconds=60.0), NOON + at)
    assert gpu_rows(fleet, NOON + 11_000) == [(0, "held", "bob, idle for 3 h, 16.0 GiB allocated")]


def test_the_window_of_a_gpu_follows_its_uuid_and_not_its_index() -> None:
    worked = gpu(0, uuid="GPU-a", processes=(process(),), busy_percent=90.0)
    fleet = fleet_of(snapshot(worked))
    moved = gpu(3, uuid="GPU-a", processes=(process(),), busy_percent=90.0)
    fleet.apply(snapshot(moved, taken_at=NOON + 1), NOON + 1)
    (row,) = only_node(fleet, NOON + 1).gpus
    assert (row.index, row.verdict.since) == (3, NOON)


def test_the_keys_of_all_devices_are_those_of_the_view() -> None:
    state = FleetState()
    sliced = gpu(1, instances=(instance(1), instance(2)))
    state.apply(snapshot(gpu(0), sliced, node="gpu01"), NOON)
    # One of its GPUs is missing later, and another node is silent: both are still in the view.
    state.apply(snapshot(sliced, node="gpu01", taken_at=NOON + 900), NOON + 900)
    state.apply(snapshot(gpu(2), node="gpu02"), NOON)
    view = state.view(NOON + 901)
    devices = {
        (node.node_id, uuid)
        for node in view.nodes
        for each in node.gpus
        for uuid in (each.uuid, *[instance.uuid for instance in each.instances])
    }
    assert len(devices) == 5
    assert state.device_keys() == devices


def test_a_node_whose_clock_is_set_before_it_sends_a_report_keeps_its_window() -> None:
    fleet = FleetState()
    kept = gpu(processes=(process(),), busy_percent=0.0, memory_used_bytes=17 * GIB)
    for number in range(1, 101):
        age = 20.0 if number in (80, 90) else 0.0
        at = NOON + 10.0 * number
        sent = snapshot(kept, taken_at=at, sequence=number, run_id="run", interval_seconds=10.0)
        fleet.apply(sent, at - age)
    (shown,) = fleet.view(NOON + 1000.0).nodes
    assert shown.gpus[0].verdict.state == "held"
