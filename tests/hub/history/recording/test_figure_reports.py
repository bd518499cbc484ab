"""History of reports of figures alone: the same rows as of snapshots."""

import pytest
from msgspec.structs import replace

from fleet_smi.fleet import node_sample
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import figures_of
from fleet_smi.model.units import GIB, MIB
from tests.builders import NOON, gpu, process, snapshot
from tests.hub.history.in_memory_history import RecordedFleet

NODE = "id-of-gpu01"


def report(sequence: int) -> Snapshot:
    """The report of a second: figures move, and now and then more than these changes."""
    is_second_job = 40 <= sequence < 90
    alice = process(gpu_memory_bytes=16 * GIB + (sequence // 30) * MIB, busy_percent=90.0)
    first = gpu(
        0,
        busy_percent=80.0 + sequence % 9,
        power_watts=500.0 + sequence,
        sm_clock_mhz=None if sequence % 50 == 3 else 1400 + sequence,
        memory_temperature_celsius=60.0,
        energy_joules=1000.0 + 500 * sequence,
        encoder_percent=float(sequence % 3),
        processes=(alice,),
    )
    second = gpu(1, processes=(process(77, "bob"),) if is_second_job else ())
    taken = snapshot(first, second, taken_at=NOON + sequence, sequence=sequence, run_id="run-1")
    host = replace(
        taken.host,
        cpu_percent=None if sequence % 60 == 5 else float(sequence % 20),
        memory_used_bytes=sequence * GIB,
        memory_total_bytes=512 * GIB,
    )
    return replace(taken, host=host)


def record(*, as_figures: bool) -> RecordedFleet:
    watched = RecordedFleet()
    for sequence in range(1, 200):
        taken, at = report(sequence), NOON + sequence + 0.1
        base = watched.fleet.figure_reports.base(NODE)
        if (
            as_figures
            and base is not None
            and len(base.base.gpus[1].processes or ()) == len(taken.gpus[1].processes or ())
        ):
            change = watched.fleet.figure_reports.apply(NODE, figures_of(taken), at)
        else:
            change = watched.fleet.apply(taken, at)
        assert change is not None
        watched.history.record(change)
        watched.history.tick(at)
    watched.history.tick(NOON + 300)
    return watched


def test_figures_are_recorded_as_the_snapshots_that_they_are_from() -> None:
    ours, theirs = record(as_figures=True).stored, record(as_figures=False).stored
    for uuid in ("GPU-00000000", "GPU-00000001"):
        assert ours.periods(uuid) == theirs.periods(uuid)
        assert ours.occupancies(uuid) == theirs.occupancies(uuid)
    assert ours.usage() == theirs.usage()
    assert [repr(row) for row in ours.series()] == [repr(row) for row in theirs.series()]
    assert ours.presence() == theirs.presence()


def test_steady_figures_are_recorded_without_making_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = RecordedFleet()
    for sequence in range(91, 100):
        watched.take(report(sequence), NOON + sequence)
    monkeypatch.delattr(node_sample, "with_figures")
    for sequence in range(100, 119):
        change = watched.fleet.figure_reports.apply(
            NODE, figures_of(report(sequence)), NOON + sequence
        )
        assert change is not None
        watched.history.record(change)
    assert not watched.fleet.faults
