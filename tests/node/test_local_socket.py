"""The agent's socket for local users: where it listens, and what its callers cannot do."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from fleet_smi.client.agent_socket import AgentConnection, connect, is_listening
from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.errors import Unreachable
from fleet_smi.node import local_socket
from fleet_smi.node.local_requests import RequestForwarder
from fleet_smi.node.local_socket import CallerLimits, LocalSocket
from tests.machines import require_root, wait_until
from tests.ports import free_port

ALICE = 4711


class RecordingHub(HubConnection):
    """A hub that answers with what it was asked."""

    def __init__(self, asked: list[tuple[str, str, bytes | None, dict[str, str]]]) -> None:
        super().__init__("http://localhost")
        self._asked = asked

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        max_bytes: int = 0,
    ) -> Response:
        self._asked.append((method, path, body, headers or {}))
        return Response(202, {"content-type": "application/json", "retry-after": "7"}, b"{}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter; its path is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="fsmi-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


Start = Callable[..., LocalSocket]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start sockets that are closed after the test."""
    started: list[LocalSocket] = []

    def listen(path: Path, handle: Callable[[socket.socket, int], None]) -> LocalSocket:
        started.append(LocalSocket(str(path), handle))
        started[-1].start()
        return started[-1]

    yield listen
    for each in started:
        each.close()


def echo_uid(connection: socket.socket, uid: int) -> None:
    connection.sendall(f"{uid}".encode())


def read_all(path: Path, data: bytes = b"") -> bytes:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(60)
        caller.connect(str(path))
        if data:
            caller.sendall(data)
        received = b""
        while part := caller.recv(65536):
            received += part
    return received


def listens(path: Path) -> Callable[[], bool]:
    return lambda: is_listening(str(path))


def test_the_kernel_names_the_caller(folder: Path, start: Start) -> None:
    path = folder / "a.sock"
    start(path, echo_uid)
    wait_until(listens(path))
    assert path.stat().st_mode & 0o777 == 0o666
    assert read_all(path) == f"{os.geteuid()}".encode()


def test_a_missing_folder_is_made_so_that_all_can_enter_it(folder: Path, start: Start) -> None:
    path = folder / "fleet-smi" / "a.sock"
    before = os.umask(0o077)
    try:
        start(path, echo_uid)
        wait_until(listens(path))
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o755


def test_it_ends_without_a_file_left_behind(folder: Path, start: Start) -> None:
    path = folder / "a.sock"
    running = start(path, echo_uid)
    wait_until(listens(path))
    running.close()
    wait_until(lambda: list(folder.iterdir()) == [])


def test_a_socket_that_a_killed_agent_left_is_replaced(folder: Path, start: Start) -> None:
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    start(path, echo_uid)
    wait_until(listens(path))


def test_a_removed_socket_is_made_again(
    folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_socket, "_CHECK_SECONDS", 0.05)
    path = folder / "a.sock"
    start(path, echo_uid)
    wait_until(listens(path))
    path.unlink()
    wait_until(listens(path))


def test_a_second_agent_waits_for_the_end_of_the_first(
    folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_socket, "_CHECK_SECONDS", 0.05)
    path = folder / "a.sock"
    first = start(path, lambda connection, _: connection.sendall(b"first"))
    wait_until(listens(path))
    start(path, lambda connection, _: connection.sendall(b"second"))
    wait_until(lambda: "another agent listens" in caplog.text)
    assert read_all(path) == b"first"
    first.close()
    wait_until(lambda: listens(path)() and read_all(path) == b"second")


