"""What of the fleet outlives the hub, and which GPU is where."""

import msgspec
import pytest

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint, Via
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, instance, process, snapshot

PULL = Via("pull", "gpu01:7071")


def restarted(fleet: FleetState) -> FleetState:
    """The fleet of a hub that was ended and started again."""
    again = FleetState()
    for node in fleet.view(NOON).nodes:
        encoded = msgspec.msgpack.encode(fleet.checkpoint(node.node_id))
        again.restore(msgspec.msgpack.decode(encoded, type=NodeCheckpoint))
    return again


def numbered(sequence: int, *gpus: Gpu) -> Snapshot:
    return snapshot(*gpus, taken_at=NOON + sequence, sequence=sequence, run_id="run-1")


def states(view: FleetView, name: str = "gpu01") -> list[str]:
    (node,) = [node for node in view.nodes if node.name == name]
    return [row.verdict.state for row in node.gpus]


def test_a_restarted_hub_believes_what_it_believed() -> None:
    mig = gpu(2, mig_mode=True, instances=(instance(1), instance(2)))
    busy = gpu(0, processes=(process(),), busy_percent=90.0)
    fleet = FleetState()
    fleet.apply(numbered(1, busy, gpu(1), mig), NOON + 1, PULL)
    fleet.apply(numbered(3, busy, mig), NOON + 3, PULL)
    fleet.label("id-of-gpu01", name="big one", labels={"rack": "7"})
    for now in (NOON + 4, NOON + HOUR):
        assert restarted(fleet).view(now) == fleet.view(now)


def test_a_silent_node_is_silent_and_not_absent_after_a_restart() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON)
    (node,) = restarted(fleet).view(NOON + HOUR).nodes
    assert (node.silent, node.gpus[0].verdict.reason) == (True, "silent for 1 h; was free")


def test_what_came_before_a_restart_is_doubled_after_it() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu()), NOON + 1)
    fleet.apply(numbered(3, gpu()), NOON + 3)
    again = restarted(fleet)
    assert again.apply(numbered(3, gpu()), NOON + 3) is None
    late = again.apply(numbered(2, gpu()), NOON + 2)
    assert late is not None
    assert late.is_late


def test_idle_time_goes_on_over_a_restart() -> None:
    idle = gpu(processes=(process(user="bob"),), memory_used_bytes=17 * GIB)
    fleet = FleetState()
    for second in range(0, 900, 10):
        if second == 450:
            fleet = restarted(fleet)
        change = fleet.apply(numbered(second, idle), NOON + second)
        assert change is not None
        assert len(change.transitions) == (second in (0, 620))
    verdict = fleet.view(NOON + 890).nodes[0].gpus[0].verdict
    assert (verdict.state, verdict.idle_seconds, verdict.since) == ("held", 890, NOON + 600)


def test_a_target_of_a_remembered_node_is_not_listed_twice() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu()), NOON + 1, PULL)
    fleet.apply(numbered(2, gpu()), NOON + 2, Via("push", "id-of-gpu01"))
    again = restarted(fleet)
    again.add_target(PULL)
    assert [node.node_id for node in again.view(NOON).nodes] == ["id-of-gpu01"]
    again.record_failure(PULL, "timed out", NOON + 3)
    assert again.view(NOON).nodes[0].trouble == "timed out"


def test_what_was_remembered_does_not_change_with_the_fleet() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu(0), gpu(1)), NOON + 1)
    before = fleet.checkpoint("id-of-gpu01")
    encoded = msgspec.msgpack.encode(before)
    fleet.apply(numbered(2, gpu(0)), NOON + 2)
    fleet.label("id-of-gpu01", labels={"rack": "7"})
    assert msgspec.msgpack.encode(before) == encoded


def test_nothing_is_remembered_of_a_node_that_never_spoke() -> None:
    fleet = FleetState()
    fleet.add_target(PULL)
    assert fleet.checkpoint("pull:gpu01:7071") is None
    assert fleet.checkpoint("never heard of") is None


def test_seven_of_eight_gpus_are_eight_rows_after_a_restart_too() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(*[gpu(index) for index in range(8)]), NOON)
    fleet.apply(snapshot(*[gpu(index) for index in range(7)], taken_at=NOON + 1), NOON + 1)
    fleet = restarted(fleet)
    fleet.apply(snapshot(*[gpu(index) for index in range(7)], taken_at=NOON + 60), NOON + 60)
    row = fleet.view(NOON + 60).nodes[0].gpus[7]
    assert (row.index, row.verdict.state, row.verdict.reason) == (7, "broken", "missing for 1 min")


@pytest.mark.parametrize("restart", [False, True])
def test_two_nodes_that_see_one_gpu_both_keep_its_row(restart: bool) -> None:
    fleet = FleetState()
    both = gpu(0), gpu(1)
    for second in range(3):
        fleet.apply(snapshot(*both, taken_at=NOON + second), NOON + second)
        fleet.apply(snapshot(*both, node="twin", taken_at=NOON + second), NOON + second + 0.5)
    if restart:
        fleet = restarted(fleet)
    for second in range(3, 6):
        fleet.apply(snapshot(gpu(0), taken_at=NOON + second), NOON + second)
        assert states(fleet.view(NOON + second)) == ["free", "broken"]
        assert states(fleet.view(NOON + second), "twin")[0] == "free"


def test_a_gpu_that_moved_while_its_node_was_off_is_elsewhere_after_a_restart_too() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(0), gpu(1), node="old"), NOON)
    fleet.apply(snapshot(gpu(1), node="new", taken_at=NOON + HOUR), NOON + HOUR)
    fleet = restarted(fleet)
    fleet.apply(snapshot(gpu(0), node="old", taken_at=NOON + 2 * HOUR), NOON + 2 * HOUR)
    assert states(fleet.view(NOON + 2 * HOUR), "old") == ["free"]


def test_gpus_under_one_uuid_are_told_apart() -> None:
    fleet = FleetState()
    for second in range(3):
        busy = gpu(1, uuid="GPU-a", processes=(process(),), busy_percent=90.0)
        cards = gpu(0, uuid="GPU-a"), busy, gpu(2, uuid="GPU-a#2"), gpu(3, uuid="GPU-a")
        change = fleet.apply(snapshot(*cards, taken_at=NOON + second), NOON + second)
        assert change is not None
        assert len(change.transitions) == (4 if second == 0 else 0)
    rows = fleet.view(NOON + 2).nodes[0].gpus
    assert [row.uuid for row in rows] == ["GPU-a", "GPU-a#3", "GPU-a#2", "GPU-a#4"]
    assert [row.verdict.state for row in rows] == ["free", "busy", "free", "free"]
    assert [row.uuid_is_made for row in rows] == [False, True, False, True]


def test_an_instance_under_the_uuid_of_its_gpu_is_told_apart() -> None:
    taken = instance(1, uuid="GPU-a", processes=(process(),))
    card = gpu(0, uuid="GPU-a", mig_mode=True, instances=(taken, instance(2, uuid="GPU-a")))
    fleet = FleetState()
    fleet.apply(snapshot(card), NOON)
    (row,) = fleet.view(NOON).nodes[0].gpus
    assert [part.uuid for part in row.instances] == ["GPU-a#2", "GPU-a#3"]
    assert [part.verdict.state for part in row.instances] == ["busy", "free"]


def test_a_thousand_gpus_under_one_uuid_do_no_harm() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(*[gpu(index, uuid="GPU-a") for index in range(1000)]), NOON)
    assert len({row.uuid for row in fleet.view(NOON).nodes[0].gpus}) == 1000
