"""The `pull` source: wrong responses, and many agents concurrently."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from fleet_smi import config
from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable, UsageError
from fleet_smi.hub.sources.pull import PullSource, create_sources
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.serve import ServeOutlet
from tests.builders import gpu, snapshot
from tests.faulty_servers import OneResponseServer, SilentServer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def requested(source: PullSource) -> dict[str, Snapshot | DeliveryError | None]:
    return {each.target: each.result for each in asyncio.run(source.poll())}


def test_each_wrong_response_has_its_own_error(stack: ExitStack) -> None:
    output = {
        "refused": b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        "another": b"SSH-2.0-OpenSSH_9.2\r\n",
        "closed": b"",
        "page": b"HTTP/1.1 200 OK\r\n\r\n<html>It works!</html>",
        "endless": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (9 << 20),
    }
    servers = {name: OneResponseServer(message) for name, message in output.items()}
    for server in servers.values():
        stack.callback(server.close)
    source = PullSource([f"127.0.0.1:{each.port}" for each in servers.values()], timeout_seconds=60)
    responses = dict(zip(servers, requested(source).items(), strict=True))
    kinds = {name: type(error) for name, (_, error) in responses.items()}
    assert kinds == {
        "refused": Refused,
        "elsewhere": Undecodable,
        "another": Undecodable,
        "closed": Unreachable,
        "page": Undecodable,
        "endless": Undecodable,
    }
    for target, error in responses.values():
        assert str(error).startswith(f"{target}: ")
    assert "it is a web page" in str(responses["page"][1])


def test_an_agent_that_never_answers_times_out_alone(stack: ExitStack) -> None:
    hung, agent = SilentServer(), ServeOutlet("127.0.0.1", 0, token="t" * 40)
    stack.callback(hung.close)
    stack.callback(agent.close)
    agent.publish(snapshot(gpu(0)))
    targets = [f"127.0.0.1:{hung.port}", f"127.0.0.1:{agent.port}"]
    first, second = requested(PullSource(targets, token="t" * 40, timeout_seconds=2.0)).values()
    assert isinstance(first, Unreachable)
    assert "did not answer in 2 s" in str(first)
    assert isinstance(second, Snapshot)


def test_many_agents_are_polled_concurrently(stack: ExitStack) -> None:
    hung = [SilentServer() for _ in range(50)]
    for server in hung:
        stack.callback(server.close)
    # One after the other they would take longer than a test may.
    found = requested(PullSource([f"127.0.0.1:{each.port}" for each in hung], timeout_seconds=3.0))
    assert len(found) == 50


def test_the_token_is_sent_to_the_agent_and_no_proxy(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = OneResponseServer(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
    stack.callback(agent.close)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    (error,) = requested(PullSource([f"127.0.0.1:{agent.port}"], token="secret")).values()
    assert isinstance(error, Undecodable)
    assert b"Authorization: Bearer secret" in agent.request


def test_each_agent_gets_its_own_token_and_no_other(stack: ExitStack, tmp_path: Path) -> None:
    agents = [ServeOutlet("127.0.0.1", 0, token=f"token-of-{name}") for name in ("one", "two")]
    for agent in agents:
        stack.callback(agent.close)
        agent.publish(snapshot(gpu()))
    curious = RecordingServer()
    stack.callback(curious.close)
    ports = [*(agent.port for agent in agents), curious.port]
    targets = [f"127.0.0.1:{port}" for port in ports]
    file = tmp_path / "tokens"
    file.write_text(f"# of the lab\n{targets[0]} token-of-one\n\n{targets[1]}\ttoken-of-two\n")
    file.chmod(0o600)
    flags = {"hub.pull": ",".join(targets), "hub.pull_tokens_file": str(file)}
    (source,) = create_sources(config.load({"HOME": "/"}, flags=flags))
    results = {each.target: each.result for each in asyncio.run(source.poll())}
    assert all(isinstance(results[target], Snapshot) for target in targets[:2])
    assert b"token-of" not in curious.received
    file.write_text("elsewhere:7071 token\n")
    with pytest.raises(UsageError, match=r"elsewhere:7071 is not in hub\.pull"):
        create_sources(config.load({"HOME": "/"}, flags=flags))
    file.write_text("one two three\n")
    with pytest.raises(UsageError, match="a target and its token in each line"):
        create_sources(config.load({"HOME": "/"}, flags=flags))


class RecordingServer:
    """Accepts one request, records it and closes."""

    def __init__(self) -> None:
        self.received = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                self.received = connection.recv(1 << 16)

    def close(self) -> None:
        """Stop, whether or not a request came."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
