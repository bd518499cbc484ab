"""The limit of the request head, over raw sockets and before anybody is authenticated."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.server.head_limit import MAX_HEAD_BYTES, MAX_PIPELINED
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub

START = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
# Far more than the limit and all socket buffers together.
MANY_BYTES = 32 << 20
TOO_LARGE = {
    "short headers": (START, b"a:\r\n" * 1024),
    "one header": (START + b"a: ", b"a" * 4096),
    "one URL": (b"GET /", b"a" * 4096),
    "line breaks": (b"", b"\r\n" * 2048),
    "headers of a report": (b"POST %b HTTP/1.1\r\n" % REPORTS_PATH.encode(), b"a:\r\n" * 1024),
    "after another request": (START + b"\r\n" + START, b"a:\r\n" * 1024),
}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as hub:
        yield hub


@pytest.fixture
def line(hub: ThreadedHub) -> Iterator[socket.socket]:
    port = int(hub.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        yield connection


def send_until_closed(line: socket.socket, start: bytes, repeated: bytes) -> int:
    """Send until the hub closes the connection; return how many bytes it and the kernel took."""
    sent = line.send(start)
    with contextlib.suppress(ConnectionError):
        while sent < MANY_BYTES:
            sent += line.send(repeated)
    return sent


def receive_until(line: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        part = line.recv(1 << 16)
        assert part, received
        received += part
    return received


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_head_without_end_is_cut_off(hub: ThreadedHub, line: socket.socket, kind: str) -> None:
    assert send_until_closed(line, *TOO_LARGE[kind]) < MANY_BYTES
    assert hub.request("GET", "/healthz").status == 200


def test_the_limit_is_exact_and_named(line: socket.socket) -> None:
    def head(size: int) -> bytes:
        return START + b"a: " + b"a" * (size - len(START) - 7) + b"\r\n\r\n"

    for size in (MAX_HEAD_BYTES - 1, MAX_HEAD_BYTES):
        line.sendall(head(size))
        assert receive_until(line, b'"ok"}').startswith(b"HTTP/1.1 200")
    line.sendall(head(MAX_HEAD_BYTES + 1)[:-1])
    response = b"".join(iter(lambda: line.recv(4096), b""))
    assert response.startswith(b"HTTP/1.1 431")
    assert b"head_too_large" in response


def test_a_body_is_not_counted_as_head(hub: ThreadedHub, line: socket.socket) -> None:
    """Bodies over the limit, in one piece with their heads, and the next request after them."""
    token = hub.join("id-of-gpu01", "gpu01")
    head = f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    body = b"x" * (3 * MAX_HEAD_BYTES)
    one = head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    for _ in range(3):
        line.sendall(one)
        received = receive_until(line, b"}}")
        assert received.startswith(b"HTTP/1.1 400")
        assert b"undecodable" in received
    line.sendall(START + b"\r\n")
    assert receive_until(line, b'"ok"}').startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_client_that_pipelines_without_end_is_disconnected(
    line: socket.socket, method: bytes
) -> None:
    request = b"%b %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    request %= method, REPORTS_PATH.encode()
    assert send_until_closed(line, b"", request * 64) < MANY_BYTES


def test_a_few_pipelined_requests_are_answered(line: socket.socket) -> None:
    line.sendall((START + b"\r\n") * MAX_PIPELINED)
    received = b""
    while received.count(b"HTTP/1.1 200") < MAX_PIPELINED:
        received += line.recv(65536) or pytest.fail("closed too early")


@pytest.mark.parametrize("path", [REPORTS_PATH, "/api/v1/session"])
@pytest.mark.parametrize("length", ["Content-Length: %d", "Transfer-Encoding: chunked"])
def test_the_body_of_a_request_for_another_protocol_is_not_the_next_request(
    line: socket.socket, path: str, length: str
) -> None:
    """A proxy before the hub takes it for a body: the next client would get its answer."""
    hidden = START + b"\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        f"{length.replace('%d', str(len(hidden)))}\r\n\r\n"
    )
    line.sendall(head.encode())
    response = b"".join(iter(lambda: line.recv(4096), b""))
    assert response.startswith(b"HTTP/1.1 400")


def test_a_request_without_a_body_may_ask_for_another_protocol(line: socket.socket) -> None:
    for _ in range(2):
        line.sendall(START + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        assert receive_until(line, b'"ok"}').startswith(b"HTTP/1.1 200")
