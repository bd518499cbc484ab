"""What the two ways of cluster-smi promise, whichever it is."""

from collections.abc import Iterator

import pytest

from fleet_smi.errors import Undecodable, Unreachable
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, process, snapshot
from tests.compat.cluster_smi.transports import (
    ZEROMQ_TRANSPORTS,
    ClusterSmiPushTransport,
    ClusterSmiRouterTransport,
    ZeromqTransport,
)
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.delivery.test_delivery import held
from tests.machines import wait_until


def sent(percent: float = 50.0) -> Snapshot:
    """Two GPUs, alice on the first."""
    alice = process(4711, "alice", command="python train.py")
    return snapshot(gpu(0, busy_percent=percent, processes=(alice,)), gpu(1), node="gpu01")


@pytest.fixture(params=sorted(ZEROMQ_TRANSPORTS))
def way(request: pytest.FixtureRequest) -> Iterator[ZeromqTransport]:
    opened = ZEROMQ_TRANSPORTS[request.param]()
    yield opened
    opened.close()


@pytest.fixture
def routed() -> Iterator[ClusterSmiRouterTransport]:
    way = ClusterSmiRouterTransport()
    yield way
    way.close()


def first(way: ZeromqTransport, heard: RecordedDeliveries) -> Snapshot:
    way.send(sent())
    wait_until(lambda: bool(heard.snapshots))
    return heard.snapshots[0]


def test_people_load_heat_and_power_arrive_and_what_cannot_is_said(
    way: ZeromqTransport,
) -> None:
    with run_source(way.source) as heard:
        got = first(way, heard)
        delivery = next(each for each in heard.deliveries if each.result is got)
    assert (delivery.source, delivery.target) == ("cluster-smi", way.target)
    assert (got.node_id, got.name) == ("cluster-smi-gpu01", "gpu01")
    busy, idle = got.gpus
    assert (busy.busy_percent, busy.temperature_celsius, busy.power_watts) == (50, 33, 71)
    assert [(one.pid, one.user) for one in busy.processes or ()] == [(4711, "alice")]
    assert idle.processes == ()
    (run,) = got.runs
    assert (run.name, run.outcome) == ("cluster-smi", "ok")
    assert run.detail.startswith("cannot tell ")


def test_what_is_told_again_is_harmless_and_what_is_new_comes_through(
    way: ZeromqTransport,
) -> None:
    with run_source(way.source) as heard:
        first(way, heard)
        way.send(sent())
        way.send(sent(99.0))
        wait_until(lambda: heard.snapshots[-1].gpus[0].busy_percent == 99)
    fleet = FleetState()
    for at, delivery in enumerate(heard.deliveries):
        assert isinstance(delivery.result, Snapshot)
        fleet.apply(delivery.result, 1e9 + at, Via(delivery.source, delivery.target))
    (node,) = fleet.view(1e9 + len(heard.deliveries)).nodes
    assert (node.silent, node.missing_reports, node.via) == (False, 0, "cluster-smi")
    assert node.gpus[0].verdict.state == "busy"
    assert node.gpus[0].busy_percent == 99


def test_a_router_that_is_gone_is_told_as_such(routed: ClusterSmiRouterTransport) -> None:
    routed.send(sent())
    routed.disconnect()
    with run_source(routed.source) as heard:
        error = heard.wait_for_error()
    assert isinstance(error, Unreachable)
    assert error.node == routed.target


@pytest.mark.parametrize("garbage", [b"{ this is no cluster", b"\x80", b""])
def test_what_is_no_cluster_is_told_as_such(
    routed: ClusterSmiRouterTransport, garbage: bytes
) -> None:
    routed.send_raw(garbage)
    with run_source(routed.source) as heard:
        error = heard.wait_for_error()
    assert type(error) is Undecodable
    assert error.node == routed.target


def test_what_is_no_node_hides_none_that_is() -> None:
    way = ClusterSmiPushTransport()
    with run_source(way.source) as heard:
        way.send_raw(b"{ this is no node")
        way.send_raw(b"two", b"parts")
        first(way, heard)
    way.close()
    assert len(heard.deliveries) == 1


def test_closing_leaves_no_task_thread_process_or_descriptor(way: ZeromqTransport) -> None:
    with run_source(way.source) as heard:
        first(way, heard)
    before = held()
    with run_source(way.source) as heard:

        def received() -> bool:
            # ZeroMQ drops what is sent before the close of the other end is noticed: resend.
            way.send(sent())
            return bool(heard.snapshots)

        wait_until(received)
    wait_until(lambda: all(count <= before[kind] for kind, count in held().items()))
