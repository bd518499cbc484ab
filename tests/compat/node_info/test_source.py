"""The gpu-cluster-monitor source: polling, passwords, and nodes that stopped sampling."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from fleet_smi.compat.node_info.source import NodeInfoSource
from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from tests.faulty_servers import OneResponseServer, SilentServer
from tests.hub.accounts import ManualClock

CARD = {"index": 0, "name": "T4", "temp": 30, "tot_mem": 100, "use_mem": 1, "utilize": 0}


class Node:
    """Answers as `node_info.py` does: the right password alone, and 404 to a wrong one."""

    def __init__(self, password: str = "sesame") -> None:
        node = self
        self.last_update: str | None = "2020-01-01T00:00:00"
        self.hostname: str | None = "gpu01"

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                right = (
                    self.path == "/get-status"
                    and self.headers["Content-Type"] == "application/json"
                    and msgspec.json.decode(body) == {"passwd": password}
                )
                response = node.status() if right else b"<!doctype html>"
                self.send_response(200 if right else 404)
                self.send_header("Content-Length", str(len(response)))
                self.end_headers()
                self.wfile.write(response)

            def log_message(self, *_: object) -> None:
                """Say nothing beside."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.target = f"127.0.0.1:{self._server.server_address[1]}"

    def status(self) -> bytes:
        gpus = [] if self.hostname is None else [CARD | {"users": []}]
        output = {"gpus": gpus, "hostname": self.hostname, "ips": []}
        return msgspec.json.encode(output | {"last_update": self.last_update})

    @contextmanager
    def running(self) -> Iterator["Node"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@pytest.fixture
def node() -> Iterator[Node]:
    with Node().running() as started:
        yield started


def look(source: NodeInfoSource) -> Delivery:
    (delivery,) = asyncio.run(source.poll())
    return delivery


def poller(node: Node, clock: ManualClock) -> NodeInfoSource:
    return NodeInfoSource([node.target], password="sesame", clock=clock)


def received(fleet: FleetState, delivery: Delivery, now: float) -> None:
    via = Via(delivery.source, delivery.target)
    if isinstance(delivery.result, DeliveryError):
        fleet.record_failure(via, delivery.result.message, now)
    elif delivery.result is not None:
        fleet.apply(delivery.result, now - delivery.age_seconds, via)


def test_the_right_password_is_sent(node: Node) -> None:
    delivery = look(NodeInfoSource([node.target], password="sesame"))
    assert isinstance(delivery.result, Snapshot)
    assert delivery.result.name == "gpu01"


def test_a_wrong_password_is_reported_as_refused_though_the_node_answers_404(node: Node) -> None:
    delivery = look(NodeInfoSource([node.target], password="8888"))
    assert isinstance(delivery.result, Refused)
    assert delivery.result.message.startswith("refused the password: set that of the nodes")


def test_a_node_that_answers_but_has_stopped_reading_is_stale(node: Node) -> None:
    clock, fleet = ManualClock(), FleetState()
    source, began = poller(node, clock), clock()
    for _ in range(10):
        received(fleet, look(source), clock())
        clock.now += 4.0
    (silent,) = fleet.view(clock()).nodes
    assert silent.silent
    assert silent.age_seconds == clock() - began
    assert silent.gpus[0].verdict.state == "unknown"


def test_a_node_that_reads_again_is_live_whatever_its_clock_says(node: Node) -> None:
    clock, fleet = ManualClock(), FleetState()
    source = poller(node, clock)
    for stamp in ("2031-01-01T00:00:00", "2020-01-01T00:00:00", "1999-12-31T23:59:59.5"):
        node.last_update = stamp
        received(fleet, look(source), clock())
        clock.now += 60.0
    received(fleet, look(source), clock())
    (known,) = fleet.view(clock()).nodes
    assert known.age_seconds == 60.0
    assert known.clock_skew_seconds is None


def test_a_null_last_update_and_then_silence_stops_nothing(node: Node) -> None:
    clock, fleet = ManualClock(), FleetState()
    source = poller(node, clock)
    node.last_update = None
    received(fleet, look(source), clock())
    node.hostname = None
    received(fleet, look(source), clock())
    (known,) = fleet.view(clock()).nodes
    assert known.name == "gpu01"
    assert "may not have read its GPUs yet" in str(known.trouble)
    node.hostname, node.last_update = "gpu01", "2026-01-01T00:00:00"
    clock.now += 4.0
    received(fleet, look(source), clock())
    (known,) = fleet.view(clock()).nodes
    assert (known.trouble, known.silent) == (None, False)


def test_being_polled_more_often_than_it_reads_makes_no_node_silent(node: Node) -> None:
    clock, fleet = ManualClock(), FleetState()
    source = NodeInfoSource([node.target], password="sesame", interval_seconds=0.5, clock=clock)
    received(fleet, look(source), clock())
    assert not fleet.view(clock() + 8).nodes[0].silent


def test_a_black_hole_delays_no_other(node: Node) -> None:
    with ExitStack() as stack:
        hung = SilentServer()
        stack.callback(hung.close)
        targets = [f"127.0.0.1:{hung.port}", node.target]
        source = NodeInfoSource(targets, password="sesame", timeout_seconds=2.0)
        dead, alive = asyncio.run(source.poll())
    assert isinstance(dead.result, Unreachable)
    assert isinstance(alive.result, Snapshot)


def test_the_password_is_not_sent_to_where_a_node_points(node: Node) -> None:
    redirect = f"HTTP/1.1 307 x\r\nLocation: http://{node.target}/\r\nContent-Length: 0\r\n\r\n"
    astray = OneResponseServer(redirect.encode())
    try:
        delivery = look(NodeInfoSource([f"127.0.0.1:{astray.port}"], password="sesame"))
    finally:
        astray.close()
    assert isinstance(delivery.result, Undecodable)
    assert "status 307" in str(delivery.result)


def test_the_time_of_a_sample_is_when_it_was_first_received(node: Node) -> None:
    clock = ManualClock()
    source = poller(node, clock)
    first = look(source)
    clock.now += 3.0
    second = look(source)
    assert isinstance(first.result, Snapshot)
    assert isinstance(second.result, Snapshot)
    assert first.result.taken_at == second.result.taken_at == clock() - 3.0
    assert (first.age_seconds, second.age_seconds) == (0.0, 3.0)
