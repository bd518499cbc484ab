"""A running hub records its history and resumes it after a restart."""

import asyncio
from pathlib import Path

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.database import open_database
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory, relative_times

UUID = gpu().uuid


class Lives:
    """Lives of a hub on one state folder, with what is kept of its history."""

    def __init__(self, folder: Path) -> None:
        self.kept = InMemoryHistory()
        self.now = NOON
        self._engine = open_database(folder / "hub.db")

    async def live(
        self, start: int, end: int, *, removes: str | None = None, renames: str | None = None
    ) -> None:
        memory, fleet = NodeStore(self._engine, NodeCheckpoint), FleetState()
        hub = Hub(
            fleet,
            [],
            memory,
            HistoryRecorder(fleet, self.kept),
            checkpoint_seconds=60,
            clock=lambda: self.now,
        )
        running = asyncio.ensure_future(hub.run())
        while not hub.ready:
            await asyncio.sleep(0)
        if renames is not None:
            await hub.label(renames, "another")
        for second in range(start, end):
            self.now = NOON + second
            card = gpu(processes=(process(1),), busy_percent=95.0)
            report = snapshot(card, sequence=second + 1, run_id="run", taken_at=self.now)
            hub.deliver(Delivery(source="scripted", target="gpu01", result=report))
            hub.publish()
        if removes is not None:
            await hub.remove(removes)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        memory.close()

    def close(self) -> None:
        self._engine.dispose()


def test_an_occupancy_continues_after_a_restart(tmp_path: Path) -> None:
    lives = Lives(tmp_path)
    asyncio.run(lives.live(0, 15))
    asyncio.run(lives.live(15, 30, removes="id-of-gpu01"))
    lives.close()
    (occupancy,) = lives.kept.occupancies()
    assert relative_times([occupancy]) == [(0, 29)]
    assert occupancy.sums.gpu_seconds == 29.0
    assert relative_times(lives.kept.periods(UUID)) == [(0, 29)]
    assert lives.kept.checkpoints() == []


def test_a_renamed_node_has_its_new_name_after_its_next_report(
    tmp_path: Path,
) -> None:
    lives = Lives(tmp_path)
    asyncio.run(lives.live(0, 2))
    asyncio.run(lives.live(2, 3, renames="id-of-gpu01"))
    lives.close()
    assert lives.kept.nodes["id-of-gpu01"].name == "another"
