"""What the stream sends of a node is the same as if it had been made from a full view each time."""

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.stream_diff import StreamDiff
from fleet_smi.model.stream_payload import DeviceFigures
from fleet_smi.model.stream_payload_builder import node_figures, node_payload
from fleet_smi.model.units import GIB
from tests.builders import NOON, gpu, process, snapshot
from tests.fleet.test_steady_samples import NODE, send
from tests.hub.twin_fleets import all_twins


def test_random_reports_are_sent_as_if_each_was_made_in_full() -> None:
    published = made = 0
    for twins in all_twins():
        stream = StreamDiff(twins.fleet)
        for now, case in twins.moments():
            stream.diff([NODE], now)
            assert_is_sent(stream, twins.reference, now, case)
            published += 1
        made += twins.fleet.parts_made
    print(f"{published} published, {made} of them made from their parts")
    # Many of these nodes have instances, or change all the time; hardly any real one does.
    assert made < 0.8 * published


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
