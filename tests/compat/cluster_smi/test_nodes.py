"""Identity, interval and age of cluster-smi nodes."""

from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.compat.cluster_smi import shared_names
from fleet_smi.compat.cluster_smi.codec import (
    NodeMessage,
    decode_cluster,
    decode_node,
    encode_cluster,
)
from fleet_smi.compat.cluster_smi.nodes import PushedNodes, RouterNodes
from fleet_smi.compat.cluster_smi.table import TableOptions, render
from fleet_smi.errors import Refused, Undecodable
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


def busy(name: str = "gpu01", **fields: Any) -> NodeMessage:
    """A message of a node whose only GPU is busy."""
    return decode_node(encode_message(node(device(Utilization=99), Name=name, **fields)))


def statuses(fleet: FleetState, at: float) -> list[tuple[float | None, bool]]:
    view = fleet.view(at)
    assert all("another host name" in "".join(node.failures) for node in view.nodes)
    return sorted((node.gpus[0].busy_percent, node.silent) for node in view.nodes)


@pytest.mark.parametrize("boot_time", [TIME - 864_000, TIME - 3600], ids=["same boot", "other"])
def test_two_machines_of_one_name_behind_one_address_stay_two(boot_time: int) -> None:
    pushed, fleet = PushedNodes(), FleetState()
    for at in range(0, 60, 3):
        for message, connection in ((node_message(), 15), (busy(BootTime=boot_time), 16)):
            now = NOON + at + connection / 100
            snapshot = pushed.snapshot(message, "10.0.0.1", now, connection)
            fleet.apply(snapshot, now, Via("cluster-smi", snapshot.node_id))
        if at > 9:
            assert statuses(fleet, NOON + at + 1) == [(0.0, False), (99.0, False)]


def test_a_node_that_reconnects_or_is_rebooted_stays_one() -> None:
    pushed, ids = PushedNodes(), set()
    starts = ((15, 0), (16, 0), (15, 0), (17, 90_000), (15, 90_000), (16, 200_000))
    for number, (connection, booted_later) in enumerate(starts):
        message = busy(BootTime=TIME - 864_000 + booted_later)
        for at in (0, 3, 6):
            now = NOON + 60 * number + at
            ids.add(pushed.snapshot(message, "10.0.0.1", now, connection).node_id)
    assert ids == {"cluster-smi-gpu01"}


def test_two_machines_that_one_router_lists_under_one_name_stay_two() -> None:
    """The router has one place for both: its response has the one that sent last."""
    routed, fleet = RouterNodes(), FleetState()
    for at in range(0, 60, 3):
        stamp = [TIME + at, 0]
        turn = at // 3 % 2
        message = busy(Time=stamp, BootTime=TIME - 3600) if turn else node_message(time=TIME + at)
        for snapshot, age in routed.new_snapshots([message], NOON + at):
            fleet.apply(snapshot, NOON + at - age, Via("cluster-smi", snapshot.node_id))
        if at > 15:
            assert statuses(fleet, NOON + at + 1) == [(0.0, False), (99.0, False)]


def test_the_number_of_pushed_nodes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_names, "MAX_NODES", 3)
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


@pytest.mark.parametrize("died_before, age", [(86_400, 86_412), (-300, 10)])
def test_a_dead_node_is_as_old_as_its_stamp_says_unless_that_is_in_the_future(
    died_before: int, age: float
) -> None:
    routed, dead = RouterNodes(), node_message("dead", NOON - died_before)
    assert [ask(routed, at, dead) for at in (0, 6)] == [[], []]
    assert ask(routed, 12, dead) == [("dead", age)]


@given(st.integers(-(2**63), 2**64 - 1), st.integers(-(2**63), 2**64 - 1))
def test_any_time_of_a_dead_node_can_be_shown(seconds: int, nanoseconds: int) -> None:
    routed, fleet = RouterNodes(), FleetState()
    try:
        dead = decode_node(encode_message(node(device(), Time=[seconds, nanoseconds])))
    except Undecodable:
        return
    for at in (0, 12):
        for snapshot, age in routed.new_snapshots([dead], NOON + at):
            assert isfinite(age)
            fleet.apply(snapshot, NOON + at - age)
    view = fleet.view(NOON + 30)
    assert [each.name for each in decode_cluster(encode_cluster(view))] == ["gpu01"]
    assert "| gpu01 " in render(view, TableOptions(last_seen=True))


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
