"""The cluster-smi outlet: an agent that pushes to a cluster-smi router."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from fleet_smi.compat.cluster_smi import outlet as cluster_smi
from fleet_smi.compat.cluster_smi.codec import decode_node, to_snapshot
from fleet_smi.compat.cluster_smi.outlet import ClusterSmiOutlet
from fleet_smi.errors import Unreachable
from tests.builders import gpu, process, snapshot
from tests.compat.cluster_smi.zeromq_peers import ZeromqRouter
from tests.machines import wait_until
from tests.ports import free_port


def test_a_router_receives_what_its_own_node_would_send() -> None:
    sent = snapshot(gpu(processes=(process(command="python train.py"),)))
    with ZeromqRouter(lambda: [b""]) as router:
        with closing(ClusterSmiOutlet("127.0.0.1", router.nodes_port)) as outlet:
            outlet.deliver(sent)
        wait_until(lambda: bool(router.pushed))
    got = to_snapshot(decode_node(router.pushed[0]), 0.0)
    assert (got.name, got.taken_at) == (sent.name, sent.taken_at)
    assert [one.user for one in got.gpus[0].processes or ()] == ["alice"]


def test_a_router_that_is_away_does_not_delay_the_agent() -> None:
    port = free_port()
    with closing(ClusterSmiOutlet("127.0.0.1", port)) as outlet:
        for _ in range(200):
            outlet.publish(snapshot(gpu()))


def test_a_router_that_comes_later_receives_only_new_snapshots() -> None:
    with closing(ClusterSmiOutlet("127.0.0.1", port := free_port())) as outlet:
        outlet.publish(snapshot(gpu(), node="too-early"))
        with ZeromqRouter(lambda: [b""], nodes_port=port) as router:

            def sent() -> bool:
                outlet.publish(snapshot(gpu(), node="now"))
                return bool(router.pushed)

            wait_until(sent)
    assert {decode_node(body).name for body in router.pushed} == {"now"}


def test_a_missing_router_is_an_error_of_a_single_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_smi, "_TIMEOUT_MILLISECONDS", 50)
    outlet = ClusterSmiOutlet("127.0.0.1", free_port())
    with closing(outlet), pytest.raises(Unreachable, match="no cluster-smi router"):
        outlet.deliver(snapshot(gpu()))


def test_closing_does_not_block() -> None:
    outlet = ClusterSmiOutlet("127.0.0.1", free_port())
    outlet.publish(snapshot(gpu()))
    outlet.close()


def test_it_goes_through_the_proxy_that_the_variable_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ZeromqRouter(lambda: [b""]) as router, socks_proxy() as (port, requests):
        monkeypatch.setenv("ZEROMQ_SOCKS_PROXY", f"127.0.0.1:{port}")
        with closing(ClusterSmiOutlet("127.0.0.1", router.nodes_port)) as outlet:
            outlet.deliver(snapshot(gpu()))
            wait_until(lambda: bool(router.pushed))
    assert requests == [("127.0.0.1", router.nodes_port)]


@contextmanager
def socks_proxy() -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """A SOCKS5 proxy for one connection: its port, and the address that was requested."""
    requests: list[tuple[str, int]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve_socks, args=(listener, requests))
        thread.start()
        yield listener.getsockname()[1], requests
        thread.join()


def _serve_socks(listener: socket.socket, requests: list[tuple[str, int]]) -> None:
    client, _ = listener.accept()
    with client:
        version, methods = client.recv(2)
        client.recv(methods)
        client.sendall(bytes([version, 0]))
        *_, kind = client.recv(4)
        host = socket.inet_ntoa(client.recv(4)) if kind == 1 else client.recv(client.recv(1)[0])
        port = int.from_bytes(client.recv(2))
        requests.append((host if isinstance(host, str) else host.decode(), port))
        with socket.create_connection(requests[0]) as server:
            client.sendall(b"\5\0\0\1\0\0\0\0\0\0")
            with contextlib.suppress(ConnectionError):  # either may hang up without a word
                _pass_on(client, server)


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    while True:
        for end in select.select([one, other], [], [])[0]:
            data = end.recv(65536)
            if not data:
                return
            (other if end is one else one).sendall(data)
