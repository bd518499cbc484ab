"""What the stream sends of a node is the same as if it had been made from a full view each time."""

from random import Random

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.via import Via
from fleet_smi.hub.stream_diff import StreamDiff
from fleet_smi.model.stream_payload import DeviceFigures
from fleet_smi.model.stream_payload_builder import node_figures, node_payload
from fleet_smi.model.units import GIB
from fleet_smi.model.views import NodeParts
from tests.builders import NOON, gpu, process, snapshot
from tests.fleet.random_reports import RandomNode
from tests.fleet.test_steady_samples import NODE, send

NODES, REPORTS_PER_NODE = 24, 250


class CountedFleet(FleetState):
    """Counts how often a node was made into parts."""

    parts_made = 0

    def node_parts(self, node_id: str, now: float) -> NodeParts | None:
        self.parts_made += 1
        return super().node_parts(node_id, now)


def test_random_reports_are_sent_as_if_each_was_made_in_full() -> None:
    published = made = 0
    for seed in range(NODES):
        node, rng = RandomNode(seed), Random(seed)
        fleet, reference = CountedFleet(node.thresholds), FleetState(node.thresholds)
        stream, publishes = StreamDiff(fleet), rng.choice((0.1, 0.5, 1.0))
        for report in range(REPORTS_PER_NODE):
            taken = node.next_snapshot()
            send(fleet, taken, node.at, as_figures=True)
            reference.apply(taken, node.at)
            if rng.random() < 0.01:
                change_facts(rng, fleet, reference, node.at)
            if rng.random() < publishes:
                # Never before the latest sample: a hub's clock does not go back.
                now = fleet._nodes[NODE].at + rng.choice((0.0, *[0.2] * 18, 200.0))
                stream.diff([NODE], now)
                assert_is_sent(stream, reference, now, f"seed {seed}, report {report}")
                published += 1
        made += fleet.parts_made
    print(f"{published} published, {made} of them made from their parts")
    # Many of these nodes have instances, or change all the time; hardly any real one does.
    assert made < 0.8 * published


def change_facts(rng: Random, fleet: FleetState, reference: FleetState, at: float) -> None:
    """Change something that no report has."""
    via, name = Via("ssh", "gpu01"), f"name-{rng.random()}"
    change = rng.randint(0, 2)
    for each in (fleet, reference):
        if change == 0:
            each.label(NODE, name, {"rack": name})
        elif change == 1:
            each.routes.add(via, each._nodes[NODE])
            each.record_failure(via, name, at)
        else:
            each.shift_times(3.0)


def assert_is_sent(stream: StreamDiff, reference: FleetState, now: float, case: str) -> None:
    sent, parts = stream.full_state(), reference.node_parts(NODE, now)
    assert parts is not None
    assert sent.nodes == (node_payload(1, parts, now),), case
    assert sent.figures == (node_figures(1, parts, now),), case
    states = [verdict.state for _, verdict in parts.gpus]
    assert (sent.summary.free, sent.summary.busy) == (states.count("free"), states.count("busy"))


def test_a_note_on_memory_appears_without_a_change_of_state() -> None:
    fleet = FleetState()
    stream = StreamDiff(fleet)
    mine = process(gpu_memory_bytes=20 * GIB)
    for second in range(30):
        used = (20 if second < 20 else 40) * GIB
        card = gpu(processes=(mine,), busy_percent=90.0, memory_used_bytes=used)
        taken = snapshot(card, taken_at=NOON + second, sequence=second, run_id="run-1")
        send(fleet, taken, NOON + second, as_figures=True)
        stream.diff([NODE], NOON + second)
    assert stream.full_state().nodes[0].gpus[0].verdict.notes == ("unaccounted",)


def test_gpus_that_are_not_reported_in_order_are_sent_sorted_by_index() -> None:
    fleet = FleetState()
    stream = StreamDiff(fleet)
    for second in range(9):
        cards = [gpu(index, busy_percent=float(10 * index + second)) for index in (2, 0, 1)]
        taken = snapshot(*cards, taken_at=NOON + second, sequence=second, run_id="run-1")
        send(fleet, taken, NOON + second, as_figures=True)
        stream.diff([NODE], NOON + second)
    sent = stream.full_state()
    assert [each.index for each in sent.nodes[0].gpus] == [0, 1, 2]
    rows = [row for row in sent.figures[0].parts if isinstance(row, DeviceFigures)]
    assert [row.busy_percent for row in rows] == [8, 18, 28]