@pytest.mark.parametrize("kind", ["file", "link", "open folder", "long"])
def test_a_path_that_others_could_use_is_refused_with_a_remedy(
    folder: Path, start: Start, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / ("x" * 120 if kind == "long" else "a.sock")
    if kind == "file":
        path.write_text("precious")
    elif kind == "link":
        (folder / "target").write_text("precious")
        path.symlink_to(folder / "target")
    elif kind == "open folder":
        folder.chmod(0o777)
    running = start(path, echo_uid)
    wait_until(lambda: "fault=" in caplog.text)
    running.close()
    assert "agent.socket" in caplog.text or kind == "long"
    left = {"file": path, "link": folder / "target"}.get(kind)
    assert left is None or left.read_text() == "precious"


def test_slow_callers_of_one_user_leave_room_for_others() -> None:
    limits = CallerLimits(lambda: 0.0)
    assert [limits.acquire(ALICE) for _ in range(4)] == [True, True, True, False]
    assert limits.acquire(ALICE + 1)
    limits.release(ALICE)
    assert limits.acquire(ALICE)


def test_the_rate_of_one_user_is_limited() -> None:
    now = [0.0]
    limits = CallerLimits(lambda: now[0])

    def count_accepted(uid: int) -> int:
        accepted = 0
        for _ in range(5000):
            if limits.acquire(uid):
                limits.release(uid)
                accepted += 1
        return accepted

    assert 39 <= count_accepted(ALICE) <= 40
    assert 39 <= count_accepted(ALICE + 1) <= 40
    now[0] += 1.0
    assert 9 <= count_accepted(ALICE) <= 11


def test_a_caller_that_sends_nothing_is_cut_off_and_others_are_served(
    folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet_smi.node.local_requests._REQUEST_SECONDS", 0.2)
    path = folder / "a.sock"
    start(path, RequestForwarder(lambda _: RecordingHub([])))
    wait_until(listens(path))
    silent = socket.socket(socket.AF_UNIX)
    with silent:
        silent.settimeout(60)
        silent.connect(str(path))
        assert b" 202 " in read_all(path, b"GET /api/v1/queue HTTP/1.1\r\n\r\n")
        assert silent.recv(1) == b""


def test_a_flood_is_refused_and_does_not_stop_the_next_request(folder: Path, start: Start) -> None:
    path = folder / "a.sock"
    start(path, RequestForwarder(lambda _: RecordingHub([])))
    wait_until(listens(path))
    request = b"GET /api/v1/queue HTTP/1.1\r\n\r\n"
    answers: list[bytes] = []

    def send_many() -> None:
        for _ in range(60):
            try:
                answers.append(read_all(path, request))
            except OSError:  # it was refused before the request was sent
                answers.append(b" 429 ")

    threads = [threading.Thread(target=send_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any(b" 429 " in answer for answer in answers)
    wait_until(lambda: b" 202 " in _try(path, request))


def _try(path: Path, request: bytes) -> bytes:
    time.sleep(0.1)  # the limit of the rate is what is waited for
    try:
        return read_all(path, request)
    except OSError:
        return b""


def forwarded(
    folder: Path, start: Start, *requests: bytes, uid_name: str = "alice"
) -> tuple[list[bytes], list[tuple[str, str, bytes | None, dict[str, str]]]]:
    asked: list[tuple[str, str, bytes | None, dict[str, str]]] = []
    forwarder = RequestForwarder(lambda _: RecordingHub(asked), name_of=lambda _: uid_name)
    path = folder / "a.sock"
    start(path, forwarder)
    wait_until(listens(path))
    return [read_all(path, request) for request in requests], asked


def test_a_request_is_forwarded_with_the_users_name_and_no_header_of_the_caller(
    folder: Path, start: Start
) -> None:
    request = (
        b"POST /api/v1/queue?x=%20y HTTP/1.1\r\nHost: evil\r\nX-Fleet-Smi-User: root\r\n"
        b'Authorization: Bearer stolen\r\nContent-Length: 7\r\n\r\n{"n":1}trailing'
    )
    (answer,), asked = forwarded(folder, start, request, uid_name="j. müller")
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert b"Retry-After: 7\r\n" in answer
    headers = {"X-Fleet-Smi-User": "j.%20m%C3%BCller", "Content-Type": "application/json"}
    assert asked == [("POST", "/api/v1/queue?x=%20y", b'{"n":1}', headers)]


@pytest.mark.parametrize(
    "request_head, status",
    [
        (b"GET /api/v1/nodes HTTP/1.1\r\n\r\n", 403),
        (b"POST /api/v1/reports HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 403),
        (b"GET /api/v1/queue/../nodes HTTP/1.1\r\n\r\n", 403),
        (b"GET /api/v1/queue?a=\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET http://evil/api/v1/queue HTTP/1.1\r\n\r\n", 400),
        (b"GET /api/v1/queue\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /api/v1/queue HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /api/v1/queue HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /api/v1/queue HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
        (b"POST /api/v1/queue HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /api/v1/queue HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", 413),
    ],
)
def test_what_is_not_allowed_or_malformed_never_reaches_the_hub(
    folder: Path, start: Start, request_head: bytes, status: int
) -> None:
    (answer,), asked = forwarded(folder, start, request_head)
    assert asked == []
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    body = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])
    assert body["error"]["message"]


def test_users_whom_the_agent_cannot_tell_apart_are_refused(folder: Path, start: Start) -> None:
    forwarder = RequestForwarder(lambda _: RecordingHub([]))
    path = folder / "a.sock"
    start(path, lambda connection, _: forwarder(connection, 65534))
    wait_until(listens(path))
    answer = read_all(path, b"GET /api/v1/queue HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"fleet-smi login" in answer


def test_a_hub_that_is_away_or_not_joined_is_said(folder: Path, start: Start) -> None:
    request = b"GET /api/v1/queue HTTP/1.1\r\n\r\n"
    path = folder / "a.sock"
    start(path, RequestForwarder(lambda _: None))
    wait_until(listens(path))
    assert b"has not joined" in read_all(path, request)
    gone = folder / "b.sock"
    nowhere = f"http://127.0.0.1:{free_port()}"
    start(gone, RequestForwarder(lambda _: HubConnection(nowhere)))
    wait_until(listens(gone))
    answer = read_all(gone, request)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"connection refused" in answer


def test_a_bug_met_by_one_request_does_not_stop_the_others(
    folder: Path, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def handle(connection: socket.socket, uid: int) -> None:
        calls.append(uid)
        if len(calls) == 1:
            raise ValueError("bug")
        connection.sendall(b"fine")

    path = folder / "a.sock"
    start(path, handle)
    with socket.socket(socket.AF_UNIX) as probe:
        wait_until(lambda: probe.connect_ex(str(path)) == 0)
        wait_until(lambda: len(calls) == 1)
    assert read_all(path) == b"fine"
    assert "bug in a request of a local user" in caplog.text


def test_a_client_waits_for_its_turn_where_many_connect_at_once(folder: Path) -> None:
    path = folder / "a.sock"
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as flood:
        listener.bind(str(path))
        listener.listen(4)
        with contextlib.suppress(BlockingIOError):
            while True:
                caller = flood.enter_context(socket.socket(socket.AF_UNIX))
                caller.settimeout(0)
                caller.connect(str(path))
        # It is not turned away; and it does not wait for ever.
        with pytest.raises(TimeoutError):
            connect(str(path), 0.1)
        listener.accept()[0].close()
        connect(str(path), 60.0).close()


def test_a_client_that_finds_no_agent_gets_one_clear_error(folder: Path) -> None:
    connection = AgentConnection(str(folder / "a.sock"))
    with pytest.raises(Unreachable, match=r"the agent at .*a\.sock does not answer"):
        connection.request("GET", "/api/v1/queue")
    folder.chmod(0o777)
    with pytest.raises(Unreachable, match="can be changed by others"):
        connection.request("GET", "/api/v1/queue")


def test_another_user_connects_and_is_named(folder: Path, start: Start) -> None:
    require_root("become another user")
    path = folder / "a.sock"
    start(path, echo_uid)
    wait_until(listens(path))
    program = (
        "import os, socket, sys; os.setuid(54321); s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); print(s.recv(99).decode())"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "54321", done.stderr
