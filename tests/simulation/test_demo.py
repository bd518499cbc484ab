"""The demo fleet over the real wire: a real hub judges it as the scenario says."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.client.hub import HubClient
from fleet_smi.model.fleet import FleetView
from fleet_smi.simulation.demo import SILENT_AFTER_SECONDS, demo_fleet
from fleet_smi.simulation.load_generator import LoadGenerator
from fleet_smi.simulation.scenario import last_hour

HUB = (sys.executable, "-m", "fleet_smi", "hub")


@pytest.fixture
def join_token(tmp_path: Path) -> str:
    line = (*HUB, "token", "add", "--role", "join", "--state", str(tmp_path))
    done = subprocess.run(line, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


@pytest.fixture
def hub_url(tmp_path: Path, join_token: str) -> Iterator[str]:
    """A hub of its own process; its address."""
    line = (*HUB, "--listen", "127.0.0.1:0", "--state", str(tmp_path))
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as hub:
        assert hub.stdout is not None
        yield hub.stdout.readline().decode().split()[-1]
        hub.terminate()


async def watched(load: LoadGenerator, url: str, seconds: float = 60.0) -> FleetView:
    """The fleet once one node has fallen silent, while the others report."""
    client, running = HubClient(url, timeout_seconds=seconds), asyncio.create_task(load.run())
    until = time.monotonic() + seconds
    try:
        while True:
            view = await asyncio.to_thread(client.fleet)
            # By its name: a node that has sent only the beginning of its hour is silent, too.
            silent = [node.name for node in view.nodes if node.silent]
            if len(view.nodes) == 12 and silent == ["ada03"]:
                return view
            assert time.monotonic() < until, view.summary
            assert not running.done(), running.exception()
            await asyncio.sleep(0.05)
    finally:
        client.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_a_hub_backfilled_with_the_last_hour_shows_every_state(
    hub_url: str, join_token: str
) -> None:
    began = time.time() - SILENT_AFTER_SECONDS + 4.0
    scenario = demo_fleet(seed=1, start=began, interval_seconds=0.5)
    load = LoadGenerator(scenario, hub_url, join_token=join_token, backfill=last_hour)
    view = asyncio.run(watched(load, hub_url))
    counts = view.summary
    assert (counts.held, counts.ghost, counts.broken, counts.unknown) == (3, 1, 1, 4)
    assert counts.free > 0
    assert counts.busy > 20
    assert all(node.missing_reports == 0 for node in view.nodes)
    assert load.counters.failed == 0
