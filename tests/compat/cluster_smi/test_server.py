"""The cluster-smi server of the hub: real clients, and hostile ones."""

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from fleet_smi.compat.cluster_smi.codec import (
    MAX_NODE_BYTES,
    decode_cluster,
    encode_cluster,
    to_snapshot,
)
from fleet_smi.compat.cluster_smi.server import ClusterSmiServer
from fleet_smi.compat.cluster_smi.sockets import resolve_bind_endpoint
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import FleetView
from tests.builders import gpu, process, snapshot
from tests.compat.cluster_smi.messages import device, encode_message, node
from tests.compat.cluster_smi.zeromq_peers import ZeromqClient, ZeromqNode
from tests.machines import wait_until
from tests.server.threaded_hub import ThreadedHub

SETTINGS: dict[str, Any] = {"hub__cluster_smi_clients": "127.0.0.1:0"}
STORM_SECONDS = 60.0 if os.environ.get("FLEET_SMI_LONG") else 3.0


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path, **SETTINGS) as running:
        yield running


def listener(hub: ThreadedHub) -> ClusterSmiServer:
    found = hub.server.listeners["cluster-smi"]
    assert isinstance(found, ClusterSmiServer)
    return found


def port(hub: ThreadedHub) -> str:
    return listener(hub).port.endpoint


def names(body: bytes) -> list[str]:
    return [one.name for one in decode_cluster(body)]


def test_a_client_receives_the_fleet(hub: ThreadedHub) -> None:
    hub.join_and_report(
        snapshot(gpu(processes=(process(command="python train.py"),)), taken_at=time.time())
    )
    hub.wait_until_published()
    with ZeromqClient(port(hub)) as client:
        (expected,) = decode_cluster(client.request())
    (card,) = to_snapshot(expected, 0.0).gpus
    assert (expected.name, card.name) == ("gpu01", "NVIDIA H100 80GB HBM3")
    assert expected.timestamp == pytest.approx(time.time(), abs=30)
    assert [(one.user, one.pid) for one in card.processes or ()] == [("alice", 4711)]


def test_a_hub_without_nodes_sends_an_empty_cluster_of_eight_bytes(hub: ThreadedHub) -> None:
    with ZeromqClient(port(hub)) as client:
        assert client.request() == bytes.fromhex("81a54e6f646573c0")


def test_any_request_is_answered_again_and_again(hub: ThreadedHub) -> None:
    with ZeromqClient(port(hub)) as client:
        for question in ([b""], [b"x" * 1000], [b"\xc1"], [b"two", b"parts"]):
            assert client.request(*question)


def test_clients_that_ask_as_fast_as_they_can_are_answered_each_time(hub: ThreadedHub) -> None:
    def ask(_: int) -> None:
        with ZeromqClient(port(hub)) as client:
            for _ in range(500):
                assert client.request()

    with ThreadPoolExecutor(4) as clients:
        assert len(list(clients.map(ask, range(4)))) == 4


def test_clients_see_new_data_within_two_seconds(hub: ThreadedHub) -> None:
    with ZeromqClient(port(hub)) as client:
        assert names(client.request()) == []
        hub.join_and_report(snapshot(gpu(), taken_at=time.time()))
        wait_until(lambda: names(client.request()) == ["gpu01"])


@pytest.mark.parametrize("commands, expected", [("full", "python train.py"), ("name", "python")])
def test_command_lines_are_masked_as_for_viewers(
    tmp_path: Path, commands: str, expected: str
) -> None:
    with ThreadedHub(tmp_path, hub__commands_for_viewers=commands, **SETTINGS) as hub:
        hub.join_and_report(snapshot(gpu(processes=(process(command="python train.py"),))))
        hub.wait_until_published()
        with ZeromqClient(port(hub)) as client:
            (card,) = to_snapshot(decode_cluster(client.request())[0], 0.0).gpus
    assert [one.command for one in card.processes or ()] == [expected]


def test_a_wrong_number_of_frames_stops_no_other_client(hub: ThreadedHub) -> None:
    for kind, frames in (
        (zmq.DEALER, [b"no delimiter"]),
        (zmq.DEALER, [b"two", b"frames"]),
        (zmq.DEALER, [b"", b"a", b"b", b"c"]),
        (zmq.DEALER, [b"x"] * 1000),
        (zmq.DEALER, [b""]),
        (zmq.REQ, [b"a", b"b"]),
    ):
        with ZeromqClient(port(hub), kind) as rude:
            rude.send(*frames)
        with ZeromqClient(port(hub)) as polite:
            assert polite.request() is not None


