"""Packed reports at a real hub: many at once, each acknowledged when it is applied."""

import logging
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.hub.figure_batches import FigureBatches
from fleet_smi.hub.figure_columns import FigureColumns
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import GIB, MIB
from fleet_smi.wire.compact import OLDER_GPU_COLUMNS, CompactReport, compact_parts, split
from fleet_smi.wire.packed import encode_packed
from fleet_smi.wire.packed_layout import GPUS_AT, HEAD, OLDER_PACKED_VERSION, PROCESSES_AT
from fleet_smi.wire.report import Receipt, decode_receipt, encode_report, encode_snapshot
from tests.builders import gpu, process, snapshot
from tests.server.threaded_hub import ThreadedHub

NODES, REPORTS = 12, 8


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as hub:
        yield hub


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """Which reports of each batch were applied together."""
    found: list[list[bool]] = []
    apply = FigureBatches.apply

    def recorded(*args: Any) -> Any:
        rows = apply(*args)
        found.append([each is not None for each in rows])
        return rows

    monkeypatch.setattr(FigureBatches, "apply", recorded)
    return found


class PackingAgent:
    """One node with a connection of its own, on which each request has the same head."""

    def __init__(self, hub: ThreadedHub, name: str, gpus: int = 2) -> None:
        self.name, self._gpus, self._hub = name, gpus, hub
        self._token = hub.join(f"id-of-{name}", name)
        self._socket = self.connect()
        self._unread: dict[socket.socket, bytes] = {}
        self.receipt = Receipt(hub="")
        self._last: CompactReport | None = None
        self.sent: Snapshot | None = None

    def connect(self) -> socket.socket:
        host, port = self._hub.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def taken(self, number: int, **fields: Any) -> Snapshot:
        busy = gpu(0, busy_percent=80.0 + number, processes=(process(),), power_watts=600.0)
        idle = [gpu(index, power_watts=70.0 + number / 8) for index in range(1, self._gpus)]
        return snapshot(
            replace(busy, **fields),
            *idle,
            node=self.name,
            taken_at=time.time(),
            sequence=number,
            run_id="run-1",
        )

    def request(self, body: bytes) -> bytes:
        return (
            f"POST /api/v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
            f"{self._token}\r\nContent-Type: application/msgpack\r\nContent-Length: {len(body)}"
            "\r\n\r\n"
        ).encode() + body

    def packed(self, now: Snapshot) -> bytes:
        assert self.sent is not None
        report = compact_parts(split(self.sent), split(now), self._last)
        assert report is not None
        self.sent, self._last = now, report
        return encode_packed(report, now.taken_at, self.receipt.hub)

    def send(self, body: bytes) -> None:
        self._socket.sendall(self.request(body))

    def send_full(self, now: Snapshot) -> None:
        self.sent, self._last = now, None
        self.send(encode_report([encode_snapshot(now)], now.taken_at))

    def response(self, connection: socket.socket | None = None) -> tuple[int, bytes]:
        """Read one response."""
        own = connection or self._socket
        data = self._unread.pop(own, b"")
        while b"\r\n\r\n" not in data:
            data += (part := own.recv(4096))
            assert part, data
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += own.recv(4096)
        self._unread[own] = body[length:]
        return int(head[9:12]), body[:length]

    def acknowledged(self) -> None:
        status, body = self.response()
        assert status == 200, body
        self.receipt = decode_receipt(body)

    @property
    def latest(self) -> Snapshot | None:
        return self._hub.server.hub.fleet.latest_snapshot(f"id-of-{self.name}")

    def start(self) -> None:
        """Send full reports until the next ones may be steady."""
        for number in (1, 2, 3):
            self.send_full(self.taken(number))
            self.acknowledged()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def agents(hub: ThreadedHub) -> Iterator[list[PackingAgent]]:
    with ExitStack() as stack:
        agents = [PackingAgent(hub, f"gpu{number:02}", 1 + number % 3) for number in range(NODES)]
        for agent in agents:
            stack.callback(agent.close)
            agent.start()
        yield agents


def test_reports_that_come_together_are_applied_and_acknowledged(
    hub: ThreadedHub, agents: list[PackingAgent], batches: list[list[bool]]
) -> None:
    for number in range(4, 4 + REPORTS):
        for agent in agents:
            agent.send(agent.packed(agent.taken(number)))
        for agent in agents:
            agent.acknowledged()
            assert agent.latest == agent.sent, "what is acknowledged is in the next answer"
    nodes = hub.fleet().nodes
    assert [node.sequence for node in nodes] == [3 + REPORTS] * NODES
    assert [node.missing_reports for node in nodes] == [0] * NODES
    assert {node.gpus[0].verdict.state for node in nodes} == {"busy"}
    steady = sum(map(sum, batches))
    assert steady > 0.6 * NODES * REPORTS
    assert len(batches) < NODES * REPORTS, "some came together"


def test_each_is_answered_as_if_it_had_come_alone(
    hub: ThreadedHub, agents: list[PackingAgent]
) -> None:
    lost, hostile, zombie, restarted, other, good = agents[:6]
    lost.packed(lost.taken(4))
    bodies = {
        lost: lost.packed(lost.taken(5)),
        hostile: hostile.packed(hostile.taken(4, memory_used_bytes=900 * GIB)),
        zombie: zombie.packed(zombie.taken(4, processes=(process(condition="zombie"),))),
        restarted: restarted.packed(restarted.taken(4)).replace(
            restarted.receipt.hub.encode(), b"f" * 16
        ),
        other: other.packed(other.taken(4)) + b"\0\0\0\0",
        good: good.packed(good.taken(4)),
    }
    for agent, body in bodies.items():
        agent.send(body)
    answers = [agent.response() for agent in bodies]
    assert [status for status, _ in answers] == [409, 409, 200, 409, 400, 200]
    assert [b"need_full" in body for _, body in answers] == [True, True, False, False, False, False]
    assert (zombie.latest, good.latest) == (zombie.sent, good.sent)
    assert {
        agent.latest.sequence for agent in (lost, hostile, restarted, other) if agent.latest
    } == {3}


