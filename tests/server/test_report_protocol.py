"""The fast path of reports over a raw socket, in any fragments and beside other requests."""

import re
import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

import pytest

from fleet_smi.server import timeouts
from fleet_smi.wire.report import decode_receipt, encode_report_json
from tests.builders import gpu, snapshot
from tests.server.threaded_hub import REPORTS_PATH, ThreadedHub


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as hub:
        yield hub


@pytest.fixture
def token(hub: ThreadedHub) -> str:
    return hub.join("id-of-gpu01", "gpu01")


@pytest.fixture
def line(hub: ThreadedHub) -> Iterator[socket.socket]:
    port = int(hub.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        yield connection


def body(sequence: int) -> bytes:
    at = time.time()
    taken = snapshot(gpu(), taken_at=at, sequence=sequence, run_id="run-1", interval_seconds=60.0)
    return encode_report_json([taken], at)


def head(token: str, *more: str, version: str = "1.1", path: str = REPORTS_PATH) -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: 127.0.0.1", f"Authorization: Bearer {token}"]
    return "\r\n".join([*lines, "Content-Type: application/json", *more, "", ""]).encode()


def request(token: str, sequence: int, *more: str, version: str = "1.1") -> bytes:
    sent = body(sequence)
    return head(token, *more, f"Content-Length: {len(sent)}", version=version) + sent


def response(line: socket.socket) -> Answer:
    """The next answer on this connection."""
    with HTTPResponse(line) as got:
        got.begin()
        return Answer(got.status, got.getheaders(), got.read())


def responses(line: socket.socket, count: int) -> bytes:
    """All that comes until so many answers have begun and the last has a body."""
    received = b""
    while len(re.findall(rb"HTTP/1.1 \d+ .*?\r\n\r\n(?=.)", received, re.DOTALL)) < count:
        part = line.recv(1 << 16)
        assert part, received
        received += part
    return received


def sequence_of(hub: ThreadedHub) -> int:
    return hub.fleet().nodes[0].sequence


def test_a_report_in_many_pieces_is_one_report(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    whole = request(token, 1)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for start in range(0, len(whole), 50):
        line.sendall(whole[start : start + 50])
    assert response(line).status == 200
    assert sequence_of(hub) == 1


def test_pipelined_reports_are_answered_in_order(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    line.sendall(request(token, 1) + request(token, 2) + request(token, 3))
    assert responses(line, 3).count(b"HTTP/1.1 200 OK") == 3
    assert sequence_of(hub) == 3


def test_a_report_pipelined_after_another_request_is_answered_second(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    line.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + request(token, 1))
    received = responses(line, 2)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.rindex(b'{"hub":') > received.rindex(b"HTTP/1.1 200 OK")
    assert sequence_of(hub) == 1


def test_a_request_pipelined_after_a_report_is_answered(token: str, line: socket.socket) -> None:
    line.sendall(request(token, 1) + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert responses(line, 2).count(b"HTTP/1.1 200 OK") == 2


def test_a_refusal_is_sent_before_the_body_and_the_connection_stays_usable(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    line.sendall(head("wrong", "Content-Length: 5"))
    assert response(line).status == 401
    line.sendall(b"never" + request(token, 1))
    assert response(line).status == 200
    assert sequence_of(hub) == 1


def test_a_wrong_token_counts_once(line: socket.socket) -> None:
    statuses = []
    for _ in range(11):
        line.sendall(head("wrong", "Content-Length: 0"))
        statuses.append(response(line).status)
    assert statuses == [401] * 10 + [429]


@pytest.mark.parametrize(
    "version, more", [("1.0", ()), ("1.1", ("Connection: close",))], ids=["1.0", "close"]
)
def test_a_client_that_closes_is_answered_first(
    token: str, line: socket.socket, version: str, more: tuple[str, ...]
) -> None:
    line.sendall(request(token, 1, *more, version=version))
    assert response(line).status == 200
    assert line.recv(1) == b""


def test_a_chunked_report_gets_the_same_response(token: str, line: socket.socket) -> None:
    line.sendall(request(token, 1))
    whole = response(line)
    sent = body(2)
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(sent), sent)
    line.sendall(head(token, "Transfer-Encoding: chunked") + chunk)
    chunked = response(line)
    assert chunked == whole
    assert decode_receipt(whole.body).kept is None


def test_expect_100_continue_is_answered(token: str, line: socket.socket) -> None:
    sent = body(1)
    line.sendall(head(token, "Expect: 100-continue", f"Content-Length: {len(sent)}"))
    assert b"100 Continue" in line.recv(64)
    line.sendall(sent)
    assert response(line).status == 200


def test_reports_with_the_same_head_are_answered_like_the_first(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    answers = []
    for sequence in (1, 2, 10_000):  # of another length, too
        line.sendall(request(token, sequence))
        answers.append(response(line))
    assert {answer.status for answer in answers} == {200}
    assert answers[0].headers == answers[1].headers
    assert sequence_of(hub) == 10_000


def test_a_credential_that_is_revoked_is_refused_on_its_open_connection(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    for sequence in (1, 2, 3):
        line.sendall(request(token, sequence))
        assert response(line).status == 200
    hub.server.credentials.revoke_token("id-of-gpu01")
    line.sendall(request(token, 4))
    assert response(line).status == 401
    line.sendall(request(hub.join("id-of-gpu01", "gpu01"), 5))
    assert response(line).status == 200


def test_the_same_head_with_the_id_of_another_node_is_refused(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    line.sendall(request(token, 1))
    assert response(line).status == 200
    other = body(2).replace(b"id-of-gpu01", b"id-of-gpu02")
    line.sendall(head(token, f"Content-Length: {len(other)}") + other)
    assert response(line).status == 403
    assert [node.node_id for node in hub.fleet().nodes] == ["id-of-gpu01"]


def test_a_body_that_looks_like_a_report_is_no_report(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    line.sendall(request(token, 1))
    assert response(line).status == 200
    inner = request(token, 7)
    line.sendall(head(token, f"Content-Length: {len(inner)}"))
    line.sendall(inner)
    assert response(line).status == 400
    line.sendall(request(token, 2))
    assert response(line).status == 200
    assert sequence_of(hub) == 2


def test_a_request_between_reports_on_one_connection_is_answered(
    hub: ThreadedHub, token: str, line: socket.socket
) -> None:
    for sequence in (1, 2):
        line.sendall(request(token, sequence))
        assert response(line).status == 200
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert response(line).status == 200
    assert sequence_of(hub) == 2


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """All who connect from now on must be quick."""
    monkeypatch.setattr(timeouts, "REQUEST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(timeouts, "IDLE_TIMEOUT_SECONDS", 0.05)


@pytest.mark.usefixtures("hasty")
def test_an_endless_report_is_closed_by_the_request_timeout(
    token: str, line: socket.socket
) -> None:
    line.sendall(head(token, "Content-Length: 99") + b"{")
    assert line.recv(1) == b""


@pytest.mark.usefixtures("hasty")
def test_an_unfinished_chunked_report_is_closed_by_the_request_timeout(
    token: str, line: socket.socket
) -> None:
    line.sendall(head(token, "Transfer-Encoding: chunked") + b"3\r\nabc\r\n")
    assert line.recv(1) == b""


@pytest.mark.usefixtures("hasty")
def test_an_idle_connection_is_closed_by_the_idle_timeout(token: str, line: socket.socket) -> None:
    line.sendall(request(token, 1))
    assert response(line).status == 200
    assert line.recv(1) == b""