def test_a_client_that_never_reads_does_not_delay_others(hub: ThreadedHub) -> None:
    with ZeromqClient(port(hub), zmq.DEALER) as greedy, ZeromqClient(port(hub)) as polite:
        for _ in range(5000):
            greedy.send(b"", b"")
        assert polite.request() is not None


def test_a_response_is_encoded_once_for_many_clients(
    hub: ThreadedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[FleetView] = []

    def counted(view: FleetView) -> bytes:
        made.append(view)
        return encode_cluster(view)

    monkeypatch.setattr("fleet_smi.compat.cluster_smi.server.encode_cluster", counted)
    with ExitStack() as stack:
        clients = [stack.enter_context(ZeromqClient(port(hub))) for _ in range(20)]
        for client in clients:
            client.send(b"")
        assert all(client.receive() for client in clients)
    assert len(made) == 1


def test_after_a_storm_of_broken_messages_every_client_is_answered(tmp_path: Path) -> None:
    endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
    source = ClusterSmiSource(listen_endpoint=endpoint)
    with ThreadedHub(tmp_path, [source], **SETTINGS) as hub:
        until, chance, sent = time.monotonic() + STORM_SECONDS, random.Random(1), 0
        while time.monotonic() < until:
            sent += storm(endpoint, port(hub), chance)
        with ZeromqNode(endpoint) as pushing:
            pushing.push(encode_message(node(device(), Name="after-the-storm")))
        for _ in range(9):
            with ZeromqClient(port(hub)) as client:
                wait_until(lambda: "after-the-storm" in names(client.request()))
        assert sent > 50 * STORM_SECONDS
        assert listener(hub).port.dropped > STORM_SECONDS
        assert source.port is not None
        assert source.port.dropped > 10 * STORM_SECONDS


def storm(nodes: str, clients: str, chance: random.Random) -> int:
    """A second or less of everything that is no message: how many were sent."""
    with ZeromqNode(nodes) as node_like, ZeromqClient(clients, zmq.DEALER) as client_like:
        for _ in range(100):
            frames = broken(chance)
            node_like.push(*frames)
            client_like.send(*frames)
        node_like.push(b"x" * (2 * MAX_NODE_BYTES + 1))
        client_like.send(b"", b"x" * (1 << 20))
    return 202


def broken(chance: random.Random) -> list[bytes]:
    """A message that no program of cluster-smi sends."""
    right = encode_message(node(device(), Name="x"))
    kind = chance.randrange(6)
    if kind == 0:
        return [chance.randbytes(chance.randrange(2000))]
    if kind == 1:
        return [right[: chance.randrange(len(right))]]
    if kind == 2:
        return [b"", right, right, b""][: chance.choice((2, 4))]
    if kind == 3:
        return [b"\xff"] * chance.randrange(2, 50)
    if kind == 4:
        bent = bytearray(right)
        bent[chance.randrange(len(bent))] = chance.randrange(256)
        return [bytes(bent), b""]
    return [msgspec.msgpack.encode(chance.choice([None, 1, [], {}, "x", {"Name": 1}]))]


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
def test_beyond_this_machine_it_listens_only_if_allowed(tmp_path: Path, host: str) -> None:
    with pytest.raises(UsageError, match="cluster_smi_open"):
        ThreadedHub(tmp_path, hub__cluster_smi_clients=f"{host}:0")
    opened: dict[str, Any] = {
        "hub__cluster_smi_clients": f"{host}:0",
        "hub__cluster_smi_open": "true",
    }
    with ThreadedHub(tmp_path, **opened) as hub, ZeromqClient(_from_here(port(hub))) as client:
        assert client.request() is not None


def _from_here(endpoint: str) -> str:
    return f"tcp://127.0.0.1:{endpoint.rpartition(':')[2]}"


def test_a_port_that_is_taken_is_one_line_of_error(tmp_path: Path, hub: ThreadedHub) -> None:
    taken = port(hub).removeprefix("tcp://")
    with pytest.raises(UsageError, match=f"cannot listen on {taken}: "):
        ThreadedHub(tmp_path / "other", hub__cluster_smi_clients=taken)


@pytest.mark.parametrize("router", ["127.0.0.1", "localhost:9081", "[::1]:9081"])
def test_a_hub_that_would_poll_itself_is_refused(tmp_path: Path, router: str) -> None:
    with pytest.raises(UsageError, match="the hub would poll itself"):
        ThreadedHub(
            tmp_path,
            hub__cluster_smi_clients="127.0.0.1:9081",
            hub__cluster_smi_routers=router,
        )


def test_nodes_and_clients_are_refused_at_one_port(tmp_path: Path) -> None:
    where = "127.0.0.1:9080"
    with pytest.raises(UsageError, match="are both 9080"):
        ThreadedHub(tmp_path, hub__cluster_smi_clients=where, hub__cluster_smi_nodes=where)