def test_packed_reports_of_older_agents_are_applied(agents: list[PackingAgent]) -> None:
    older, other = agents[:2]
    older.send(_as_older(older.packed(older.taken(4))))
    other.send(other.packed(other.taken(4, nvlink_rx_bytes_per_second=5 << 30)))
    for agent in (older, other):
        agent.acknowledged()
        assert agent.latest == agent.sent


def _as_older(body: bytes) -> bytes:
    """Return a packed report as an agent without the latest figures of GPUs sends it."""
    at = GPUS_AT + OLDER_GPU_COLUMNS
    masks = struct.unpack_from("<II", body, HEAD.size - 8)
    older = [mask & (1 << at) - 1 | mask >> PROCESSES_AT << at for mask in masks]
    head = body[:1] + bytes([OLDER_PACKED_VERSION]) + body[2 : HEAD.size - 8]
    return head + struct.pack("<II", *older) + body[HEAD.size :]


def test_figures_of_more_processes_than_a_node_has_are_refused(agents: list[PackingAgent]) -> None:
    agent = agents[0]
    agent.send(agent.packed(agent.taken(4)))
    agent.acknowledged()
    sent, last = agent.sent, agent._last
    assert sent is not None
    report = compact_parts(split(sent), split(agent.taken(5)), last)
    assert report is not None
    hostile = replace(report, processes=((GIB, GIB), None, None, None, None))
    agent.send(encode_packed(hostile, time.time(), agent.receipt.hub))
    status, body = agent.response()
    assert (status, b"need_full" in body) == (409, True)
    assert agent.latest == sent


def test_figures_that_cross_a_threshold_are_judged(
    hub: ThreadedHub, agents: list[PackingAgent]
) -> None:
    agent = agents[1]
    for number in range(4, 10):
        free = agent.taken(number)
        used = replace(free.gpus[1], memory_used_bytes=5 * GIB + number * MIB)
        agent.send(agent.packed(replace(free, gpus=(free.gpus[0], used))))
        agent.acknowledged()
    states = [each.verdict.state for each in hub.fleet().nodes[1].gpus]
    assert states == ["busy", "ghost"]


def test_another_request_behind_a_report_that_waits_does_not_overtake_it(
    hub: ThreadedHub, agents: list[PackingAgent]
) -> None:
    first, second = agents[:2]
    for number in range(4, 8):
        first.send(first.packed(first.taken(number)))
        second.send(second.packed(second.taken(number)))
        second._socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        second.acknowledged()
        assert second.response()[0] == 200
        first.acknowledged()
    assert second.latest == second.sent


def test_reports_of_one_node_by_two_connections_are_applied_in_turn(
    agents: list[PackingAgent],
) -> None:
    agent = agents[0]
    with agent.connect() as another:
        for own in (agent._socket, another):
            own.sendall(
                agent.request(encode_report([encode_snapshot(agent.taken(3))], time.time()))
            )
            assert agent.response(own)[0] == 200
        now = [agent.taken(number) for number in (4, 5)]
        bodies = [agent.packed(each) for each in now]
        agent._socket.sendall(agent.request(bodies[0]))
        another.sendall(agent.request(bodies[1]))
        statuses = [agent.response(own)[0] for own in (agent._socket, another)]
    # Which comes first is not known: the second builds on the first.
    assert statuses in ([200, 200], [200, 409])
    assert agent.latest == now[statuses.count(200) - 1]


def test_a_connection_that_closes_before_its_receipt_changes_nothing_for_others(
    agents: list[PackingAgent],
) -> None:
    for number in range(4, 7):
        for agent in agents[:4]:
            agent.send(agent.packed(agent.taken(number)))
        if number == 5:
            agents[0].close()
        for agent in agents[:4] if number == 4 else agents[1:4]:
            agent.acknowledged()
        if number == 5:
            agents.pop(0)
    assert [agent.latest for agent in agents[:3]] == [agent.sent for agent in agents[:3]]


def test_a_bug_in_a_batch_leaves_its_reports_to_the_ordinary_way(
    agents: list[PackingAgent], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FigureColumns, "apply", fail)
    with caplog.at_level(logging.ERROR):
        for agent in agents:
            agent.send(agent.packed(agent.taken(4)))
        for agent in agents:
            agent.acknowledged()
    assert [agent.latest for agent in agents] == [agent.sent for agent in agents]
    assert "bug in a batch of reports" in caplog.text


def test_a_node_with_other_gpus_gets_another_place(
    hub: ThreadedHub, agents: list[PackingAgent]
) -> None:
    agent = agents[0]
    for number, gpus in pairwise((*[1] * 4, *[3] * 4, *[2] * 4)):
        agent._gpus = gpus
        now = agent.taken((agent.sent.sequence if agent.sent else 0) + 1)
        if number == gpus:
            agent.send(agent.packed(now))
        else:
            agent.send_full(now)
        agent.acknowledged()
        assert agent.latest is not None
        assert agent.latest.gpus == now.gpus
