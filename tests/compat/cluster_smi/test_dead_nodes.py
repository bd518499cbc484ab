"""A node that its router lists although it is dead, seen through a hub by each kind of client."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from fleet_smi.compat.cluster_smi.codec import decode_cluster
from fleet_smi.compat.cluster_smi.server import ClusterSmiServer
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from tests.cli.program import run_fleet_smi
from tests.compat.cluster_smi.messages import device, encode_message, node
from tests.compat.cluster_smi.zeromq_peers import ZeromqClient, running_router
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub

DAY = 86_400


@pytest.fixture
def died_at() -> int:
    return int(time.time()) - DAY


@pytest.fixture
def hub(tmp_path: Path, died_at: int) -> Iterator[ThreadedHub]:
    """A hub that polls a router with one live node and one that died a day ago."""

    def cluster() -> bytes:
        now, part = divmod(time.time(), 1)
        live = node(device(), Name="live", Time=[int(now), int(part * 1e9)])
        return encode_message({"Nodes": [live, node(device(), Name="dead", Time=[died_at, 0])]})

    with running_router(cluster) as router:
        source = ClusterSmiSource(
            routers=[f"127.0.0.1:{router.clients_port}"], interval_seconds=0.5
        )
        settings = {"hub__cluster_smi_clients": "127.0.0.1:0"}
        with ThreadedHub(tmp_path / "hub", [source], **settings) as running:
            yield running


def test_a_dead_node_behind_a_router_has_the_time_that_an_older_client_shows(
    hub: ThreadedHub, died_at: int, tmp_path: Path
) -> None:
    listener = hub.server.listeners["cluster-smi"]
    assert isinstance(listener, ClusterSmiServer)

    def times() -> dict[str, float | None]:
        with ZeromqClient(listener.port.endpoint) as client:
            return {one.name: one.timestamp for one in decode_cluster(client.request())}

    wait_until(lambda: {"live", "dead"} <= set(times()), 60)
    # By this an older client shows the node as offline, as it does with the router itself.
    assert times()["dead"] == died_at
    done = run_fleet_smi("like", "cluster-smi", "-t", "--hub", hub.url, env={"HOME": str(tmp_path)})
    row = next(line for line in done.stdout.splitlines() if line.startswith("| dead "))
    died = datetime.fromtimestamp(died_at).astimezone()
    assert "| Offline " in row
    assert row.endswith(f"| {died:%a %b} {died.day} {died:%H:%M:%S %Y} |")
