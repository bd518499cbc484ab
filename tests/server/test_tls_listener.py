"""TLS handshakes that are not complete count as connections, and cannot starve an agent."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import uvloop

from fleet_smi.server import uvicorn_server
from tests.server.test_connection_limit import LIMIT, report
from tests.server.threaded_hub import ThreadedHub

NewLoop = Callable[[], asyncio.AbstractEventLoop]
# Less than the handshake may take: what is closed before that was evicted.
PATIENCE_SECONDS = 20.0


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[ThreadedHub]:
    """A hub with TLS and room for a few connections."""
    new_loop: NewLoop = request.param
    monkeypatch.setattr(uvicorn_server, "connection_limit", lambda: LIMIT)
    monkeypatch.setattr(asyncio, "new_event_loop", new_loop)
    with ThreadedHub(tmp_path / "state", hub__tls="self-signed") as running:
        yield running


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def half_client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    return hello[: len(hello) // 2]


def connect(hub: ThreadedHub) -> socket.socket:
    port = int(hub.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)


def connect_tls(hub: ThreadedHub) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(hub.folder / "tls.pem"))
    return context.wrap_socket(connect(hub), server_hostname="127.0.0.1")


def is_healthy(hub: ThreadedHub) -> bool:
    with connect_tls(hub) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return client.recv(1 << 16).startswith(b"HTTP/1.1 200")


def assert_closed(connection: socket.socket) -> None:
    with suppress(ConnectionResetError):
        assert connection.recv(1) == b""


@pytest.mark.parametrize("sent", [b"", half_client_hello()], ids=["silent", "half a hello"])
def test_unfinished_handshakes_are_limited_and_do_not_starve_an_agent(
    hub: ThreadedHub, stack: ExitStack, sent: bytes
) -> None:
    token = hub.join("id-of-gpu01", "gpu01")
    agent = stack.enter_context(connect_tls(hub))
    flood: list[socket.socket] = []
    for sequence in range(1, 9):
        for _ in range(LIMIT // 4):
            flood.append(stack.enter_context(connect(hub)))
            flood[-1].sendall(sent)
        # On the same connection all the time, and on a new one.
        agent.sendall(report(token, sequence))
        assert agent.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert is_healthy(hub)
    for connection in flood[:-LIMIT]:
        assert_closed(connection)


def test_a_complete_or_failed_handshake_gives_its_place_back(
    hub: ThreadedHub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with connect(hub) as waiting:
        for _ in range(LIMIT):
            assert is_healthy(hub)
            with connect(hub) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                while stranger.recv(1 << 16):  # an alert, then the end
                    pass
        # It was not evicted: its handshake can still be completed.
        context = ssl.create_default_context(cafile=str(hub.folder / "tls.pem"))
        with context.wrap_socket(waiting, server_hostname="127.0.0.1") as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert caplog.text == ""


def test_a_hub_that_stops_ends_unfinished_handshakes(hub: ThreadedHub, stack: ExitStack) -> None:
    waiting = [stack.enter_context(connect(hub)) for _ in range(4)]
    waiting[0].sendall(half_client_hello())
    assert is_healthy(hub)  # all of them are accepted
    hub.stop()
    for connection in waiting:
        assert_closed(connection)
