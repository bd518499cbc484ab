"""The nvgpu source: polling many agents, some of them faulty."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from fleet_smi.compat.nvgpu.humanize import format_ago
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.errors import DeliveryError, Undecodable, Unreachable
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from tests.builders import NOON
from tests.delivery.fixed_response_server import FixedResponseServer
from tests.faulty_servers import OneResponseServer, SilentServer

IDLE = {"type": "NVIDIA T4", "is_available": True, "pids": "", "users": "", "utilization": 0}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def agent(stack: ExitStack, hostname: str = "gpu01") -> str:
    """The address of an agent with one idle GPU."""
    talker = FixedResponseServer(0, msgspec.json.encode({"hostname": hostname, "gpus": [IDLE]}))
    stack.callback(talker.close)
    return f"127.0.0.1:{talker.port}"


def says(stack: ExitStack, message: bytes) -> str:
    server = OneResponseServer(message)
    stack.callback(server.close)
    return f"127.0.0.1:{server.port}"


def requests(source: NvgpuSource) -> list[Snapshot | DeliveryError | None]:
    return [each.result for each in asyncio.run(source.poll())]


def test_the_interval_of_a_machine_is_that_of_polling(stack: ExitStack) -> None:
    (node,) = requests(NvgpuSource([agent(stack)], interval_seconds=7.0, clock=lambda: NOON))
    assert isinstance(node, Snapshot)
    assert (node.node_id, node.taken_at, node.interval_seconds) == ("nvgpu-gpu01", NOON, 7.0)


def test_a_machine_that_stops_answering_becomes_stale(stack: ExitStack) -> None:
    fleet = FleetState()
    target = agent(stack)
    source = NvgpuSource([target], interval_seconds=5.0, clock=lambda: NOON)
    (node,) = requests(source)
    assert isinstance(node, Snapshot)
    fleet.apply(node, NOON, Via("nvgpu", target))
    assert not fleet.view(NOON + 14).nodes[0].silent
    assert fleet.view(NOON + 16).nodes[0].silent


def test_a_start_time_stays_while_the_words_get_coarser_and_moves_with_a_new_process() -> None:
    started_at, now = NOON, NOON
    source = NvgpuSource([], clock=lambda: now)

    def read(pid: int, age: float) -> float | None:
        words = format_ago(age)
        used = IDLE | {"is_available": False, "pids": str(pid), "users": "a"}
        body = {"hostname": "gpu01", "gpus": [used | {"running_since": words}]}
        snapshot = source.decode("gpu01", msgspec.json.encode(body), now)
        return (snapshot.gpus[0].processes or ())[0].started_at

    # First seen at 8 min 50 s, which the words call 8 minutes.
    starts = set()
    for age in (530.0, 540.0, 599.0, 601.0, 3590.0, 3700.0, 7300.0, 80_000.0, 90_000.0, 2e5, 9e5):
        now = started_at + age
        starts.add(read(510, age))
    assert starts == {started_at + 50}
    assert read(510, 20.0) == now - 20  # a pid that was used again
    assert read(511, 9e5) == now - 7 * 86_400


def test_a_dead_machine_delays_no_other(stack: ExitStack) -> None:
    hung = SilentServer()
    stack.callback(hung.close)
    targets = [f"127.0.0.1:{hung.port}", agent(stack)]
    dead, alive = requests(NvgpuSource(targets, timeout_seconds=2.0))
    assert isinstance(dead, Unreachable)
    assert "did not answer in 2 s" in str(dead)
    assert isinstance(alive, Snapshot)


def test_an_agent_that_always_fails_is_reported_with_the_likely_cause(stack: ExitStack) -> None:
    target = says(stack, b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
    (error,) = requests(NvgpuSource([target]))
    assert isinstance(error, Undecodable)
    assert "nvgpu 0.10" in str(error)


def test_an_answer_that_is_not_json_affects_no_other_machine(stack: ExitStack) -> None:
    wrong = says(stack, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
    error, node = requests(NvgpuSource([wrong, agent(stack)]))
    assert isinstance(error, Undecodable)
    assert isinstance(node, Snapshot)


def test_a_redirect_is_not_followed(stack: ExitStack) -> None:
    elsewhere = agent(stack)
    message = f"HTTP/1.1 302 Found\r\nLocation: http://{elsewhere}/\r\nContent-Length: 0\r\n\r\n"
    (error,) = requests(NvgpuSource([says(stack, message.encode())]))
    assert isinstance(error, Undecodable)
    assert "status 302" in str(error)


def test_an_endless_answer_is_cut_off(stack: ExitStack) -> None:
    (error,) = requests(NvgpuSource([says(stack, b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (9 << 20))]))
    assert isinstance(error, Undecodable)
    assert "larger than 8 MiB" in str(error)


def test_two_machines_with_one_name_stay_two(stack: ExitStack) -> None:
    first, second = requests(NvgpuSource([agent(stack, "box"), agent(stack, "box")]))
    assert isinstance(first, Snapshot)
    assert isinstance(second, Snapshot)
    assert first.node_id != second.node_id
    assert first.gpus[0].uuid != second.gpus[0].uuid
