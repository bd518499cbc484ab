"""Identity, interval and age of cluster-smi nodes."""

import pytest

from fleet_smi.compat.cluster_smi import nodes as cluster_smi_nodes
from fleet_smi.compat.cluster_smi.codec import NodeMessage, decode_node
from fleet_smi.compat.cluster_smi.nodes import PushedNodes, RouterNodes
from fleet_smi.errors import Refused
from fleet_smi.fleet.fleet import FleetState, Via
from tests.builders import NOON
from tests.compat.cluster_smi.messages import TIME, device, encode_message, node, node_of_2018


def node_message(name: str = "gpu01", time: float = TIME) -> NodeMessage:
    return decode_node(encode_message(node(device(), Name=name, Time=[int(time), 0])))


def test_a_node_is_silent_after_three_of_its_own_intervals() -> None:
    pushed = PushedNodes()
    paces = [
        pushed.snapshot(node_message(), "10.0.0.1", NOON + at).interval_seconds for at in (0, 1, 4)
    ]
    assert paces == [60.0, 3.0, 3.0]
    slow = [
        pushed.snapshot(node_message(), "10.0.0.1", NOON + at).interval_seconds for at in (14, 44)
    ]
    assert slow == [10.0, 60.0]


def test_two_machines_of_one_name_stay_two() -> None:
    pushed = PushedNodes()
    first = pushed.snapshot(node_message(), "10.0.0.1", NOON)
    second = pushed.snapshot(node_message(), "10.0.0.2", NOON + 1)
    again = pushed.snapshot(node_message(), "10.0.0.1", NOON + 3)
    assert first.node_id == again.node_id == "cluster-smi-gpu01"
    assert second.node_id == "cluster-smi-gpu01-10.0.0.2"
    assert (first.name, second.name) == ("gpu01", "gpu01")


def test_a_machine_that_moves_to_another_address_stays_one() -> None:
    pushed = PushedNodes()
    first = pushed.snapshot(node_message(), "10.0.0.1", NOON)
    moved = pushed.snapshot(node_message(), "10.0.0.9", NOON + 600)
    assert first.node_id == moved.node_id
    other = pushed.snapshot(node_message(), "10.0.0.1", NOON + 601)
    assert other.node_id == "cluster-smi-gpu01-10.0.0.1"


def test_the_number_of_pushed_nodes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_smi_nodes, "MAX_NODES", 3)
    pushed = PushedNodes()
    for number in range(3):
        pushed.snapshot(node_message(f"node{number}"), "10.0.0.1", NOON)
    with pytest.raises(Refused, match="more than 3"):
        pushed.snapshot(node_message("one-more"), "10.0.0.1", NOON)
    assert pushed.snapshot(node_message("node0"), "10.0.0.1", NOON + 3).name == "node0"


def test_a_clock_that_is_set_back_does_not_lock_its_node_out() -> None:
    pushed, fleet = PushedNodes(), FleetState()
    for at, stamp in ((0, 0), (3, 3), (6, -5_000), (9, -4_997)):
        snapshot = pushed.snapshot(node_message(time=NOON + stamp), "10.0.0.1", NOON + at)
        fleet.apply(snapshot, NOON + at, Via("cluster-smi", snapshot.node_id))
    (view,) = fleet.view(NOON + 9).nodes
    assert (view.age_seconds, view.silent) == (0.0, False)


def ask(routed: RouterNodes, at: float, *nodes: NodeMessage) -> list[tuple[str, float]]:
    return [(snapshot.name, age) for snapshot, age in routed.new_snapshots(nodes, NOON + at)]


def test_a_node_of_a_router_is_delivered_once_its_time_has_changed() -> None:
    routed = RouterNodes()
    assert ask(routed, 0, node_message(), node_message("dead")) == []
    assert ask(routed, 3, node_message(time=TIME + 3), node_message("dead")) == [("gpu01", 0.0)]
    assert ask(routed, 6, node_message(time=TIME + 3), node_message("dead")) == []
    assert ask(routed, 9, node_message(time=TIME + 6), node_message("dead")) == [("gpu01", 0.0)]


def test_a_node_that_its_router_keeps_listing_is_reported_as_silent() -> None:
    routed, fleet = RouterNodes(), FleetState()
    for at in range(0, 30, 3):
        for snapshot, age in routed.new_snapshots([node_message("dead")], NOON + at):
            fleet.apply(snapshot, NOON + at - age)
    (view,) = fleet.view(NOON + 30).nodes
    assert (view.name, view.silent) == ("dead", True)
    assert [gpu.verdict.state for gpu in view.gpus] == ["unknown"]


def test_a_node_that_comes_back_is_delivered_again() -> None:
    routed = RouterNodes()
    for at in range(0, 30, 3):
        ask(routed, at, node_message())
    assert ask(routed, 30, node_message(time=TIME + 500)) == [("gpu01", 0.0)]


def test_a_node_without_a_time_is_always_new_because_its_age_is_unknown() -> None:
    routed = RouterNodes()
    old = decode_node(encode_message(node_of_2018("TITAN X")))
    for at in (0, 3, 6):
        ((snapshot, age),) = routed.new_snapshots([old], NOON + at)
        assert (age, snapshot.taken_at) == (0.0, NOON + at)
        assert snapshot.runs[0].detail.endswith("or age")
