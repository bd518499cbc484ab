"""The cluster-smi source over real ZeroMQ: pushed by nodes, or polled from a router."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvloop

from fleet_smi.compat.cluster_smi import source as cluster_smi
from fleet_smi.compat.cluster_smi.codec import MAX_NODE_BYTES
from fleet_smi.compat.cluster_smi.sockets import resolve_bind_endpoint
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from fleet_smi.errors import Undecodable, Unreachable, UsageError
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from tests.compat.cluster_smi.messages import TIME, device, encode_message, node, node_of_2018
from tests.compat.cluster_smi.zeromq_peers import ZeromqNode, ZeromqRouter, running_router
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.machines import wait_until

INTERVAL_SECONDS = 0.05


@contextmanager
def listening() -> Iterator[tuple[ClusterSmiSource, str, RecordedDeliveries]]:
    """A source whose port is open."""
    endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
    source = ClusterSmiSource(listen_endpoint=endpoint)
    with run_source(source) as received:
        yield source, endpoint, received


def named(name: str, **fields: object) -> bytes:
    return encode_message(node(device(), Name=name, **fields))


def names(received: RecordedDeliveries) -> list[str]:
    return [snapshot.name for snapshot in received.snapshots]


def test_nodes_of_every_age_push_to_one_port() -> None:
    with listening() as (_, endpoint, received), ZeromqNode(endpoint) as pushing:
        pushing.push(named("new"))
        pushing.push(encode_message(node_of_2018("TITAN X")))
        pushing.push(named("fork", Comment="rack 3", CPUUtil=0.5))
        wait_until(lambda: len(received.snapshots) == 3)
    assert names(received) == ["new", "old01", "fork"]
    assert [each.target for each in received.deliveries] == [
        "cluster-smi-new",
        "cluster-smi-old01",
        "cluster-smi-fork",
    ]
    assert {each.age_seconds for each in received.deliveries} == {0.0}


def test_undecodable_messages_are_dropped_and_counted() -> None:
    wrong = [
        [b""],
        [b"\xc1"],
        [named("a"), named("b")],
        [b"", b"", b""],
        [b"x" * (MAX_NODE_BYTES + 1)],
        [b"\x91" * 10_000],
    ]
    with listening() as (source, endpoint, received), ZeromqNode(endpoint) as pushing:
        assert source.port is not None
        for frames in wrong:
            pushing.push(*frames)
        pushing.push(named("right"))
        wait_until(lambda: names(received) == ["right"])
        assert source.port.dropped == len(wrong)


def test_a_message_above_the_size_limit_closes_its_connection_and_no_other() -> None:
    with listening() as (_, endpoint, received), ZeromqNode(endpoint) as good:
        with ZeromqNode(endpoint) as bad:
            bad.push(b"x" * (3 * MAX_NODE_BYTES))
            good.push(named("first"))
            wait_until(lambda: "first" in names(received))
        good.push(named("second"))
        wait_until(lambda: "second" in names(received))


def test_a_repeating_fault_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with listening() as (source, endpoint, received), ZeromqNode(endpoint) as pushing:
        assert source.port is not None
        for _ in range(500):
            pushing.push(b"\xc1")
            pushing.push(named("right"))
        wait_until(lambda: len(received.snapshots) == 500)
        assert source.port.dropped == 500
    assert len([line for line in caplog.messages if "not msgpack" in line]) == 1


def test_two_hosts_with_one_name_are_two_nodes() -> None:
    with listening() as (_, endpoint, received):
        for address in ("127.0.0.1", "127.0.0.2"):
            with ZeromqNode(endpoint, address) as pushing:
                pushing.push(named("gpu01"))
                pushing.close()
                wait_until(lambda: bool(received.snapshots))
        wait_until(lambda: len({each.node_id for each in received.snapshots}) == 2)


def test_a_burst_of_thousands_is_received_without_blocking_the_loop() -> None:
    with listening() as (_, endpoint, received), ZeromqNode(endpoint) as pushing:
        for number in range(3000):
            pushing.push(named(f"node{number % 100}"))
        wait_until(lambda: len(received.snapshots) == 3000)


def test_it_runs_on_the_event_loop_of_the_hub() -> None:
    endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
    source, received = ClusterSmiSource(listen_endpoint=endpoint), RecordedDeliveries()

    async def scenario() -> None:
        task = asyncio.ensure_future(source.run(received.deliveries.append))
        while len(received.deliveries) < 1000:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    with ZeromqNode(endpoint) as pushing:
        for number in range(1000):
            pushing.push(named(f"node{number}"))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(scenario(), 20))


class Cluster:
    """Nodes that their router knows; those that live have a new time at every look."""

    def __init__(self, *living: str, dead: tuple[str, ...] = ()) -> None:
        self._living, self._dead = living, dead
        self._ticks = 0

    def __call__(self) -> bytes:
        self._ticks += 1
        nodes = [node(device(), Name=name, Time=[TIME + self._ticks, 0]) for name in self._living]
        nodes += [node(device(), Name=name) for name in self._dead]
        return encode_message({"Nodes": nodes or None})


@contextmanager
def poller(
    *routers: ZeromqRouter, timeout_seconds: float = 5.0
) -> Iterator[tuple[ClusterSmiSource, RecordedDeliveries]]:
    targets = [f"127.0.0.1:{one.clients_port}" for one in routers]
    source = ClusterSmiSource(
        routers=targets, interval_seconds=INTERVAL_SECONDS, timeout_seconds=timeout_seconds
    )
    with run_source(source) as received:
        yield source, received


def test_the_nodes_of_a_router_are_delivered_without_its_dead_ones() -> None:
    with running_router(Cluster("a", "b", dead=("c",))) as old, poller(old) as (_, received):
        wait_until(lambda: names(received).count("b") >= 3)
    assert set(names(received)) == {"a", "b"}
    assert old.requests[0].startswith(b"\x81\xa8Identity")


def test_the_first_node_replaces_its_router_in_the_list() -> None:
    with running_router(Cluster("a", "b")) as old, poller(old) as (source, received):
        wait_until(lambda: {"a", "b"} <= set(names(received)))
    fleet = FleetState()
    for target in source.targets:
        fleet.add_target(Via(source.name, target))
    for delivery in received.deliveries:
        assert isinstance(delivery.result, Snapshot)
        fleet.apply(
            delivery.result, delivery.result.taken_at, Via(delivery.source, delivery.target)
        )
    assert [one.name for one in fleet.view(TIME).nodes] == ["a", "b"]


def test_a_router_that_does_not_answer_is_reported_and_polled_again() -> None:
    with running_router(Cluster("a")) as old:
        port = old.clients_port
    source = ClusterSmiSource(
        routers=[f"127.0.0.1:{port}"], interval_seconds=INTERVAL_SECONDS, timeout_seconds=0.2
    )
    with run_source(source) as received:
        error = received.wait_for_error()
        assert isinstance(error, Unreachable)
        assert "did not answer in 0.2 s" in str(error)
        assert error.node == f"127.0.0.1:{port}"
        cluster = Cluster("a")
        with ZeromqRouter(lambda: [cluster()], port):
            wait_until(lambda: "a" in names(received))


@pytest.mark.parametrize(
    "response, kind, message",
    [
        ([b"\xc1"], Undecodable, "not msgpack"),
        ([b"a", b"b"], Undecodable, "2 frames"),
        ([bytes.fromhex("81a54e6f646573c0")], Unreachable, "knows no node yet"),
    ],
)
def test_what_is_no_cluster_is_reported_as_such(
    response: list[bytes], kind: type[Exception], message: str
) -> None:
    with ZeromqRouter(lambda: response) as old, poller(old) as (_, received):
        error = received.wait_for_error()
    assert type(error) is kind
    assert message in str(error)


def test_one_router_that_hangs_delays_no_other() -> None:
    hung = threading.Event()

    def never() -> list[bytes]:
        hung.wait()
        return [b""]

    with ZeromqRouter(never) as bad, running_router(Cluster("a")) as good:
        try:
            with poller(bad, good) as (_, received):
                wait_until(lambda: names(received).count("a") >= 3)
        finally:
            hung.set()


def test_a_single_poll_asks_twice_to_find_dead_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_smi, "_SECOND_POLL_SECONDS", 0.2)
    with running_router(Cluster("a", dead=("b",))) as old:
        source = ClusterSmiSource(routers=[f"127.0.0.1:{old.clients_port}"])
        received = asyncio.run(source.poll())
    output = [(each.result, each.age_seconds) for each in received]
    assert [(what.name, age > 9) for what, age in output if isinstance(what, Snapshot)] == [
        ("a", False),
        ("b", True),
    ]


@pytest.mark.parametrize(
    "router, endpoint",
    [
        ("old", "tcp://old:9081"),
        ("old:9091", "tcp://old:9091"),
        ("[::1]", "tcp://[::1]:9081"),
        ("[::1]:9091", "tcp://[::1]:9091"),
    ],
)
def test_a_router_has_a_default_port(router: str, endpoint: str) -> None:
    source = ClusterSmiSource(routers=[router])
    assert source._endpoints == {router: endpoint}


def test_a_url_is_not_a_router() -> None:
    with pytest.raises(UsageError, match="give host or host:port"):
        ClusterSmiSource(routers=["http://old:9081"])


def test_without_zeromq_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(UsageError, match=r"pip install 'fleet-smi\[zmq\]'"):
        ClusterSmiSource(routers=["old"])


def test_two_nodes_of_one_name_on_one_address_stay_two() -> None:
    with (
        listening() as (_, endpoint, received),
        ZeromqNode(endpoint) as idle,
        ZeromqNode(endpoint) as busy,
    ):
        for count in range(1, 6):
            idle.push(named("gpu01"))
            wait_until(lambda: len(received.snapshots) == 2 * count - 1)  # noqa: B023
            busy.push(encode_message(node(device(Utilization=99), Name="gpu01")))
            wait_until(lambda: len(received.snapshots) == 2 * count)  # noqa: B023
        first, second = (each.result for each in received.deliveries[-2:])
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert first.node_id != second.node_id
    assert (first.gpus[0].busy_percent, second.gpus[0].busy_percent) == (0.0, 99.0)
    assert all(
        "give one of them another host name" in each.runs[-1].detail for each in (first, second)
    )
