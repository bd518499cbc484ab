"""The delivery suite over the transports of other systems."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi.errors import TruncatedReport
from fleet_smi.hub.sources import SOURCES
from tests.compat.transports import ClusterSmiPushTransport, GpustatTransport, open_transport
from tests.delivery.suite import (
    DeliverySuite,
    DisconnectSuite,
    GarbageSuite,
    RefusalSuite,
    Transport,
    sample,
)
from tests.machines import wait_until

TRANSPORTS = ("nvgpu", "node_info", "gpustat", "pushed", "routed")
BREAKABLE_TRANSPORTS = ("nvgpu", "node_info", "gpustat", "routed")
AUTHENTICATED_TRANSPORTS = ("nvgpu", "node_info", "gpustat")


@pytest.fixture
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Transport]:
    opened = open_transport(request.param, tmp_path)
    yield opened
    opened.close()


def test_every_source_of_another_system_runs_through_the_suite(tmp_path: Path) -> None:
    compat = {name for name, entry in SOURCES.items() if ".compat." in entry.module}
    transports = [open_transport(name, tmp_path) for name in TRANSPORTS]
    names = {transport.source.name for transport in transports}
    for transport in transports:
        transport.close()
    assert names - {"files"} == compat


@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
class TestDelivery(DeliverySuite):
    """Every transport."""

    def test_the_collector_run_states_what_the_format_lacks(self, transport: Transport) -> None:
        with transport.running(sample(1)) as deliveries:
            got = deliveries.wait_for_load(10.0)
        (run,) = got.runs
        assert (run.outcome, run.detail.startswith("does not report ")) == ("ok", True)
        assert got.node_id == f"{run.name}-gpu01"


@pytest.mark.parametrize("transport", BREAKABLE_TRANSPORTS, indirect=True)
class TestBrokenPeer(DisconnectSuite, GarbageSuite):
    """All but pushes of cluster-smi, which have no reply."""


@pytest.mark.parametrize("transport", AUTHENTICATED_TRANSPORTS, indirect=True)
class TestRefusal(RefusalSuite):
    """The transports with access control."""


def test_a_gpustat_file_carries_all_fields_that_gpustat_has(tmp_path: Path) -> None:
    transport = GpustatTransport(tmp_path)
    sent = sample(1).gpus[0]
    with transport.running(sample(1)) as deliveries:
        got = deliveries.wait_for_load(10.0)
    missing = {"memory_busy_percent": None, "compute_mode": None, "mig_mode": None}
    processes = tuple(replace(one, started_at=None) for one in sent.processes or ())
    assert got.gpus[0] == replace(sent, processes=processes, reported_by="gpustat", **missing)


def test_half_a_gpustat_file_is_reported_as_truncated(tmp_path: Path) -> None:
    transport = GpustatTransport(tmp_path)
    with transport.running(sample(1)) as deliveries:
        deliveries.wait_for_load(10.0)
        file = tmp_path / "shared/gpu01.json"
        file.write_bytes(file.read_bytes()[:200])
        wait_until(lambda: isinstance(deliveries.deliveries[-1].result, TruncatedReport))


def test_an_undecodable_push_hides_no_other_node() -> None:
    transport = ClusterSmiPushTransport()
    with transport.running(sample(1)) as deliveries:
        deliveries.wait_for_load(10.0)
        transport.send_frames(b"{ this is no node")
        transport.send_frames(b"two", b"parts")
        transport.send(sample(2))
        deliveries.wait_for_load(20.0)
    transport.close()
    assert len(deliveries.deliveries) == 2
