"""Packed reports that are applied together are judged as if each sample was judged in full.

`FLEET_SMI_JUDGED_SAMPLES=1000000` compares as many samples instead of a few thousand.
"""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from fleet_smi.errors import NeedsFullReport
from fleet_smi.fleet.fleet import FleetChange, FleetState, Via
from fleet_smi.fleet.machines import Machine, evidence_of
from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.hub.figure_batches import BatchedReports, FigureBatches
from fleet_smi.hub.figure_delivery import FigureRoute
from fleet_smi.hub.history.series.buffer import SampleBuffer
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.recording_gate import RecordingGate
from fleet_smi.hub.stream_diff import StreamDiff
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.stream_payload import FleetPayload
from fleet_smi.model.stream_payload_builder import node_figures, node_payload
from fleet_smi.model.units import MIB
from fleet_smi.model.verdict.hysteresis import SampleTiming, shift_standing
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.wire.compact import CompactReport, SnapshotParts, compact_parts, merge, split
from fleet_smi.wire.figure_codes import NoCode
from fleet_smi.wire.packed import decode_packed, encode_packed
from tests.builders import gpu, process
from tests.fleet.random_reports import GPUS, THRESHOLDS, RandomNode
from tests.fleet.test_steady_samples import SAMPLES, SHARDS, FullJudgement
from tests.hub.test_stream_diff import after

NODES = 3
REPORTS = 250
MAX_AGE = 1e9


class CalmNode(RandomNode):
    """A node of usual cards, on which most GPUs without a process do nothing."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._restlessness = self._rng.choice((0.0, 0.0003, 0.001, 0.003, 0.02))
        self._skew = self._rng.choice((0.0, 0.1))

    def _new_gpu(self, index: int) -> Gpu:
        card = super()._new_gpu(index) if self._rng.random() < 0.02 else gpu(index)
        return replace(card, processes=(process(index),)) if self._rng.random() < 0.6 else card

    def _with_figures(self, index: int, card: Gpu) -> Gpu:
        rng = self._rng
        if not card.processes and not self._is_restless(3.0):
            self._levels[index] = (0.0, 71.0)
        elif rng.random() < 0.02:
            self._levels[index] = rng.choice((0.0, 40.0, 97.0, 100.0)), rng.choice((140.0, 600.0))
        moved = super()._with_figures(index, card)
        if moved.memory_used_bytes is not None:
            whole = moved.memory_used_bytes // MIB * MIB
            moved = replace(moved, memory_used_bytes=whole + rng.randrange(MIB))
        return moved if card.processes or self._is_restless(3.0) else replace(moved, busy_percent=0)


class FewParts:
    """As much of a hub as a batch needs: a fleet, a clock and the changes that were passed on."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.fleet = FleetState(thresholds)
        self.history = None
        self.now = 0.0
        self.reports_received = self.delivery_failures = 0
        self.recording_gate = RecordingGate(None)
        self.changes: dict[str, FleetChange] = {}
        # As while something is closed: then each change is passed on.
        self.outputs = SimpleNamespace(pass_on=self._pass_on, has_closed=True)

    def read_clock(self) -> float:
        return self.now

    def is_owned(self, _node_id: str, _via: Via) -> bool:
        return True

    def _pass_on(self, change: FleetChange | None, *, is_recorded: bool) -> None:
        assert is_recorded
        assert change is not None
        self.changes[change.node_id] = change


