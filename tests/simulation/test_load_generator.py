"""Load generator over real sockets: every report arrives and is counted, whatever the hub does."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.errors import FleetError, Refused, Unreachable, UsageError
from fleet_smi.simulation.demo import SILENT_AFTER_SECONDS, demo_fleet
from fleet_smi.simulation.large_fleet import large_fleet
from fleet_smi.simulation.load_generator import LoadGenerator
from fleet_smi.simulation.scenario import RECENT_SECONDS, FleetScenario, last_hour, last_week
from fleet_smi.wire.packed import is_packed
from tests.simulation.recording_hub import (
    JOIN_TOKEN,
    RecordingHub,
    listener_url,
    open_listener,
    serve_hub,
)

NODES = 7
INTERVAL = 0.05


def small(nodes: int = NODES) -> FleetScenario:
    return large_fleet(nodes, 2, seed=1, start=time.time(), interval_seconds=INTERVAL)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while not condition():
        assert clock() < end, "it did not come true in time"
        await asyncio.sleep(0.005)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.asynccontextmanager
async def running(load: LoadGenerator) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(load.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_every_counted_report_arrives() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(small(), listener_url(listener))
        async with serve_hub(hub, listener):
            await load.run(duration_seconds=6 * INTERVAL)
        return load

    with open_listener() as listener:
        counters = asyncio.run(scenario(listener)).counters
    assert counters.sent == counters.acknowledged == len(hub.reports)
    assert counters.failed == 0
    assert len(hub.sequences) == NODES
    for received in hub.sequences.values():
        assert received == list(range(1, len(received) + 1))


def test_reports_are_spread_over_the_interval() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> None:
        async with (
            serve_hub(hub, listener),
            running(LoadGenerator(small(), listener_url(listener))),
        ):
            await until(lambda: len(hub.reports) >= 2 * NODES)

    with open_listener() as listener:
        asyncio.run(scenario(listener))
    taken_at = [report.snapshots[-1].taken_at for report in hub.reports[: 2 * NODES]]
    names = [report.snapshots[-1].name for report in hub.reports[: 2 * NODES]]
    first_round = [name for _, name in sorted(zip(taken_at, names, strict=True))][:NODES]
    assert first_round == sorted(first_round)
    assert len(set(first_round)) == NODES


def test_reconnects_after_a_hub_restart_without_loss() -> None:
    hub = RecordingHub()

    async def scenario(first: socket.socket) -> LoadGenerator:
        port = first.getsockname()[1]
        load = LoadGenerator(small(), listener_url(first))
        async with serve_hub(hub, first):
            task = asyncio.create_task(load.run())
            await until(lambda: len(hub.reports) >= NODES)
        first.close()
        await until(lambda: load.counters.lost_connections >= NODES)
        received = len(hub.reports)
        with open_listener(port) as second:
            async with serve_hub(hub, second):
                await until(lambda: len(hub.reports) >= received + 3 * NODES)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return load

    with open_listener() as listener:
        load = asyncio.run(scenario(listener))
    assert load.counters.failed == 0
    assert load.counters.late > 0
    for received in hub.sequences.values():
        assert sorted(set(received)) == list(range(1, max(received) + 1))


def join_all_nodes(hub: RecordingHub) -> None:
    """Run a load generator with a join token until every node has reported."""

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(small(), listener_url(listener), join_token=JOIN_TOKEN)
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences) == NODES)

    with open_listener() as listener:
        asyncio.run(scenario(listener))


def test_each_node_joins_and_then_reports_with_its_own_token() -> None:
    hub = RecordingHub()
    hub.open_to_all = False
    join_all_nodes(hub)
    for report, token in zip(hub.reports, hub.tokens, strict=True):
        assert token == hub.issued_tokens[report.snapshots[-1].node_id]
    assert len(set(hub.tokens)) == NODES


@pytest.mark.parametrize(
    "tokens, message",
    [
        ({"join_token": "stolen"}, "node00001: the hub rejected the join: this join token"),
        ({"token": "stolen"}, "the hub rejected the report: unknown token"),
        ({}, "the hub rejected the report: unknown token"),
    ],
)
def test_a_rejected_token_is_a_one_line_error(tokens: dict[str, Any], message: str) -> None:
    hub = RecordingHub()
    hub.open_to_all = False

    async def scenario(listener: socket.socket) -> None:
        async with serve_hub(hub, listener):
            await LoadGenerator(small(), listener_url(listener), **tokens).run(duration_seconds=5.0)

    with open_listener() as listener, pytest.raises(Refused) as caught:
        asyncio.run(scenario(listener))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_temporary_error_is_retried() -> None:
    hub = RecordingHub()
    hub.statuses = [429, 503, 500]

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(small(1), listener_url(listener))
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.reports) >= 2)
        return load

    with open_listener() as listener:
        load = asyncio.run(scenario(listener))
    assert hub.sequences["node00001"][:2] == [1, 2]
    assert load.counters.failed == 0


def test_a_permanent_error_counts_as_failed() -> None:
    hub = RecordingHub()
    hub.statuses = [413, 413]

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(small(1), listener_url(listener))
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.reports) >= 1)
        return load

    with open_listener() as listener:
        assert asyncio.run(scenario(listener)).counters.failed == 2


def test_backfill_is_sent_first_with_its_own_times() -> None:
    hub, began = RecordingHub(), time.time()
    demo = demo_fleet(seed=1, start=began, interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(demo, listener_url(listener), backfill=last_hour)
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("dgx01", ())) > 61)

    with open_listener() as listener:
        asyncio.run(scenario(listener))
    first = next(report for report in hub.reports if report.snapshots[0].name == "dgx01")
    ages = [first.age_seconds(snapshot) for snapshot in first.snapshots]
    assert ages == sorted(ages, reverse=True)
    assert ages[0] == pytest.approx(RECENT_SECONDS, abs=0.01)
    assert ages[-1] == 0.0
    assert hub.sequences["dgx01"] == list(range(1, len(hub.sequences["dgx01"]) + 1))


def test_a_long_backfill_is_sent_completely_in_chunks() -> None:
    hub, moments = RecordingHub(), len(last_week(0.0))
    demo = demo_fleet(seed=1, start=time.time(), interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(demo, listener_url(listener), backfill=last_week)
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("dgx01", ())) > moments + 1)

    with open_listener() as listener:
        asyncio.run(scenario(listener))
    parts = [each for each in hub.reports if each.snapshots[0].name == "dgx01"]
    assert [len(part.snapshots) for part in parts[:3]] == [400, moments - 400 + 1, 1]
    assert hub.sequences["dgx01"] == list(range(1, len(hub.sequences["dgx01"]) + 1))
    paces = [shot.interval_seconds or 0.0 for part in parts for shot in part.snapshots]
    assert paces == sorted(paces, reverse=True)


def test_a_silent_node_disconnects_for_good() -> None:
    hub = RecordingHub()
    demo = demo_fleet(
        seed=1, start=time.time() - SILENT_AFTER_SECONDS + 1.5, interval_seconds=INTERVAL
    )

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(demo, listener_url(listener))
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("ada03", ())) > 0)
            await until(lambda: time.time() > (demo.nodes[8].silent_from or 0.0))
            received = len(hub.sequences["dgx01"])
            await until(lambda: len(hub.sequences["dgx01"]) > received + 3)
        return load

    with open_listener() as listener:
        load = asyncio.run(scenario(listener))
    silent = [r for r in hub.reports if r.snapshots[-1].name == "ada03"]
    assert max(r.snapshots[-1].taken_at for r in silent) < (demo.nodes[8].silent_from or 0.0)
    assert load.counters.lost_connections == 0


def test_connection_refused_is_a_one_line_error() -> None:
    with open_listener() as listener:
        url = listener_url(listener)
    with pytest.raises(Unreachable, match="connection refused"):
        asyncio.run(LoadGenerator(small(), url).run(duration_seconds=1.0))


def test_a_server_that_does_not_speak_http_is_an_error() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server:
            url = listener_url(server.sockets[0])
            await LoadGenerator(small(1), url, join_token=JOIN_TOKEN).run(duration_seconds=1.0)

    with pytest.raises(FleetError):
        asyncio.run(scenario())


def test_an_invalid_url_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not the URL of a hub"):
        LoadGenerator(small(1), "ftp://hub")


def test_no_task_or_connection_remains_after_the_run() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> None:
        async with serve_hub(hub, listener):
            before = len(asyncio.all_tasks())
            files = open_files()
            await LoadGenerator(small(), listener_url(listener)).run(duration_seconds=3 * INTERVAL)
            await until(lambda: len(asyncio.all_tasks()) <= before)
            await until(lambda: open_files() <= files)

    with open_listener() as listener:
        asyncio.run(scenario(listener))


def test_joining_is_retried_until_the_hub_accepts() -> None:
    hub = RecordingHub()
    hub.join_statuses = [200, 503]
    join_all_nodes(hub)


def test_a_node_joins_again_with_its_credential_when_the_response_was_lost() -> None:
    hub = RecordingHub()
    hub.open_to_all = False
    hub.join_responses_to_lose = {"node00003", "node00007"}
    join_all_nodes(hub)
    assert not hub.join_responses_to_lose


class BareHub(RecordingHub):
    """A server that reads a body and answers `{}`."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def _answer(self, body: bytes, token: str | None) -> tuple[int, bytes]:
        self.bodies.append(body)
        return 200, b"{}"


@pytest.mark.parametrize("always_compact", [True, False])
def test_a_server_that_is_no_hub_can_be_sent_compact_reports(always_compact: bool) -> None:
    hub = BareHub()

    async def scenario(listener: socket.socket) -> LoadGenerator:
        url = listener_url(listener)
        load = LoadGenerator(small(1), url, token="none", always_compact=always_compact)
        async with serve_hub(hub, listener):
            await load.run(duration_seconds=5 * INTERVAL)
        return load

    with open_listener() as listener:
        counters = asyncio.run(scenario(listener)).counters
    compact = [is_packed(body) for body in hub.bodies]
    assert any(compact) is always_compact
    assert counters.compact == sum(compact)
    assert counters.sent_bytes == sum(map(len, hub.bodies))
