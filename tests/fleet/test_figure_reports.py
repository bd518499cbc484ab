"""Reports of figures alone: the same fleet as by snapshots, without making any."""

import pytest
from msgspec.structs import replace

from fleet_smi.fleet import node_sample
from fleet_smi.fleet.fleet import FleetState, Via
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures, figures_of, with_figures
from fleet_smi.model.units import GIB
from tests.builders import NOON, gpu, instance, process, snapshot
from tests.fleet.random_reports import RandomNode
from tests.fleet.test_steady_samples import send

NODE = "id-of-gpu01"
PUSH = Via("push", NODE)
AT_WORK = gpu(0, busy_percent=90.0, power_watts=600.0, processes=(process(),))


def numbered(sequence: int, *gpus: object, **fields: object) -> Snapshot:
    taken = snapshot(*gpus, taken_at=NOON + sequence, sequence=sequence, run_id="run-1")  # type: ignore[arg-type]
    return replace(taken, **fields)


def test_figures_lead_to_the_same_views_and_checkpoints_as_snapshots() -> None:
    for seed in range(20):
        node, by_snapshots, by_figures = RandomNode(seed), FleetState(), FleetState()
        for number in range(60):
            taken = node.next_snapshot()
            by_snapshots.apply(taken, node.at)
            send(by_figures, taken, node.at, as_figures=True)
            if number % 7 == 0:
                case = f"seed {seed}, report {number}"
                assert by_figures.view(node.at) == by_snapshots.view(node.at), case
        assert by_figures.checkpoint(NODE) == by_snapshots.checkpoint(NODE)


def test_steady_figures_make_no_snapshot_until_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet, made = FleetState(), []
    for sequence in range(1, 5):
        fleet.apply(numbered(sequence, AT_WORK, gpu(1)), NOON + sequence, PUSH)

    def counted(base: Snapshot, figures: SnapshotFigures) -> Snapshot:
        made.append(base)
        return with_figures(base, figures)

    monkeypatch.setattr(node_sample, "with_figures", counted)
    for sequence in range(5, 20):
        moved = replace(AT_WORK, busy_percent=80.0 + sequence, temperature_celsius=70.0)
        figures = figures_of(numbered(sequence, moved, gpu(1)))
        assert fleet.figure_reports.apply(NODE, figures, NOON + sequence, PUSH) is not None
    assert not made

    (node,) = fleet.view(NOON + 19).nodes
    assert node.gpus[0].verdict.reason == "alice, 99 %"
    assert (node.sequence, node.gpus[0].temperature_celsius) == (19, 70.0)
    assert len(made) == 1


def test_a_process_that_turns_zombie_is_judged_by_its_figures() -> None:
    fleet = FleetState()
    idle = replace(AT_WORK, busy_percent=0.0)
    for sequence in range(1, 5):
        fleet.apply(numbered(sequence, idle, gpu(1)), NOON + sequence)
    dead = replace(idle, processes=(process(condition="zombie", gpu_memory_bytes=12 * GIB),))
    states = []
    for sequence in range(5, 9):
        figures = figures_of(numbered(sequence, dead, gpu(1)))
        change = fleet.figure_reports.apply(NODE, figures, NOON + sequence)
        assert change is not None
        states += [each.after.state for each in change.transitions]
    assert states == ["ghost"]


def test_figures_of_mig_instances_are_judged() -> None:
    fleet = FleetState()
    mine = instance(1, processes=(process(),), memory_used_bytes=5 * GIB)
    card = gpu(0, mig_mode=True, busy_percent=None, instances=(mine, instance(2)))
    fleet.apply(numbered(1, card), NOON + 1)
    full = replace(card, instances=(mine, instance(2, memory_used_bytes=9 * GIB)))
    for sequence in range(2, 6):
        fleet.figure_reports.apply(NODE, figures_of(numbered(sequence, full)), NOON + sequence)
    (judged,) = fleet.view(NOON + 5).nodes[0].gpus
    assert [each.verdict.state for each in judged.instances] == ["busy", "ghost"]


def test_duplicates_late_ones_and_those_of_an_unknown_node_change_nothing() -> None:
    fleet = FleetState()
    assert fleet.figure_reports.apply(NODE, figures_of(numbered(1, gpu())), NOON) is None
    fleet.apply(numbered(1, gpu()), NOON + 1)
    apply = fleet.figure_reports.apply
    assert apply(NODE, figures_of(numbered(3, gpu(power_watts=80.0))), NOON + 3) is not None
    assert apply(NODE, figures_of(numbered(3, gpu(power_watts=90.0))), NOON + 4) is None
    late = apply(NODE, figures_of(numbered(2, gpu(power_watts=90.0))), NOON + 2)
    assert late is not None
    assert late.is_late
    assert apply(NODE, replace(figures_of(numbered(4, gpu())), taken_at=float("nan")), NOON) is None
    assert fleet.view(NOON + 4).nodes[0].gpus[0].power_watts == 80.0


def test_figures_that_are_not_recorded_count_as_not_received() -> None:
    fleet = FleetState()
    fleet.apply(numbered(1, gpu()), NOON + 1)
    figures = figures_of(numbered(2, gpu(power_watts=80.0)))
    assert fleet.figure_reports.apply(NODE, figures, NOON + 2, is_recorded=False) is not None
    assert fleet.is_ahead_of_history(NODE)
    assert fleet.figure_reports.apply(NODE, figures, NOON + 2) is not None
    assert not fleet.is_ahead_of_history(NODE)


def test_figures_by_another_route_attach_it_and_clear_its_failure() -> None:
    fleet, other = FleetState(), Via("pull", "gpu01:9400")
    fleet.apply(numbered(1, gpu()), NOON + 1, PUSH)
    fleet.record_failure(PUSH, "refused", NOON + 1)
    fleet.figure_reports.apply(NODE, figures_of(numbered(2, gpu())), NOON + 2, PUSH)
    assert fleet.view(NOON + 2).nodes[0].trouble is None
    fleet.figure_reports.apply(NODE, figures_of(numbered(3, gpu())), NOON + 3, other)
    assert fleet.routes.node_id(other) == NODE
