"""Agents that are asked: addresses, wrong answers, and many of them at once."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UsageError
from fleet_smi.hub.sources.pull import PullSource, _url
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.serve import ServeOutlet
from tests.builders import gpu, snapshot


class Silent:
    """Takes connections and never says a word."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()


class Says:
    """Answers one question with these bytes, whatever they are."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        with sock:
            self.heard = sock.recv(65536)
            sock.sendall(self._said)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def asked(source: PullSource) -> dict[str, Snapshot | DeliveryError]:
    return {each.target: each.what for each in asyncio.run(source.look())}


@pytest.mark.parametrize(
    "target, url",
    [
        ("gpu01", "http://gpu01:7071/api/v1/report"),
        ("gpu01:80", "http://gpu01:80/api/v1/report"),
        ("https://gpu01", "https://gpu01:7071/api/v1/report"),
        ("[::1]:9", "http://[::1]:9/api/v1/report"),
    ],
)
def test_an_address_is_a_host_a_port_or_a_url(target: str, url: str) -> None:
    assert _url(target) == url


@pytest.mark.parametrize("target", ["", "gpu01:99999", "ftp://gpu01", "[::1", "http://me@gpu01"])
def test_what_is_no_address_is_refused_before_anything_starts(target: str) -> None:
    with pytest.raises(UsageError, match="no address of an agent"):
        PullSource([target])


def test_each_wrong_answer_has_its_own_error_and_its_nodes_name(stack: ExitStack) -> None:
    said = {
        "refused": b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        "another": b"SSH-2.0-OpenSSH_9.2\r\n",
        "closed": b"",
        "endless": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (9 << 20),
    }
    servers = {name: Says(words) for name, words in said.items()}
    for server in servers.values():
        stack.callback(server.close)
    source = PullSource([f"127.0.0.1:{each.port}" for each in servers.values()], timeout_seconds=5)
    answers = dict(zip(servers, asked(source).items(), strict=True))
    kinds = {name: type(error) for name, (_, error) in answers.items()}
    assert kinds == {
        "refused": Refused,
        "elsewhere": Undecodable,
        "another": Unreachable,
        "closed": Unreachable,
        "endless": Undecodable,
    }
    for target, error in answers.values():
        assert str(error).startswith(f"{target}: ")


def test_one_that_never_answers_is_given_up_and_delays_no_other(stack: ExitStack) -> None:
    hung, agent = Silent(), ServeOutlet("127.0.0.1", 0, token="t" * 40)
    stack.callback(hung.close)
    stack.callback(agent.close)
    agent.offer(snapshot(gpu(0)))
    targets = [f"127.0.0.1:{hung.port}", f"127.0.0.1:{agent.port}"]
    began = time.monotonic()
    first, second = asked(PullSource(targets, token="t" * 40, timeout_seconds=0.3)).values()
    assert time.monotonic() - began < 5
    assert isinstance(first, Unreachable)
    assert "did not answer in 0.3 s" in str(first)
    assert isinstance(second, Snapshot)


def test_many_are_asked_at_once(stack: ExitStack) -> None:
    hung = [Silent() for _ in range(50)]
    for server in hung:
        stack.callback(server.close)
    began = time.monotonic()
    found = asked(PullSource([f"127.0.0.1:{each.port}" for each in hung], timeout_seconds=0.3))
    assert len(found) == 50
    assert time.monotonic() - began < 5  # one after the other it would take 15


def test_the_token_goes_to_the_agent_and_no_proxy(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Says(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
    stack.callback(agent.close)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    (error,) = asked(PullSource([f"127.0.0.1:{agent.port}"], token="secret")).values()
    assert isinstance(error, Undecodable)
    assert b"Authorization: Bearer secret" in agent.heard
