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
from fleet_smi.simulation.crowd import crowd
from fleet_smi.simulation.demo import SILENT_AFTER_SECONDS, demo
from fleet_smi.simulation.load import Load
from fleet_smi.simulation.story import PAST_SECONDS, Story, hour_before, week_before
from tests.simulation.hubs import JOIN_TOKEN, RecordingHub, listening, served, url_of

NODES = 7
INTERVAL = 0.05


def small(nodes: int = NODES) -> Story:
    return crowd(nodes, 2, seed=1, began=time.time(), interval_seconds=INTERVAL)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while not condition():
        assert clock() < end, "it did not come true in time"
        await asyncio.sleep(0.005)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.asynccontextmanager
async def running(load: Load) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(load.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_everything_arrives_as_it_is_counted() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> Load:
        load = Load(small(), url_of(listener))
        async with served(hub, listener):
            await load.run(seconds=6 * INTERVAL)
        return load

    with listening() as listener:
        tally = asyncio.run(scenario(listener)).tally
    assert tally.sent == tally.acknowledged == len(hub.reports)
    assert tally.failed == 0
    assert len(hub.sequences) == NODES
    for heard in hub.sequences.values():
        assert heard == list(range(1, len(heard) + 1))


def test_the_nodes_take_turns() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> None:
        async with served(hub, listener), running(Load(small(), url_of(listener))):
            await until(lambda: len(hub.reports) >= 2 * NODES)

    with listening() as listener:
        asyncio.run(scenario(listener))
    taken_at = [report.snapshots[-1].taken_at for report in hub.reports[: 2 * NODES]]
    names = [report.snapshots[-1].name for report in hub.reports[: 2 * NODES]]
    first_round = [name for _, name in sorted(zip(taken_at, names, strict=True))][:NODES]
    assert first_round == sorted(first_round)
    assert len(set(first_round)) == NODES


def test_a_hub_that_restarts_is_found_again_and_misses_nothing() -> None:
    hub = RecordingHub()

    async def scenario(first: socket.socket) -> Load:
        port = first.getsockname()[1]
        load = Load(small(), url_of(first))
        async with served(hub, first):
            task = asyncio.create_task(load.run())
            await until(lambda: len(hub.reports) >= NODES)
        first.close()
        await until(lambda: load.tally.lost_connections >= NODES)
        heard = len(hub.reports)
        with listening(port) as second:
            async with served(hub, second):
                await until(lambda: len(hub.reports) >= heard + 3 * NODES)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return load

    with listening() as listener:
        load = asyncio.run(scenario(listener))
    assert load.tally.failed == 0
    assert load.tally.late > 0
    for heard in hub.sequences.values():
        assert sorted(set(heard)) == list(range(1, max(heard) + 1))


def test_each_node_joins_and_then_reports_with_its_own_token() -> None:
    hub = RecordingHub()
    hub.open_to_all = False

    async def scenario(listener: socket.socket) -> None:
        load = Load(small(), url_of(listener), join_token=JOIN_TOKEN)
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.sequences) == NODES)

    with listening() as listener:
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
        async with served(hub, listener):
            await Load(small(), url_of(listener), **tokens).run(seconds=5.0)

    with listening() as listener, pytest.raises(Refused) as caught:
        asyncio.run(scenario(listener))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_hub_cannot_take_now_is_sent_again() -> None:
    hub = RecordingHub()
    hub.statuses = [429, 503, 500]

    async def scenario(listener: socket.socket) -> Load:
        load = Load(small(1), url_of(listener))
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.reports) >= 2)
        return load

    with listening() as listener:
        load = asyncio.run(scenario(listener))
    assert hub.sequences["node00001"][:2] == [1, 2]
    assert load.tally.failed == 0


def test_what_the_hub_will_never_take_has_failed() -> None:
    hub = RecordingHub()
    hub.statuses = [413, 413]

    async def scenario(listener: socket.socket) -> Load:
        load = Load(small(1), url_of(listener))
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.reports) >= 1)
        return load

    with listening() as listener:
        assert asyncio.run(scenario(listener)).tally.failed == 2


