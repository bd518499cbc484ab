"""A story told to a hub over real sockets: it arrives as counted, whatever the hub does."""

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


def test_everything_arrives_as_it_is_counted() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(small(), listener_url(listener))
        async with serve_hub(hub, listener):
            await load.run(duration_seconds=6 * INTERVAL)
        return load

    with open_listener() as listener:
        tally = asyncio.run(scenario(listener)).counters
    assert tally.sent == tally.acknowledged == len(hub.reports)
    assert tally.failed == 0
    assert len(hub.sequences) == NODES
    for heard in hub.sequences.values():
        assert heard == list(range(1, len(heard) + 1))


def test_the_nodes_take_turns() -> None:
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


def test_a_hub_that_restarts_is_found_again_and_misses_nothing() -> None:
    hub = RecordingHub()

    async def scenario(first: socket.socket) -> LoadGenerator:
        port = first.getsockname()[1]
        load = LoadGenerator(small(), listener_url(first))
        async with serve_hub(hub, first):
            task = asyncio.create_task(load.run())
            await until(lambda: len(hub.reports) >= NODES)
        first.close()
        await until(lambda: load.counters.lost_connections >= NODES)
        heard = len(hub.reports)
        with open_listener(port) as second:
            async with serve_hub(hub, second):
                await until(lambda: len(hub.reports) >= heard + 3 * NODES)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return load

    with open_listener() as listener:
        load = asyncio.run(scenario(listener))
    assert load.counters.failed == 0
    assert load.counters.late > 0
    for heard in hub.sequences.values():
        assert sorted(set(heard)) == list(range(1, max(heard) + 1))


def test_each_node_joins_and_then_reports_with_its_own_token() -> None:
    hub = RecordingHub()
    hub.open_to_all = False

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(small(), listener_url(listener), join_token=JOIN_TOKEN)
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences) == NODES)

    with open_listener() as listener:
        asyncio.run(scenario(listener))
    for report, token in zip(hub.reports, hub.tokens, strict=True):
        assert token == f"own-of-{report.snapshots[-1].name}"


@pytest.mark.parametrize(
    "tokens, words",
    [
        ({"join_token": "stolen"}, "node00001: the hub does not let it join: this join token"),
        ({"token": "stolen"}, "the hub refuses its report: this token is not known here"),
        ({}, "the hub refuses its report: this token is not known here"),
    ],
)
def test_a_refused_token_is_told_in_one_line(tokens: dict[str, Any], words: str) -> None:
    hub = RecordingHub()
    hub.open_to_all = False

    async def scenario(listener: socket.socket) -> None:
        async with serve_hub(hub, listener):
            await LoadGenerator(small(), listener_url(listener), **tokens).run(duration_seconds=5.0)

    with open_listener() as listener, pytest.raises(Refused) as caught:
        asyncio.run(scenario(listener))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_hub_cannot_take_now_is_sent_again() -> None:
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


def test_what_the_hub_will_never_take_has_failed() -> None:
    hub = RecordingHub()
    hub.statuses = [413, 413]

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(small(1), listener_url(listener))
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.reports) >= 1)
        return load

    with open_listener() as listener:
        assert asyncio.run(scenario(listener)).counters.failed == 2


def test_the_hour_before_is_told_first_with_its_own_times() -> None:
    hub, began = RecordingHub(), time.time()
    story = demo_fleet(seed=1, start=began, interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(story, listener_url(listener), backfill=last_hour)
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


def test_a_long_past_is_told_in_parts_and_all_of_it() -> None:
    hub, moments = RecordingHub(), len(last_week(0.0))
    story = demo_fleet(seed=1, start=time.time(), interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(story, listener_url(listener), backfill=last_week)
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("dgx01", ())) > moments + 1)

    with open_listener() as listener:
        asyncio.run(scenario(listener))
    parts = [each for each in hub.reports if each.snapshots[0].name == "dgx01"]
    assert [len(part.snapshots) for part in parts[:3]] == [400, moments - 400 + 1, 1]
    assert hub.sequences["dgx01"] == list(range(1, len(hub.sequences["dgx01"]) + 1))
    paces = [shot.interval_seconds or 0.0 for part in parts for shot in part.snapshots]
    assert paces == sorted(paces, reverse=True)


def test_a_node_that_falls_silent_hangs_up_and_stays_away() -> None:
    hub = RecordingHub()
    story = demo_fleet(
        seed=1, start=time.time() - SILENT_AFTER_SECONDS + 1.5, interval_seconds=INTERVAL
    )

    async def scenario(listener: socket.socket) -> LoadGenerator:
        load = LoadGenerator(story, listener_url(listener))
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("ada03", ())) > 0)
            await until(lambda: time.time() > (story.nodes[8].silent_from or 0.0))
            heard = len(hub.sequences["dgx01"])
            await until(lambda: len(hub.sequences["dgx01"]) > heard + 3)
        return load

    with open_listener() as listener:
        load = asyncio.run(scenario(listener))
    silent = [r for r in hub.reports if r.snapshots[-1].name == "ada03"]
    assert max(r.snapshots[-1].taken_at for r in silent) < (story.nodes[8].silent_from or 0.0)
    assert load.counters.lost_connections == 0


def test_nobody_there_is_told_in_one_line() -> None:
    with open_listener() as listener:
        url = listener_url(listener)
    with pytest.raises(Unreachable, match="nobody listens there"):
        asyncio.run(LoadGenerator(small(), url).run(duration_seconds=1.0))


def test_what_does_not_speak_http_is_told() -> None:
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


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no address of a hub"):
        LoadGenerator(small(1), "ftp://hub")


def test_nothing_is_left_when_it_ends() -> None:
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


def test_a_hub_that_lets_nobody_join_yet_is_asked_again() -> None:
    hub = RecordingHub()
    hub.join_statuses = [200, 503]

    async def scenario(listener: socket.socket) -> None:
        load = LoadGenerator(small(), listener_url(listener), join_token=JOIN_TOKEN)
        async with serve_hub(hub, listener), running(load):
            await until(lambda: len(hub.sequences) == NODES)

    with open_listener() as listener:
        asyncio.run(scenario(listener))
