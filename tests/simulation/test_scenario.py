"""Scenarios: reproducible, and every figure is plausible for its GPU model."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu, Instance, Process, Snapshot
from fleet_smi.simulation.demo import SILENT_AFTER_SECONDS, demo_fleet
from fleet_smi.simulation.large_fleet import large_fleet
from fleet_smi.simulation.scenario import BackfillPoint, FleetScenario, last_hour, last_week
from fleet_smi.wire.report import decode_report, encode_report, encode_snapshot
from tests.builders import HOUR, NOON

LIVE_SECONDS = 60.0


@cache
def a_story(kind: str, seed: int) -> FleetScenario:
    if kind == "demo":
        return demo_fleet(seed=seed, start=NOON)
    return large_fleet(3, 8, seed=seed, start=NOON)


SNAPSHOTS = st.builds(
    lambda scenario, index, at: scenario.snapshot(index % len(scenario.nodes), at, 1),
    st.builds(a_story, st.sampled_from(("demo", "crowd")), st.integers(0, 20)),
    st.integers(0, 11),
    st.floats(NOON - 7 * 24 * HOUR, NOON + 24 * HOUR),
)


@given(SNAPSHOTS)
def test_a_snapshot_survives_encoding(snapshot: Snapshot) -> None:
    report = decode_report(encode_report([encode_snapshot(snapshot)], NOON))
    assert report.snapshots == (snapshot,)


@given(SNAPSHOTS)
def test_every_figure_is_plausible_for_the_model(snapshot: Snapshot) -> None:
    for gpu in snapshot.gpus:
        for part in parts_of(gpu):
            for name, value in msgspec.structs.asdict(part).items():
                if value is not None and name in RANGES:
                    low, high = RANGES[name]
                    assert low <= value <= high, name
        if gpu.fault is None:
            assert 0 < known(gpu.power_watts) <= known(gpu.power_limit_watts)
            assert 20 <= known(gpu.temperature_celsius) <= 90
            assert known(gpu.sm_clock_mhz) <= known(gpu.sm_clock_max_mhz)


@given(SNAPSHOTS)
def test_memory_adds_up(snapshot: Snapshot) -> None:
    for gpu in snapshot.gpus:
        if gpu.fault is not None:
            continue
        parts: tuple[Gpu | Instance, ...] = (gpu, *gpu.instances)
        for part in parts:
            assert known(part.memory_used_bytes) <= known(part.memory_total_bytes)
            held = sum(known(one.gpu_memory_bytes) for one in part.processes or ())
            assert held <= known(part.memory_used_bytes)


@given(SNAPSHOTS)
def test_no_process_is_listed_before_it_started(snapshot: Snapshot) -> None:
    processes = [one for gpu in snapshot.gpus for one in gpu.processes or ()]
    assert all(known(one.started_at) <= snapshot.taken_at for one in processes)


@settings(max_examples=25)
@given(st.integers(0, 20), st.lists(st.floats(NOON - HOUR, NOON + HOUR), min_size=1, max_size=8))
def test_snapshots_do_not_depend_on_earlier_queries(seed: int, moments: list[float]) -> None:
    scenario = demo_fleet(seed=seed, start=NOON)
    for index in range(len(scenario.nodes)):
        for at in moments:
            last = scenario.snapshot(index, at, 1)
        assert last == demo_fleet(seed=seed, start=NOON).snapshot(index, moments[-1], 1)


def test_another_seed_is_another_fleet() -> None:
    ids = [{node.node_id for node in demo_fleet(seed=seed, start=NOON).nodes} for seed in (1, 2)]
    assert not ids[0] & ids[1]


def test_another_start_is_another_run_of_the_same_nodes() -> None:
    one, other = (
        demo_fleet(seed=1, start=NOON).nodes[0],
        demo_fleet(seed=1, start=NOON + 1).nodes[0],
    )
    assert one.node_id == other.node_id
    assert one.run_id != other.run_id


def test_no_two_gpus_or_nodes_are_the_same() -> None:
    scenario = large_fleet(50, 8, seed=1, start=NOON)
    snapshots = [scenario.snapshot(index, NOON, 1) for index in range(50)]
    assert len({one.node_id for one in snapshots}) == 50
    assert len({gpu.uuid for one in snapshots for gpu in one.gpus}) == 400


@pytest.fixture(scope="module", params=(1, 2, 3))
def lab(request: pytest.FixtureRequest) -> FleetView:
    """The demo fleet as a hub judges it after the hour before and a minute of reports."""
    return watched(demo_fleet(seed=request.param, start=NOON), LIVE_SECONDS)


def watched(scenario: FleetScenario, seconds: float) -> FleetView:
    fleet, pace = FleetState(), scenario.interval_seconds
    live = (BackfillPoint(NOON + pace * step, pace) for step in range(int(seconds / pace) + 1))
    for sequence, (at, interval) in enumerate((*last_hour(NOON), *live), start=1):
        for index in range(len(scenario.nodes)):
            if scenario.is_reporting(index, at):
                fleet.apply(scenario.snapshot(index, at, sequence, interval), at)
    return fleet.view(NOON + seconds)


def test_the_demo_is_a_lab_of_twelve_nodes_and_four_models(lab: FleetView) -> None:
    assert len(lab.nodes) == 12
    assert len({gpu.name for node in lab.nodes for gpu in node.gpus}) == 4
    assert {len(node.gpus) for node in lab.nodes} == {8, 4, 2}
    assert sum(bool(gpu.instances) for node in lab.nodes for gpu in node.gpus) == 1


def test_the_demo_has_every_state_that_a_lab_has(lab: FleetView) -> None:
    counts = lab.summary
    assert (counts.held, counts.ghost, counts.broken) == (3, 1, 1)
    assert counts.free > 0
    assert counts.busy > 20
    assert counts.unknown == 4


def test_one_node_goes_silent_after_reporting(lab: FleetView) -> None:
    (silent,) = [node for node in lab.nodes if node.silent]
    assert silent.taken_at is not None
    assert NOON <= silent.taken_at < NOON + SILENT_AFTER_SECONDS


def test_a_notebook_and_a_squatter_hold_gpus_without_using_them(lab: FleetView) -> None:
    held = [gpu for node in lab.nodes for gpu in node.gpus if gpu.verdict.state == "held"]
    reasons = [gpu.verdict.reason.partition(", ")[0] for gpu in held]
    assert sorted(reasons) == ["lucas", "oskar", "oskar"]


def test_a_holder_is_idle_since_it_began_after_a_backfilled_week() -> None:
    scenario, fleet = demo_fleet(seed=1, start=NOON), FleetState()
    at = next(i for i, node in enumerate(scenario.nodes) if node.name == "hgx01")
    for sequence, (moment, interval) in enumerate(last_week(NOON), start=1):
        fleet.apply(scenario.snapshot(at, moment, sequence, interval), moment)
    (node,) = fleet.view(NOON).nodes
    assert node.gpus[0].verdict.reason.startswith("lucas, idle for 22 h")


def test_two_users_share_a_gpu(lab: FleetView) -> None:
    notes = [note for node in lab.nodes for gpu in node.gpus for note in gpu.verdict.notes]
    assert [note.words for note in notes if note.kind == "shared"] == ["shared by 2"]


def test_no_gpu_but_the_ghost_has_unaccounted_memory(lab: FleetView) -> None:
    notes = [note for node in lab.nodes for gpu in node.gpus for note in gpu.verdict.notes]
    assert not [note for note in notes if note.kind == "unaccounted"]


def test_the_last_hour_is_like_the_hours_before_it() -> None:
    """Jobs of hours: about as many begin in the last hour as in any other."""
    scenario = demo_fleet(seed=1, start=NOON)
    begun = [
        len(people(scenario, NOON - HOUR * (hours - 1)) - people(scenario, NOON - HOUR * hours))
        for hours in range(1, 9)
    ]
    assert begun[0] <= max(begun[1:]) <= 30
    assert sum(begun) > 5


def test_jobs_last_hours_and_run_by_day() -> None:
    scenario, day = demo_fleet(seed=1, start=NOON), 24 * HOUR
    midnight = NOON - NOON % day
    noons, nights = 0, 0
    for days in range(2, 7):
        then = midnight - days * day
        noon, night = people(scenario, then + 14 * HOUR), people(scenario, then + 4 * HOUR)
        noons, nights = noons + len(noon), nights + len(night)
        assert len(noon & people(scenario, then + 14.5 * HOUR)) > len(noon) / 2
    assert noons > 1.1 * nights


def test_the_backfilled_week_has_gaps_only_during_outages() -> None:
    moments, scenario = last_week(NOON), demo_fleet(seed=1, start=NOON)
    pauses = [after.at - before.at for before, after in pairwise(moments)]
    # As long as the interval that the next report states: none counts as missed.
    assert pauses == pytest.approx([interval for _, interval in moments[1:]])
    assert (moments[0].at, moments[-1].at) == (NOON - 7 * 24 * HOUR, NOON - 10.0)
    counts = [sum(scenario.is_reporting(index, at) for at, _ in moments) for index in range(12)]
    assert sorted(counts)[:2] == [len(moments) - 9, len(moments)]


def test_utilisation_moves_from_report_to_report() -> None:
    scenario = demo_fleet(seed=1, start=NOON)
    readings = {
        tuple(gpu.busy_percent for gpu in scenario.snapshot(0, NOON + 2.0 * step, 1).gpus)
        for step in range(10)
    }
    assert len(readings) == 10


def test_a_multi_gpu_job_has_one_user() -> None:
    snapshot = demo_fleet(seed=1, start=NOON).snapshot(0, NOON, 1)
    processes = [one for gpu in snapshot.gpus for one in gpu.processes or ()]
    assert len({one.pid for one in processes}) == 8
    assert {(one.user, one.slurm_job) for one in processes} == {("maria", processes[0].slurm_job)}


def people(scenario: FleetScenario, at: float) -> set[tuple[str, int]]:
    snapshots = (scenario.snapshot(index, at, 1) for index in range(len(scenario.nodes)))
    return {
        (gpu.uuid, process.pid)
        for snapshot in snapshots
        for gpu in snapshot.gpus
        for process in gpu.processes or ()
    }


def parts_of(gpu: Gpu) -> Iterator[Gpu | Instance | Process]:
    yield gpu
    yield from gpu.instances
    yield from gpu.processes or ()


def known(value: float | None) -> float:
    assert value is not None
    return value
