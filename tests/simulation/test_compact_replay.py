"""Compact reports of a simulated fleet: what a real hub makes of them, and that they stay true."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.hub.figure_batches import FigureBatches
from fleet_smi.model.snapshot_figures import MemoryLimits, SnapshotFigures
from fleet_smi.server import report_decoding, report_handler
from fleet_smi.simulation.compact_replay import CompactReplay
from fleet_smi.simulation.large_fleet import large_fleet
from fleet_smi.simulation.load_generator import LoadGenerator
from fleet_smi.wire.compact import CompactReport, builds_on, expand, merge
from fleet_smi.wire.packed import decode_packed
from tests.server.threaded_hub import ThreadedHub

START = 1_750_000_000.0
HUB = "0123456789abcdef"
NODES, SECONDS = 5, 600


@pytest.mark.parametrize("replay_seconds", [0, 20])
def test_replayed_reports_have_figures_of_the_scenario(replay_seconds: int) -> None:
    scenario = large_fleet(1, 8, seed=1, start=START)
    replay = CompactReplay(scenario, 0, replay_seconds)
    truth = [scenario.snapshot(0, START + number, number) for number in range(SECONDS + 10)]
    hub_has, full, exact = truth[0], 0, 0
    for number in range(1, SECONDS):
        body = replay.report(START + number, number)
        if body is None:
            full += 1
            hub_has = truth[number]
            replay.begin(hub_has, HUB)
            continue
        report = decode_packed(body)
        assert (report.hub, report.sent_at, report.sequence) == (HUB, START + number, number)
        assert builds_on(report, hub_has)
        hub_has = expand(hub_has, report)
        exact += hub_has == truth[number]
        recent = truth[max(0, number - replay_seconds) : number + 8]
        assert any(hub_has.gpus == each.gpus for each in recent)
    # Jobs that begin and end, and every few minutes in any case.
    assert 2 < full < 30
    assert exact == SECONDS - 1 - full or replay_seconds


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the compact reports that a hub applied."""
    numbers: list[int] = []

    def recorded(
        base: SnapshotFigures, report: CompactReport, limits: MemoryLimits
    ) -> SnapshotFigures:
        numbers.append(report.sequence)
        return merge(base, report, limits)

    follow = FigureBatches._follow

    def followed(batches: FigureBatches, reports: Any, *rest: Any) -> None:
        numbers.extend([each.packed.sequence for each in reports])
        follow(batches, reports, *rest)

    # Steady ones are not merged, those of a known node before all checks.
    monkeypatch.setattr(FigureBatches, "_follow", followed)
    for module in (report_decoding, report_handler):
        monkeypatch.setattr(module, "merge", recorded)
    return numbers


def test_a_real_hub_gets_compact_reports_and_asks_for_full_ones_after_a_restart(
    tmp_path: Path, expanded: list[int]
) -> None:
    async def run(hub: ThreadedHub, joined: str) -> LoadGenerator:
        scenario = large_fleet(NODES, 2, seed=1, start=time.time(), interval_seconds=0.05)
        load = LoadGenerator(scenario, hub.url, join_token=joined, replay_seconds=1.0)
        task = asyncio.create_task(load.run())
        while len(expanded) < 50 and not task.done():
            await asyncio.sleep(0.01)
        # As after a full history: the receipts are those of another run.
        hub.server.hub.receipt_id = "another"
        before, count = load.counters.acknowledged, len(expanded)
        while len(expanded) < count + 50 and not task.done():
            await asyncio.sleep(0.01)
        assert load.counters.acknowledged > before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return load

    with ThreadedHub(tmp_path / "state") as hub:
        load = asyncio.run(run(hub, hub.token("join")))
        nodes = hub.fleet().nodes
    assert (load.counters.failed, load.counters.lost_connections, len(nodes)) == (0, 0, NODES)
    assert [node.missing_reports for node in nodes] == [0] * NODES
