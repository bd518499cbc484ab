"""The sender of remote write against servers that fail in every way."""

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.errors import UsageError
from fleet_smi.hub.metric_export.buffer import RequestBuffer, WriteRequest
from fleet_smi.hub.metric_export.receiver import HttpProtocol, Receiver
from fleet_smi.hub.metric_export.remote_write import PROTOCOL
from fleet_smi.hub.metric_export.sender import MAX_PARALLEL, Sender
from tests.faulty_servers import SilentServer
from tests.machines import wait_until

SECRET = "s3cret-token"


class ScriptedReceiver:
    """Answers each request with the next status, the last one for ever."""

    def __init__(self, *answers: int, **headers: str) -> None:
        self.requests: list[tuple[bytes, dict[str, str]]] = []
        self.at_once = self.most_at_once = 0
        self.release = threading.Event()
        self.release.set()
        pending, lock, outer = list(answers), threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    status = pending.pop(0) if len(pending) > 1 else pending[0]
                    outer.requests.append((body, dict(self.headers)))
                    outer.at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer.at_once)
                outer.release.wait(60)
                with lock:
                    outer.at_once -= 1
                text = b"" if status == 204 else b"because \x1b[31m of \nreasons"
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                if status != 204:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v1/write"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class Sending:
    """A sender with its buffer, to one URL."""

    def __init__(self, folder: Path, url: str, protocol: HttpProtocol = PROTOCOL) -> None:
        self.buffer = RequestBuffer(folder / "buffer", 1 << 20)
        credentials = {"Authorization": f"Bearer {SECRET}"}
        self.sender = Sender(
            Receiver(url, protocol, lambda: credentials), self.buffer, backoff_seconds=0.01
        )

    def put(self, *times: int, round_id: int | None = None) -> None:
        self.buffer.put(
            WriteRequest(at if round_id is None else round_id, float(at), 5, b"%d" % at)
            for at in times
        )

    @property
    def error(self) -> str:
        return self.sender.error or ""


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    opened: list[Any] = []
    yield opened
    for each in opened:
        each.close()


def start(
    closing: list[Any], folder: Path, *answers: int, **headers: str
) -> tuple[ScriptedReceiver, Sending]:
    receiver = ScriptedReceiver(*answers, **headers)
    sending = Sending(folder, receiver.url)
    closing += (sending.sender, receiver)
    return receiver, sending


def test_a_receiver_that_fails_gets_every_request_later_and_in_order(
    tmp_path: Path, closing: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    receiver, sending = start(closing, tmp_path, 503, 500, 429, 408, 204, Retry_After="0")
    with caplog.at_level(logging.WARNING):
        sending.put(1, 2, 3)
        wait_until(lambda: sending.sender.samples_sent == 15)
    bodies = [body for body, _ in receiver.requests]
    assert bodies == [b"1"] * 5 + [b"2", b"3"]
    _, headers = receiver.requests[0]
    assert headers["Content-Encoding"] == "snappy"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"
    assert headers["Authorization"] == f"Bearer {SECRET}"
    wait_until(lambda: sending.sender.error is None)
    assert "503: because  [31m of  reasons" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("status", [400, 401, 413, 302])
def test_what_a_receiver_rejects_is_dropped_and_reported(
    tmp_path: Path, closing: list[Any], status: int
) -> None:
    receiver, sending = start(closing, tmp_path, status, 204, Location="http://127.0.0.1:1/")
    sending.put(1, 2)
    wait_until(lambda: sending.sender.samples_sent == 5)
    assert [body for body, _ in receiver.requests] == [b"1", b"2"]
    assert sending.sender.samples_dropped == 5
    assert "5 samples of 1970-01-01" in sending.error
    assert f"answered {status}" in sending.error
    assert SECRET not in sending.error


def test_requests_of_one_round_are_sent_in_parallel_and_rounds_one_after_the_other(
    tmp_path: Path, closing: list[Any]
) -> None:
    receiver, sending = start(closing, tmp_path, 204)
    receiver.release.clear()
    sending.put(1, 2, 3, 4, 5, round_id=1)
    sending.put(6, round_id=2)
    wait_until(lambda: receiver.at_once == MAX_PARALLEL)
    receiver.release.set()
    wait_until(lambda: sending.sender.samples_sent == 30)
    bodies = [body for body, _ in receiver.requests]
    assert {*bodies[:4]} == {b"1", b"2", b"3", b"4"}
    assert bodies[4:] == [b"5", b"6"]
    assert receiver.most_at_once == MAX_PARALLEL


def test_a_receiver_that_hangs_or_is_not_there_delays_nothing(
    tmp_path: Path, closing: list[Any]
) -> None:
    silent = SilentServer()
    closing.append(silent)
    hanging = Sending(tmp_path / "a", f"http://127.0.0.1:{silent.port}/write?key={SECRET}")
    hanging.put(1)
    absent = Sending(tmp_path / "b", f"http://127.0.0.1:1/write?key={SECRET}")
    absent.put(1)
    wait_until(lambda: "http://127.0.0.1:1/write: " in absent.error)
    assert SECRET not in absent.error
    assert "1 KiB are buffered" in absent.error
    for each in (hanging, absent):
        each.sender.close()
        each.buffer.save()
        assert each.buffer.size_bytes > 0


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, closing: list[Any]
) -> None:
    from tests.server.threaded_hub import ThreadedHub

    with ThreadedHub(tmp_path / "hub", hub__tls="self-signed") as hub:
        sending = Sending(tmp_path, f"{hub.url}/api/v1/write")
        sending.put(1)
        wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in sending.error)
        sending.sender.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"hub__remote_write": "ftp://host/write"},
        {"hub__remote_write": "file:///etc/passwd"},
        {"hub__remote_write": f"http://user:{SECRET}@host/write"},
        {"hub__remote_write": "http://host/w", "hub__remote_write_labels": "a-b=c"},
        {"hub__remote_write": "http://host/w", "hub__remote_write_labels": "__name__=c"},
        {"hub__remote_write": "http://host/w", "hub__remote_write_token_file": "/nonexistent"},
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    from tests.server.threaded_hub import ThreadedHub

    with pytest.raises(UsageError) as error:
        ThreadedHub(tmp_path / "hub", **settings)
    assert SECRET not in str(error.value)
