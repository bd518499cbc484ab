"""The rate limit of refused requests: late answers for those alone, then the connection ends."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from fleet_smi.server import refusal_limit
from fleet_smi.server.refusal_limit import RefusalLimiter
from tests.machines import wait_until
from tests.server.test_connection_limit import report
from tests.server.test_report_budget import Clock
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub

WRONG = "fsmi_node_" + "x" * 43
REFUSED = {
    "a wrong credential": f"POST {REPORTS_PATH} HTTP/1.1\r\nAuthorization: Bearer {WRONG}\r\n",
    "another method": f"GET {REPORTS_PATH} HTTP/1.1\r\n",
    "no such endpoint": "GET /nothing HTTP/1.1\r\n",
    "a wrong viewer token": f"GET /api/v1/fleet HTTP/1.1\r\nAuthorization: Bearer {WRONG}\r\n",
}


def test_a_burst_is_answered_and_more_are_held_per_address() -> None:
    clock = Clock()
    limiter = RefusalLimiter(clock)
    burst = 0
    while limiter.hold("10.0.0.1") is None:
        burst += 1
    assert burst >= 200  # a laboratory behind one address
    assert limiter.hold("10.0.0.2") is None
    held = [limiter.hold("10.0.0.1") for _ in range(100)]
    assert (held[0] or 0) > 0
    assert held[-1] == 0.0  # not even held: each of them keeps a connection
    for _ in range(101):
        limiter.release("10.0.0.1")
    assert limiter.hold("10.0.0.1") == held[0]
    clock.now += 60.0
    assert limiter.hold("10.0.0.1") is None


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedHub]:
    monkeypatch.setattr(refusal_limit, "_DELAY_SECONDS", 0.05)
    with ThreadedHub(tmp_path / "state") as running:
        yield running


def connect(hub: ThreadedHub) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(hub.url.rpartition(":")[2])), 60)


def send_until_closed(line: socket.socket, request: str) -> int:
    """Send this request again and again; return how many were answered."""
    answered, data = 0, f"{request}Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode()
    with line, line.makefile("rb") as answers:
        while answered < 5_000:
            line.sendall(data)
            length, head = 0, answers.readline()
            if not head:
                return answered
            assert head.startswith(b"HTTP/1.1 4"), head
            for field in iter(answers.readline, b"\r\n"):
                name, _, value = field.lower().partition(b": ")
                length = int(value) if name == b"content-length" else length
                if (name, value) == (b"connection", b"close\r\n"):
                    return answered
            answers.read(length)
            answered += 1
    return answered


@pytest.mark.parametrize("kind", REFUSED)
def test_a_sender_that_is_refused_again_and_again_is_closed(hub: ThreadedHub, kind: str) -> None:
    assert 200 <= send_until_closed(connect(hub), REFUSED[kind]) < 5_000
    # Also on new connections: the address counts.
    assert send_until_closed(connect(hub), REFUSED[kind]) < 20


def test_pipelined_refusals_are_limited_too(hub: ThreadedHub) -> None:
    request = f"{REFUSED['a wrong credential']}Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    with connect(hub) as line:
        received = b""
        for _ in range(1_000):
            line.sendall(request.encode() * 4)
            part = line.recv(1 << 16)
            if not part:
                break
            received += part
            if b"connection: close" in part:
                break
        else:
            pytest.fail("never closed")
    assert received.count(b"connection: close") == 1
    assert received.count(b"HTTP/1.1 4") < 400


def test_what_is_not_http_is_limited_too_and_not_logged(
    hub: ThreadedHub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter = hub.server._app.report_handler.refusals
    monkeypatch.setattr(refusal_limit, "_DELAY_SECONDS", 1.0)
    with ExitStack() as stack:
        for _ in range(1_000):
            line = stack.enter_context(connect(hub))
            line.sendall(b"\x16\x03\x01 not HTTP\r\n\r\n")
            if limiter._held:
                break
            line.recv(1 << 16)
        else:
            pytest.fail("never limited")
        upgrade = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
        line = stack.enter_context(connect(hub))
        line.sendall(f"{upgrade}Upgrade: websocket\r\n\r\n".encode())
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert not [each for each in caplog.records if each.name.startswith("uvicorn")]
    wait_until(lambda: not limiter._held)


def test_a_laboratory_behind_the_same_address_gets_in_at_once(
    hub: ThreadedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 agents restart together while another machine there has a wrong credential."""
    send_until_closed(connect(hub), REFUSED["a wrong credential"])
    monkeypatch.setattr(refusal_limit, "_DELAY_SECONDS", 600.0)
    join = hub.token("join", max_uses=200)
    names = [f"gpu{number}" for number in range(200)]
    tokens = [hub.join(f"id-of-{name}", name, join) for name in names]
    with ExitStack() as stack:
        hold_one(hub, stack.enter_context(connect(hub)))
        agents = [stack.enter_context(connect(hub)) for _ in names]
        for agent, token, name in zip(agents, tokens, names, strict=True):
            agent.sendall(report(token, 1, name))
        for agent in agents:
            assert agent.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert len(hub.fleet().nodes) == 200


def test_a_held_answer_is_forgotten_with_its_connection(
    hub: ThreadedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_until_closed(connect(hub), REFUSED["a wrong credential"])
    monkeypatch.setattr(refusal_limit, "_DELAY_SECONDS", 5.0)
    with connect(hub) as line:
        hold_one(hub, line)
    limiter = hub.server._app.report_handler.refusals
    wait_until(lambda: not limiter._held)


def hold_one(hub: ThreadedHub, line: socket.socket) -> None:
    """Send refused requests until the answer to one is held."""
    limiter = hub.server._app.report_handler.refusals
    request = f"{REFUSED['a wrong credential']}Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    line.settimeout(0.1)
    while not limiter._held:
        line.sendall(request.encode())
        with suppress(TimeoutError):
            line.recv(1 << 16)


UNWANTED = {
    **{kind: REFUSED[kind] for kind in ("a wrong credential", "no such endpoint")},
    "a body that is too large": "POST /api/v1/join HTTP/1.1\r\nContent-Type: application/json\r\n",
    "a request without need of a body": "GET /healthz HTTP/1.1\r\n",
}


@pytest.mark.parametrize("kind", UNWANTED)
def test_a_body_that_nobody_reads_is_not_received_without_end(hub: ThreadedHub, kind: str) -> None:
    head = f"{UNWANTED[kind]}Host: 127.0.0.1\r\nContent-Length: {1 << 30}\r\n\r\n"
    sent, block = 0, bytes(1 << 20)
    with connect(hub) as line, suppress(ConnectionError):
        line.sendall(head.encode())
        while sent < 256:
            line.sendall(block)
            sent += 1
    assert 8 <= sent < 256  # MiB; the largest report is refused without losing its connection


def test_discarded_bytes_are_limited_per_address_and_come_back_with_time() -> None:
    clock = Clock()
    limiter = RefusalLimiter(clock)
    discarded = 0
    while limiter.may_discard("10.0.0.1", 1 << 20):
        discarded += 1
    assert discarded >= 32  # several of the largest reports
    assert limiter.may_discard("10.0.0.2", 1 << 20)
    clock.now += 60.0
    assert limiter.may_discard("10.0.0.1", 1 << 20)
