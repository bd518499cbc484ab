"""The limit of open connections: the least recently used is closed, and others get in."""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet_smi.config.ip_addresses import IpNetworks
from fleet_smi.server import connection_limit, uvicorn_server
from fleet_smi.server.connection_limit import ConnectionTable
from fleet_smi.wire.report import encode_report_json
from tests.builders import gpu, snapshot
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub

LIMIT = 16


class Connection:
    """One that knows whether it was evicted."""

    evicted = False

    def evict(self) -> None:
        self.evicted = True


def add(table: ConnectionTable, address: str, count: int) -> list[Connection]:
    connections = [Connection() for _ in range(count)]
    for each in connections:
        table.add(each, address)
    return connections


def test_an_address_above_its_share_loses_its_oldest_idle_connections() -> None:
    table = ConnectionTable(8, IpNetworks([]))
    (other,) = add(table, "10.0.0.2", 1)
    own = add(table, "10.0.0.1", 8)
    assert [each.evicted for each in own] == [True] * 2 + [False] * 6
    assert not other.evicted
    assert len(table) == 7


def test_a_connection_that_was_used_or_is_busy_stays() -> None:
    table = ConnectionTable(8, IpNetworks([]))
    busy, used, *rest = add(table, "10.0.0.1", 6)
    table.set_busy(busy)
    table.set_idle(used)
    add(table, "10.0.0.1", 4)
    assert not busy.evicted
    assert not used.evicted
    assert all(each.evicted for each in rest)


def test_in_total_the_one_unused_for_longest_is_closed_whatever_its_address() -> None:
    table = ConnectionTable(4, IpNetworks([]))
    first, second = add(table, "10.0.0.1", 1) + add(table, "10.0.0.2", 1)
    table.set_idle(first)
    add(table, "10.0.0.3", 3)
    assert (first.evicted, second.evicted) == (False, True)


def test_where_all_are_busy_the_new_one_is_closed() -> None:
    table = ConnectionTable(4, IpNetworks([]))
    busy = add(table, "10.0.0.1", 3)
    for each in busy:
        table.set_busy(each)
    (new,) = add(table, "10.0.0.1", 1)
    assert new.evicted
    assert not any(each.evicted for each in busy)


def test_a_trusted_proxy_is_limited_in_total_only() -> None:
    table = ConnectionTable(8, IpNetworks(["10.0.0.1/32"]))
    assert not any(each.evicted for each in add(table, "10.0.0.1", 8))
    assert [each.evicted for each in add(table, "10.0.0.1", 1)] == [False]
    assert len(table) == 8


def test_a_table_that_was_full_is_empty_when_all_are_closed() -> None:
    table = ConnectionTable(8, IpNetworks([]))
    for each in add(table, "10.0.0.1", 100):
        table.remove(each)
        table.set_idle(each)
    assert len(table) == 0
    assert not table._counts
    assert not table._idle
    assert not table._idle_by_key


def test_the_limit_of_descriptors_is_raised_and_some_are_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    assert connection_limit.connection_limit() == 4096 - 512
    assert raised == [(4096, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert connection_limit.connection_limit() == 40_000
    assert len(raised) == 1


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedHub]:
    monkeypatch.setattr(uvicorn_server, "connection_limit", lambda: LIMIT)
    with ThreadedHub(tmp_path / "state") as running:
        yield running


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: ", b"POST / HTTP/1.1\r\n"])
def test_idle_connections_of_strangers_do_not_starve_an_agent(
    hub: ThreadedHub, sent: bytes
) -> None:
    port = int(hub.url.rpartition(":")[2])
    token = hub.join("id-of-gpu01", "gpu01")
    with ExitStack() as stack:
        agent = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        for sequence in range(1, 13):
            idle = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                for _ in range(LIMIT // 4)
            ]
            for each in idle:
                each.sendall(sent)
            # On the same connection all the time, and on a new one.
            agent.sendall(report(token, sequence))
            assert agent.recv(1 << 16).startswith(b"HTTP/1.1 200")
            assert hub.request("GET", "/healthz").status == 200


def report(token: str, sequence: int, node: str = "gpu01") -> bytes:
    """A whole request with a report of this node."""
    now = time.time()
    taken = snapshot(gpu(), node=node, taken_at=now, sequence=sequence, run_id="r")
    body = encode_report_json([taken], now)
    head = (
        f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
