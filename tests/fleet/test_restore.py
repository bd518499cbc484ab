"""Checkpoints of nodes: what a restarted hub restores, and from the file of an older one."""

from pathlib import Path

import msgspec
import pytest

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint, Via
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.units import GIB
from tests.builders import HOUR, NOON, gpu, instance, process, snapshot
from tests.fleet.fleet_views import clock

PULL = Via("pull", "gpu01:7071")
# Written by an older hub, whose code had other names for these fields.
OLDER = Path(__file__).parent / "golden" / "checkpoint-of-older-hub.json"


def restarted(fleet: FleetState) -> FleetState:
    """The fleet of a hub that was restarted."""
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


def test_a_restart_changes_no_view() -> None:
    mig = gpu(2, mig_mode=True, instances=(instance(1), instance(2)))
    busy = gpu(0, processes=(process(),), busy_percent=90.0)
    fleet = FleetState()
    fleet.apply(numbered(1, busy, gpu(1), mig), NOON + 1, PULL)
    fleet.apply(numbered(3, busy, mig), NOON + 3, PULL)
    fleet.label("id-of-gpu01", name="big one", labels={"rack": "7"})
    for now in (NOON + 4, NOON + HOUR):
        assert restarted(fleet).view(now) == fleet.view(now)


def test_a_process_that_ended_while_the_hub_was_restarted_frees_its_gpu_at_once() -> None:
    fleet = FleetState()
    for second in range(1, 4):
        busy = gpu(0, processes=(process(),), busy_percent=90.0)
        fleet.apply(numbered(second, busy), NOON + second, PULL)
    again = restarted(fleet)
    again.apply(numbered(4, gpu(0)), NOON + 4, PULL)
    assert states(again.view(NOON + 4)) == ["free"]


def test_a_silent_node_is_silent_and_not_absent_after_a_restart() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu()), NOON)
    (node,) = restarted(fleet).view(NOON + HOUR).nodes
    assert (node.silent, node.gpus[0].verdict.reason) == (True, "silent for 1 h; was free")


def test_a_report_from_before_a_restart_is_a_duplicate_after_it() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu()), NOON + 1)
    fleet.apply(numbered(3, gpu()), NOON + 3)
    again = restarted(fleet)
    assert again.apply(numbered(3, gpu()), NOON + 3) is None
    late = again.apply(numbered(2, gpu()), NOON + 2)
    assert late is not None
    assert late.is_late


def test_idle_time_continues_over_a_restart() -> None:
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


def test_a_target_of_a_restored_node_is_not_listed_twice() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu()), NOON + 1, PULL)
    fleet.apply(numbered(2, gpu()), NOON + 2, Via("push", "id-of-gpu01"))
    again = restarted(fleet)
    again.add_target(PULL)
    assert [node.node_id for node in again.view(NOON).nodes] == ["id-of-gpu01"]
    again.record_failure(PULL, "timed out", NOON + 3)
    assert again.view(NOON).nodes[0].trouble == "timed out"


def test_a_checkpoint_does_not_change_with_later_reports() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu(0), gpu(1)), NOON + 1)
    before = fleet.checkpoint("id-of-gpu01")
    encoded = msgspec.msgpack.encode(before)
    fleet.apply(numbered(2, gpu(0)), NOON + 2)
    fleet.label("id-of-gpu01", labels={"rack": "7"})
    assert msgspec.msgpack.encode(before) == encoded


def test_a_node_that_never_reported_has_no_checkpoint() -> None:
    fleet = FleetState()
    fleet.add_target(PULL)
    assert fleet.checkpoint("pull:gpu01:7071") is None
    assert fleet.checkpoint("unknown") is None


def test_a_missing_gpu_stays_listed_after_a_restart() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(*[gpu(index) for index in range(8)]), NOON)
    fleet.apply(snapshot(*[gpu(index) for index in range(7)], taken_at=NOON + 1), NOON + 1)
    fleet = restarted(fleet)
    fleet.apply(snapshot(*[gpu(index) for index in range(7)], taken_at=NOON + 60), NOON + 60)
    row = fleet.view(NOON + 60).nodes[0].gpus[7]
    assert (row.index, row.verdict.state, row.verdict.reason) == (
        7,
        "broken",
        f"missing since {clock(NOON)}",
    )