def test_the_hour_before_is_told_first_with_its_own_times() -> None:
    hub, began = RecordingHub(), time.time()
    story = demo(seed=1, began=began, interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> None:
        load = Load(story, url_of(listener), past=hour_before)
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("dgx01", ())) > 61)

    with listening() as listener:
        asyncio.run(scenario(listener))
    first = next(report for report in hub.reports if report.snapshots[0].name == "dgx01")
    ages = [first.age_seconds(snapshot) for snapshot in first.snapshots]
    assert ages == sorted(ages, reverse=True)
    assert ages[0] == pytest.approx(PAST_SECONDS, abs=0.01)
    assert ages[-1] == 0.0
    assert hub.sequences["dgx01"] == list(range(1, len(hub.sequences["dgx01"]) + 1))


def test_a_long_past_is_told_in_parts_and_all_of_it() -> None:
    hub, moments = RecordingHub(), len(week_before(0.0))
    story = demo(seed=1, began=time.time(), interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> None:
        load = Load(story, url_of(listener), past=week_before)
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("dgx01", ())) > moments + 1)

    with listening() as listener:
        asyncio.run(scenario(listener))
    parts = [each for each in hub.reports if each.snapshots[0].name == "dgx01"]
    assert [len(part.snapshots) for part in parts[:3]] == [400, moments - 400 + 1, 1]
    assert hub.sequences["dgx01"] == list(range(1, len(hub.sequences["dgx01"]) + 1))
    paces = [shot.interval_seconds or 0.0 for part in parts for shot in part.snapshots]
    assert paces == sorted(paces, reverse=True)


def test_a_node_that_falls_silent_hangs_up_and_stays_away() -> None:
    hub = RecordingHub()
    story = demo(seed=1, began=time.time() - SILENT_AFTER_SECONDS + 1.5, interval_seconds=INTERVAL)

    async def scenario(listener: socket.socket) -> Load:
        load = Load(story, url_of(listener))
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.sequences.get("ada03", ())) > 0)
            await until(lambda: time.time() > (story.nodes[8].silent_from or 0.0))
            heard = len(hub.sequences["dgx01"])
            await until(lambda: len(hub.sequences["dgx01"]) > heard + 3)
        return load

    with listening() as listener:
        load = asyncio.run(scenario(listener))
    silent = [r for r in hub.reports if r.snapshots[-1].name == "ada03"]
    assert max(r.snapshots[-1].taken_at for r in silent) < (story.nodes[8].silent_from or 0.0)
    assert load.tally.lost_connections == 0


def test_nobody_there_is_told_in_one_line() -> None:
    with listening() as listener:
        url = url_of(listener)
    with pytest.raises(Unreachable, match="nobody listens there"):
        asyncio.run(Load(small(), url).run(seconds=1.0))


def test_what_does_not_speak_http_is_told() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with server:
            url = url_of(server.sockets[0])
            await Load(small(1), url, join_token=JOIN_TOKEN).run(seconds=1.0)

    with pytest.raises(FleetError):
        asyncio.run(scenario())


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no address of a hub"):
        Load(small(1), "ftp://hub")


def test_nothing_is_left_when_it_ends() -> None:
    hub = RecordingHub()

    async def scenario(listener: socket.socket) -> None:
        async with served(hub, listener):
            before = len(asyncio.all_tasks())
            files = open_files()
            await Load(small(), url_of(listener)).run(seconds=3 * INTERVAL)
            await until(lambda: len(asyncio.all_tasks()) <= before)
            await until(lambda: open_files() <= files)

    with listening() as listener:
        asyncio.run(scenario(listener))


def test_a_hub_that_lets_nobody_join_yet_is_asked_again() -> None:
    hub = RecordingHub()
    hub.join_statuses = [200, 503]

    async def scenario(listener: socket.socket) -> None:
        load = Load(small(), url_of(listener), join_token=JOIN_TOKEN)
        async with served(hub, listener), running(load):
            await until(lambda: len(hub.sequences) == NODES)

    with listening() as listener:
        asyncio.run(scenario(listener))
