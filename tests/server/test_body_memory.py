"""The memory of report bodies that are arriving: limited over all senders, and given back."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fleet_smi.server.body_memory import BodyMemory
from tests.machines import wait_until
from tests.server.test_connection_limit import report
from tests.server.test_refusal_limit import connect
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub

LENGTH, CHUNKED = "Content-Length: 4000000", "Transfer-Encoding: chunked"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as running:
        running.server._app.report_handler.body_memory = BodyMemory(10_000_000)
        yield running


def begin(line: socket.socket, token: str, kind: str) -> None:
    """Send a large report without its end."""
    head = f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    line.sendall(f"{head}{kind}\r\n\r\n".encode())
    if kind == CHUNKED:
        line.sendall(b"%x\r\n%b\r\n" % (4_000_000, b"x" * 4_000_000))


@pytest.mark.parametrize("kind", [LENGTH, CHUNKED])
def test_unfinished_reports_of_many_nodes_do_not_fill_the_memory(
    hub: ThreadedHub, kind: str
) -> None:
    memory = hub.server._app.report_handler.body_memory
    tokens = [hub.join(f"id-of-gpu{number}", f"gpu{number}") for number in range(4)]
    with ExitStack() as stack:
        lines = [stack.enter_context(connect(hub)) for _ in tokens]
        for line, token in zip(lines[:2], tokens[:2], strict=True):
            begin(line, token, kind)
        wait_until(lambda: memory.reserved == 8_000_000)
        begin(lines[2], tokens[2], LENGTH)
        assert lines[2].recv(1 << 16).startswith(b"HTTP/1.1 503")
        # There is room for ordinary reports.
        lines[3].sendall(report(tokens[3], 1, "gpu3"))
        assert lines[3].recv(1 << 16).startswith(b"HTTP/1.1 200")
    wait_until(lambda: memory.reserved == 0)


def test_memory_is_given_back_after_every_report(hub: ThreadedHub) -> None:
    memory = hub.server._app.report_handler.body_memory
    token = hub.join("id-of-gpu01", "gpu01")
    body = b"x" * 3_000_000
    head = f"POST {REPORTS_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    with connect(hub) as line:
        for sequence in range(1, 8):
            line.sendall(report(token, sequence))
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 200")
            line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 400")
        assert memory.reserved == 0
