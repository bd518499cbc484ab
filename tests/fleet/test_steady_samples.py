"""Steady samples are judged exactly as if each had been judged in full.

`FLEET_SMI_JUDGED_SAMPLES=1000000` compares as many samples instead of a few thousand.
"""

import os
from random import Random

import pytest

from fleet_smi.fleet import device_standings
from fleet_smi.fleet.fleet import FleetChange, FleetState
from fleet_smi.fleet.state_transition import StateTransition
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.snapshot_figures import figures_of, with_figures
from fleet_smi.model.verdict import live_standing
from fleet_smi.model.verdict.hysteresis import (
    SampleTiming,
    Standing,
    apply_sample,
    shift_standing,
)
from fleet_smi.model.verdict.thresholds import Thresholds
from tests.fleet.random_reports import GPUS, RandomNode

NODE = "id-of-gpu01"
REPORTS_PER_NODE = 250
SAMPLES = int(os.environ.get("FLEET_SMI_JUDGED_SAMPLES", "12000"))
SHARDS = 2


class FullJudgement:
    """The reference: every sample of every device is judged in full, and nothing is put off."""

    def __init__(self) -> None:
        self.standings: dict[str, Standing] = {}
        self.occupancy_changed: set[str] = set()

    def judge(
        self, gpus: tuple[Gpu, ...], timing: SampleTiming, thresholds: Thresholds
    ) -> tuple[StateTransition, ...]:
        previous, standings = self.standings, dict[str, Standing]()
        for gpu in gpus:
            parts = [
                apply_sample(previous.get(part.uuid), part, gpu, timing, thresholds)
                for part in gpu.instances
            ]
            standings |= {
                part.uuid: standing for part, standing in zip(gpu.instances, parts, strict=True)
            }
            verdicts = tuple([part.verdict for part in parts])
            before = previous.get(gpu.uuid)
            standings[gpu.uuid] = apply_sample(before, gpu, gpu, timing, thresholds, verdicts)
        self.standings = standings
        self.occupancy_changed = {
            uuid
            for uuid in previous.keys() | standings.keys()
            if uuid not in previous
            or uuid not in standings
            or previous[uuid].group is not standings[uuid].group
            or previous[uuid].ended is not standings[uuid].ended
        }
        states = {uuid: standing.verdict.state for uuid, standing in previous.items()}
        return tuple(
            [
                StateTransition(uuid=uuid, before=states.get(uuid), after=standing.verdict)
                for uuid, standing in standings.items()
                if states.get(uuid) != standing.verdict.state
            ]
        )


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.timeout(0 if SAMPLES > 100_000 else 120)
def test_random_reports_are_judged_as_if_each_sample_was_judged_in_full(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_in_full, samples = [0], 0

    def counted(*args: object) -> Standing:
        judged_in_full[0] += 1
        return apply_sample(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(device_standings, "apply_sample", counted)
    monkeypatch.setattr(live_standing, "apply_sample", counted)
    nodes = -(-SAMPLES // (GPUS * REPORTS_PER_NODE * SHARDS))
    for number in range(nodes):
        samples += compare_node(shard * nodes + number)

    steady = samples - judged_in_full[0]
    print(f"{samples} samples, {steady / samples:.0%} of them steady, 0 differences")
    assert steady > 0.3 * samples


def compare_node(seed: int) -> int:
    """Apply the reports of one node to both, and return how many samples were compared."""
    node, rng, reference = RandomNode(seed), Random(seed), FullJudgement()
    fleet, samples = FleetState(node.thresholds), 0
    # How often somebody looks: what is put off must be the same after any number of samples.
    looks, as_figures = rng.choice((0.02, 0.2, 1.0)), rng.random() < 0.5
    for number in range(REPORTS_PER_NODE):
        snapshot = node.next_snapshot()
        change = send(fleet, snapshot, node.at, as_figures=as_figures)
        assert change is not None
        at = change.at
        timing = SampleTiming(at, snapshot.interval_seconds, at - snapshot.taken_at)
        missing = [each.gpu for each in fleet._nodes[NODE].inventory.missing.values()]
        gpus = (*snapshot.gpus, *missing)
        transitions = reference.judge(gpus, timing, node.thresholds)
        samples += len(reference.standings)

        case = f"seed {seed}, report {number}"
        assert change.transitions == transitions, case
        assert set(change.occupancy_changed) == reference.occupancy_changed, case
        if rng.random() < looks:
            assert dict(change.standings) == reference.standings, case
            assert change.snapshot == snapshot, case
        if rng.random() < 0.002:
            shift = rng.choice((-3600.0, 7200.0))
            fleet.shift_times(shift)
            node.at += shift
            reference.standings = {
                uuid: shift_standing(each, shift) for uuid, each in reference.standings.items()
            }
    return samples


def send(
    fleet: FleetState, snapshot: Snapshot, at: float, *, as_figures: bool
) -> FleetChange | None:
    """Apply a report: where only figures differ from the one before, by these alone."""
    base = fleet.figure_reports.base(NODE)
    if as_figures and base is not None:
        figures = figures_of(snapshot)
        if has_same_shape(base.base, snapshot) and with_figures(base.base, figures) == snapshot:
            return fleet.figure_reports.apply(NODE, figures, at)
    return fleet.apply(snapshot, at)


def has_same_shape(base: Snapshot, snapshot: Snapshot) -> bool:
    before, after = figures_of(base), figures_of(snapshot)
    return [
        len(before.gpus[0]),
        len(before.instances[0]),
        [len(gpu.processes or ()) for gpu in base.gpus],
        [len(part.processes or ()) for gpu in base.gpus for part in gpu.instances],
    ] == [
        len(after.gpus[0]),
        len(after.instances[0]),
        [len(gpu.processes or ()) for gpu in snapshot.gpus],
        [len(part.processes or ()) for gpu in snapshot.gpus for part in gpu.instances],
    ]