@pytest.mark.parametrize("restart", [False, True])
def test_two_nodes_that_report_one_gpu_both_list_it(restart: bool) -> None:
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


def test_where_a_gpu_was_moved_while_its_node_was_off_is_known_after_a_restart() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(0), gpu(1), node="old"), NOON)
    fleet.apply(snapshot(gpu(1), node="new", taken_at=NOON + HOUR), NOON + HOUR)
    fleet = restarted(fleet)
    fleet.apply(snapshot(gpu(0), node="old", taken_at=NOON + 2 * HOUR), NOON + 2 * HOUR)
    view = fleet.view(NOON + 2 * HOUR)
    assert states(view, "old") == ["free", "broken"]
    (old,) = [node for node in view.nodes if node.name == "old"]
    assert old.gpus[1].verdict.reason.endswith(": new reports it now")


def test_the_checkpoint_of_an_older_hub_is_restored_with_its_windows() -> None:
    fleet = FleetState()
    fleet.restore(msgspec.json.decode(OLDER.read_bytes(), type=NodeCheckpoint))
    busy = gpu(0, processes=(process(),), busy_percent=90.0)
    mig = gpu(2, mig_mode=True, instances=(instance(1), instance(2)))
    idle = gpu(3, processes=(process(99, "bob", started_at=NOON - 9000),), busy_percent=0.0)
    change = fleet.apply(numbered(665, busy, mig, idle), NOON + 665, PULL)
    assert change is not None
    (node,) = fleet.view(NOON + 665).nodes
    assert (node.name, node.labels["rack"]) == ("big one", "7")
    states = [(row.index, row.verdict.state) for row in node.gpus]
    assert states == [(0, "busy"), (1, "broken"), (2, "free"), (3, "held")]
    assert node.gpus[3].verdict.idle_seconds == 664


def test_a_checkpoint_has_the_field_names_of_an_older_hub() -> None:
    fleet = FleetState()
    older = msgspec.json.decode(OLDER.read_bytes())
    fleet.restore(msgspec.convert(older, NodeCheckpoint))
    newer = msgspec.json.decode(msgspec.json.encode(fleet.checkpoint("id-of-gpu01")))
    for standing in (*older["standings"].values(), *newer["standings"].values()):
        # Always empty in a checkpoint: it is computed from the next report.
        assert not standing.pop("crowd")["pids"]
    assert _differences(older, newer) == []


def _differences(older: object, newer: object, path: str = "") -> list[str]:
    """Where a value of the older document is missing or another in the newer one."""
    if isinstance(older, dict) and isinstance(newer, dict):
        pairs = [(f"{path}.{key}", value, newer.get(key)) for key, value in older.items()]
    elif isinstance(older, list) and isinstance(newer, list) and len(older) == len(newer):
        pairs = [(f"{path}[{at}]", *both) for at, both in enumerate(zip(older, newer, strict=True))]
    else:
        return [] if older == newer else [path]
    return [found for where, a, b in pairs for found in _differences(a, b, where)]


def test_nodes_whose_checkpoints_share_a_route_can_both_be_removed() -> None:
    """A hub that is killed may have saved the old node of an address before it moved."""
    fleet, ssh = FleetState(), Via("ssh", "gpu01")
    fleet.apply(snapshot(gpu(), node_id="old"), NOON, ssh)
    stale = fleet.checkpoint("old")
    fleet.apply(snapshot(gpu(), node_id="new", taken_at=NOON + HOUR), NOON + HOUR, ssh)
    latest = fleet.checkpoint("new")
    assert stale is not None
    assert latest is not None
    for first, second in ((stale, latest), (latest, stale)):
        restored = FleetState()
        restored.restore(first)
        restored.restore(second)
        restored.record_failure(ssh, "timed out", NOON + HOUR + 1)
        troubles = {node.node_id: node.trouble for node in restored.view(NOON + HOUR + 1).nodes}
        assert troubles == {"old": None, "new": "timed out"}
        assert [restored.remove(node_id) for node_id in ("old", "new")] == [True, True]
        assert restored.view(NOON + HOUR + 2).nodes == ()
