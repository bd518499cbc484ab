"""This machine as a fleet of one, without a hub."""

import time
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from fleet_smi import config
from fleet_smi.local import LocalFleet
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import CollectorRun, Snapshot
from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from tests.builders import gpu, snapshot

SLOW = CollectorRun(name="nvidia", outcome="failed", seconds=12.3, detail="", fault="slow")


class ScriptedFleet(LocalFleet):
    """Takes its snapshots from a list."""

    def __init__(self, *snapshots: Snapshot) -> None:
        super().__init__(config.load({}), Reader(spawn_worker), subjects=())
        self._snapshots = iter(snapshots)

    def snapshot(self, interval_seconds: float | None = None) -> Snapshot:
        return next(self._snapshots)


def test_a_driver_that_took_long_does_not_make_this_machines_clock_wrong() -> None:
    taken = replace(snapshot(gpu(0)), taken_at=time.time() - 90.0)
    (node,) = ScriptedFleet(taken).view().nodes
    assert (node.clock_skew_seconds, node.warnings) == (None, ())


def test_a_driver_that_took_long_does_not_make_this_machine_silent() -> None:
    taken = replace(snapshot(gpu(0)), taken_at=time.time() - 90.0, interval_seconds=1.0)
    (node,) = ScriptedFleet(taken).view(1.0).nodes
    assert not node.silent
    assert node.gpus[0].verdict.state == "free"


def test_what_is_known_is_shown_until_the_driver_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fleet_smi.local._PARTIAL_SECONDS", 0.0)
    now = time.time()
    waiting = [replace(snapshot(), taken_at=now + at, runs=(SLOW,)) for at in (0.1, 0.2)]
    shown: list[Sequence[str]] = []

    def show_partial(_: FleetView, awaited: Sequence[str]) -> None:
        shown.append(awaited)

    fleet = ScriptedFleet(*waiting, replace(snapshot(gpu(0)), taken_at=now + 0.3))
    assert fleet.view(show_partial=show_partial).summary.gpus == 1
    assert shown == [["nvidia (12 s)"]] * 2
