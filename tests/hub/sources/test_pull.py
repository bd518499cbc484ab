"""The `pull` source: wrong responses, and many agents concurrently."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fleet_smi.errors import DeliveryError, Refused, Undecodable, Unreachable
from fleet_smi.hub.sources.pull import PullSource
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
        "another": Unreachable,
        "closed": Unreachable,
        "endless": Undecodable,
    }
    for target, error in responses.values():
        assert str(error).startswith(f"{target}: ")


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
