"""What every way promises by which another system's nodes are heard."""

from collections.abc import Iterator

import pytest

from fleet_smi.errors import Refused, Undecodable, Unreachable
from fleet_smi.model.snapshot import Snapshot
from tests.builders import gpu, process, snapshot
from tests.compat.transports import COMPAT_TRANSPORTS, CompatTransport
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.delivery.test_delivery import held
from tests.machines import wait_until


def sent(percent: float = 50.0) -> Snapshot:
    """Two GPUs, alice on the first."""
    alice = process(4711, "alice", command="python train.py")
    return snapshot(gpu(0, busy_percent=percent, processes=(alice,)), gpu(1), node="gpu01")


@pytest.fixture(params=sorted(COMPAT_TRANSPORTS))
def way(request: pytest.FixtureRequest) -> Iterator[CompatTransport]:
    opened = COMPAT_TRANSPORTS[request.param]()
    yield opened
    opened.close()


def first(way: CompatTransport, heard: RecordedDeliveries) -> Snapshot:
    way.send(sent())
    wait_until(lambda: bool(heard.snapshots))
    return heard.snapshots[0]


def test_people_load_and_heat_arrive_and_what_cannot_is_said(way: CompatTransport) -> None:
    with run_source(way.source) as heard:
        got = first(way, heard)
        delivery = next(each for each in heard.deliveries if each.result is got)
    assert (delivery.source, delivery.target) == (way.source.name, way.target)
    assert (got.node_id, got.name) == (f"{way.source.name}-gpu01", "gpu01")
    busy, idle = got.gpus
    assert (busy.busy_percent, busy.temperature_celsius, busy.name) == (50, 33, gpu().name)
    assert [(one.pid, one.user) for one in busy.processes or ()] == [(4711, "alice")]
    assert idle.processes == ()
    assert busy.power_watts is None
    (run,) = got.runs
    assert (run.name, run.outcome) == (way.source.name, "ok")
    assert run.detail.startswith("cannot tell ")


def test_what_is_told_again_is_harmless_and_what_is_new_comes_through(way: CompatTransport) -> None:
    with run_source(way.source) as heard:
        first(way, heard)
        wait_until(lambda: len(heard.snapshots) >= 3)
        way.send(sent(99.0))
        wait_until(lambda: heard.snapshots[-1].gpus[0].busy_percent == 99)
    (node,) = heard.fleet().view(heard.snapshots[-1].taken_at).nodes
    assert (node.silent, node.missing_reports, node.via) == (False, 0, way.source.name)
    assert node.gpus[0].verdict.state == "busy"


def test_a_refused_key_is_told_as_such(way: CompatTransport) -> None:
    way.send(sent())
    way.block_access()
    with run_source(way.source) as heard:
        error = heard.wait_for_error()
    assert isinstance(error, Refused)
    assert error.node == way.target


def test_a_dead_node_is_told_as_such(way: CompatTransport) -> None:
    way.send(sent())
    way.disconnect()
    with run_source(way.source) as heard:
        error = heard.wait_for_error()
    assert isinstance(error, Unreachable)
    assert error.node == way.target


@pytest.mark.parametrize("garbage", [b"{ this is no status", b"{}", b"", b'{"version": 2}'])
def test_what_is_no_status_is_told_as_such(way: CompatTransport, garbage: bytes) -> None:
    way.send_raw(garbage)
    with run_source(way.source) as heard:
        error = heard.wait_for_error()
    assert type(error) is Undecodable
    assert error.node == way.target


def test_closing_leaves_no_task_thread_process_or_descriptor(way: CompatTransport) -> None:
    with run_source(way.source) as heard:
        first(way, heard)
    before = held()
    with run_source(way.source) as heard:
        first(way, heard)
    wait_until(lambda: all(count <= before[kind] for kind, count in held().items()))
