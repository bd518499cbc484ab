"""The uvicorn server: where it listens, and how it shuts down during a response."""

import asyncio
import socket
import threading

import pytest

from fleet_smi.errors import UsageError
from fleet_smi.server import timeouts
from fleet_smi.server.middleware import Message, Receive, Send
from fleet_smi.server.uvicorn_server import bind_sockets, serve
from tests.server.loopback import serve_app


def bind(host: str, port: int = 0) -> socket.socket:
    """Bind the one socket of a single address."""
    (bound,) = bind_sockets(host, port)
    return bound


def test_it_listens_on_the_given_address() -> None:
    with bind("127.0.0.1") as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
    with bind("localhost") as listening:
        assert listening.getsockname()[1] > 0


def test_every_address_of_the_machine_is_also_those_of_ipv6() -> None:
    bound = bind_sockets("", 0)
    port = bound[0].getsockname()[1]
    try:
        for host, listening in zip(("127.0.0.1", "::1"), bound, strict=True):
            with socket.create_connection((host, port), timeout=60) as client:
                accepted, peer = listening.accept()
                assert peer[:2] == client.getsockname()[:2]
                accepted.close()
        with pytest.raises(UsageError, match=f"cannot listen on .*:{port}: .*in use"):
            bind_sockets("", port)
    finally:
        for listening in bound:
            listening.close()


@pytest.mark.parametrize("host", ["no-such-machine.invalid", "192.0.2.1"])
def test_an_address_that_cannot_be_bound_is_an_error(host: str) -> None:
    with pytest.raises(UsageError, match=f"cannot listen on {host}:0: "):
        bind_sockets(host, 0)


def test_a_port_in_use_is_an_error() -> None:
    with bind("127.0.0.1") as listening:
        port = listening.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
            bind_sockets("127.0.0.1", port)


def test_an_endless_response_neither_blocks_the_shutdown_nor_is_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def endless(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"more", "more_body": True})
        await asyncio.Event().wait()

    async def scenario() -> float:
        loop, listening = asyncio.get_running_loop(), bind("127.0.0.1")
        serving = asyncio.ensure_future(serve(endless, [listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"more")
        began = loop.time()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        writer.close()
        listening.close()
        return loop.time() - began

    assert asyncio.run(scenario()) < 5
    assert caplog.messages == []


def test_nothing_listens_after_the_shutdown() -> None:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def scenario() -> int:
        listening = bind("127.0.0.1")
        port: int = listening.getsockname()[1]
        serving = asyncio.ensure_future(serve(app, [listening]))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"204" in await reader.readline()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        writer.close()
        listening.close()
        return port

    port = asyncio.run(scenario())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


@pytest.mark.parametrize(
    "output", [b"", b"GET / HTT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx"]
)
def test_a_slow_request_is_closed_by_the_timeout(
    output: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "REQUEST_TIMEOUT_SECONDS", 0.05)

    async def patient(scope: Message, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    with serve_app(patient) as port, socket.create_connection(("127.0.0.1", port), 10) as slow:
        slow.sendall(output)
        assert slow.recv(1) == b""


def test_a_client_that_does_not_read_is_closed_by_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeouts, "REQUEST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(timeouts, "STALL_TIMEOUT_SECONDS", 0.05)
    ended = threading.Event()

    async def large(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"x" * (64 << 20), "more_body": True})
            # It waits until most of the first was read.
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        ended.set()

    with serve_app(large) as port, socket.create_connection(("127.0.0.1", port), 60) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(1) == b"H"
        assert ended.wait(60)