class PackingNode:
    """A node that sends packed reports wherever these can say it, and the judge to compare with."""

    def __init__(self, hub: FewParts, name: str, seed: int) -> None:
        self.random = RandomNode(seed) if seed % 10 == 9 else CalmNode(seed)
        self.reference = FullJudgement()
        self.random.thresholds = hub.fleet.thresholds
        self.name, self.via = name, Via("push", name)
        self._hub = hub
        self._base: SnapshotParts | None = None
        self._last: CompactReport | None = None
        self.snapshot: Snapshot | None = None

    def next_report(self) -> bytes | None:
        """Take the next sample; `None` where it is not to be sent packed."""
        self.snapshot = replace(self.random.next_snapshot(), node_id=self.name)
        now, base, report = split(self.snapshot), self._base, None
        if base is not None:
            report = compact_parts(base, now, self._last)
        self._base, self._last = now, report
        if report is None:
            return None
        try:
            return encode_packed(report, self.snapshot.taken_at + self.age, "hub")
        except NoCode:
            self._last = None
            return None

    @property
    def age(self) -> float:
        return self._hub.now - self.random.at

    def route(self) -> FigureRoute:
        node = self._hub.fleet.figure_reports.nodes[self.name]
        assert node.base is not None
        machine = Machine(self.name, evidence_of(node.base, 0.0, self.via), None)
        return FigureRoute(node, node.facts_revision, machine, (), self.via, None)

    def apply_alone(self, body: bytes | None) -> None:
        """Apply a report that was not steady, or not packed, one by one."""
        assert self.snapshot is not None
        fleet, at = self._hub.fleet, self._hub.now - self.age
        if body is not None:
            sample = fleet.figure_reports.base(self.name)
            assert sample is not None
            try:
                figures = merge(sample.figures, decode_packed(body), sample.limits)
            except NeedsFullReport:
                figures = None
            if figures is not None:
                self._pass_on(fleet.figure_reports.apply(self.name, figures, at, self.via))
                return
        self._last = None
        self._pass_on(fleet.apply(self.snapshot, at, self.via))

    def _pass_on(self, change: FleetChange | None) -> None:
        assert change is not None
        self._hub.changes[self.name] = change


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.timeout(0 if SAMPLES > 100_000 else 120)
def test_packed_reports_are_judged_as_if_each_sample_was_judged_in_full(shard: int) -> None:
    groups = -(-SAMPLES // (GPUS * NODES * REPORTS * SHARDS))
    counts = [compare_group(shard * groups + number) for number in range(groups)]
    samples, steady = sum([each for each, _ in counts]), sum([each for _, each in counts])
    print(f"{samples} samples, {steady / samples:.0%} of them judged together, 0 differences")
    assert steady > 0.2 * samples


def compare_group(seed: int) -> tuple[int, int]:
    """Apply the reports of a few nodes; return the number of samples, and of those in columns."""
    rng = Random(seed)
    hub = FewParts(rng.choice((Thresholds(), *THRESHOLDS)))
    batches = FigureBatches(cast(Hub, hub))
    nodes = [PackingNode(hub, f"node-{number}", NODES * seed + number) for number in range(NODES)]
    for node in nodes:  # so that most are not silent at the same time
        node.random.interval_seconds = nodes[0].random.interval_seconds or 1.0
    looks, samples, steady = rng.choice((0.02, 0.2, 1.0)), 0, 0
    listener, publishes = Listener(hub.fleet), rng.choice((0.1, 0.5, 1.0))
    for number in range(REPORTS):
        hub.now = max([node.random.at for node in nodes]) + 2000.0
        bodies = [node.next_report() for node in nodes]
        packed = [node for node, body in zip(nodes, bodies, strict=True) if body is not None]
        rng.shuffle(packed)
        by_node = dict(zip(nodes, bodies, strict=True))
        bodies_sent = [by_node[node] or b"" for node in packed]
        routes = [node.route() for node in packed]
        reports = BatchedReports(bodies_sent, routes, [None] * len(packed))
        rows = dict(zip(packed, batches.apply(reports, MAX_AGE), strict=True))
        for node in nodes:
            if rows.get(node) is None:
                node.apply_alone(by_node[node])
            else:
                steady += GPUS
            is_looked_at = rng.random() < looks
            samples += compare(hub, node, f"seed {seed}, {number}", is_looked_at=is_looked_at)
        if rng.random() < publishes:
            listener.look(f"seed {seed}, {number}")
        if rng.random() < 0.003:
            shift(hub, nodes, rng.choice((-3600.0, 7200.0)))
    return samples, steady


class Listener:
    """Follows the stream of a fleet, and compares it with what the fleet is."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet, self._stream = fleet, StreamDiff(fleet)
        self._known: FleetPayload | None = None

    def look(self, case: str) -> None:
        """Publish all nodes, and compare."""
        fleet, now = self._fleet, self._fleet.latest_report_at + 0.2
        update = self._stream.diff(fleet.node_ids, now)
        if update is not None:
            self._known = after(self._known, update)
        known = self._known
        assert known is not None
        for node_id in fleet.node_ids:
            number, parts = self._stream.numbers[node_id], fleet.node_parts(node_id, now)
            assert parts is not None
            assert known.nodes[number] == node_payload(number, parts, now), case
            assert known.figures[number] == node_figures(number, parts, now), case
        whole = self._stream.full_state()
        assert {row.number: row for row in whole.figures} == known.figures, case
        assert {node.number: node for node in whole.nodes} == known.nodes, case


def compare(hub: FewParts, node: PackingNode, case: str, *, is_looked_at: bool) -> int:
    change, snapshot, reference = hub.changes[node.name], node.snapshot, node.reference
    assert snapshot is not None
    timing = SampleTiming(change.at, snapshot.interval_seconds, change.at - snapshot.taken_at)
    state: Any = hub.fleet.figure_reports.nodes[node.name]
    missing = [each.gpu for each in state.inventory.missing.values()]
    transitions = reference.judge((*snapshot.gpus, *missing), timing, hub.fleet.thresholds)
    assert change.transitions == transitions, case
    assert set(change.occupancy_changed) == reference.occupancy_changed, case
    if is_looked_at:
        assert dict(change.standings) == reference.standings, case
        assert change.snapshot == snapshot, case
        columns = state.standings.current_columns
        if columns is not None:
            marks = columns.columns.marks(np.array([columns.place]))[0].tolist()
            assert [None if mark != mark else mark for mark in marks] == state.standings.marks()
            assert recorded(state.latest) == recorded(snapshot), case
    return len(reference.standings)


def recorded(sample: NodeSample | Snapshot) -> bytes:
    """A sample as the history buffers it."""
    base = sample.base if isinstance(sample, NodeSample) else sample
    buffer = SampleBuffer([each.uuid for each in base.gpus])
    if isinstance(sample, NodeSample):
        buffer.add_sample(base.taken_at, sample)
    else:
        buffer.add(sample.taken_at, sample)
    return buffer.packed[8:]  # without the time


def shift(hub: FewParts, nodes: list[PackingNode], seconds: float) -> None:
    hub.fleet.shift_times(seconds)
    for node in nodes:
        node.random.at += seconds
        node.reference.standings = {
            uuid: shift_standing(each, seconds) for uuid, each in node.reference.standings.items()
        }
