"""The stream diff: all changes applied to the first state give the last."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.stream_diff import StreamDiff
from fleet_smi.model.stream_payload import FleetPayload
from fleet_smi.model.views import summarize_nodes
from fleet_smi.wire.event import StreamUpdate, encode_event
from fleet_smi.wire.event_reader import apply_event, decode_event
from tests import golden
from tests.builders import NOON, gpu, instance, process, snapshot

GOLDEN = Path(__file__).parent / "golden"


def after(known: FleetPayload | None, sent: StreamUpdate) -> FleetPayload:
    """What a listener knows after one more event, through its bytes."""
    frame = encode_event("change", "a-1", NOON, sent)
    return apply_event(known, decode_event(frame.split(b"data: ")[1].strip()))


def test_a_new_node_is_sent_whole_and_then_only_its_changes() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    fleet.apply(snapshot(gpu(0), gpu(1)), NOON)
    first = sent.diff(["id-of-gpu01"], NOON)
    assert first is not None
    assert [node.name for node in first.nodes] == ["gpu01"]
    fleet.apply(snapshot(gpu(0, power_watts=90.0), gpu(1), taken_at=NOON + 1), NOON + 1)
    second = sent.diff(["id-of-gpu01"], NOON + 1)
    assert second is not None
    assert not second.nodes
    assert second.figures[0].parts == (("=", "=", "=", 90), "=")


def test_the_wire_shape_is_as_documented() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    labels = {"rack": "r1"}
    mine = gpu(0, processes=(process(),), busy_percent=96.0)
    split = gpu(1, mig_mode=True, instances=(instance(),))
    fleet.apply(snapshot(mine, split, labels=labels), NOON)
    first = sent.diff(["id-of-gpu01"], NOON)
    warmer = replace(mine, temperature_celsius=None, power_watts=300.0)
    fleet.apply(snapshot(warmer, split, labels=labels, taken_at=NOON + 1), NOON + 1)
    second = sent.diff(["id-of-gpu01"], NOON + 1)
    assert first and second
    frames = encode_event("fleet", "a-1", NOON, first), encode_event("change", "a-2", NOON, second)
    golden.assert_matches_golden(GOLDEN / "events.txt", b"".join(frames).decode())


def test_no_change_gives_no_update() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    fleet.apply(snapshot(gpu()), NOON)
    assert sent.diff(["id-of-gpu01"], NOON) is not None
    assert sent.diff(["id-of-gpu01", "unknown"], NOON + 0.5) is None


def test_a_state_change_is_sent_with_the_summary() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    fleet.apply(snapshot(gpu()), NOON)
    sent.diff(["id-of-gpu01"], NOON)
    taken = gpu(processes=(process(),), busy_percent=90.0)
    fleet.apply(snapshot(taken, taken_at=NOON + 1), NOON + 1)
    turn = sent.diff(["id-of-gpu01"], NOON + 1)
    assert turn is not None
    assert (turn.summary.free, turn.summary.busy) == (0, 1)
    assert turn.nodes[0].gpus[0].verdict.users == ("alice",)


def test_a_silent_node_is_sent_as_silent_with_its_last_figures() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    fleet.apply(snapshot(gpu()), NOON)
    sent.diff(["id-of-gpu01"], NOON)
    silence = sent.diff(["id-of-gpu01"], NOON + 60)
    assert silence is not None
    assert silence.nodes[0].silent
    assert (silence.summary.unknown, silence.summary.nodes_reporting) == (1, 0)
    assert silence.figures[0].reported_at == NOON
    assert sent.diff(["id-of-gpu01"], NOON + 61) is None


def test_a_removed_node_that_returns_has_another_number() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    fleet.apply(snapshot(gpu()), NOON)
    first = sent.diff(["id-of-gpu01"], NOON)
    fleet.remove("id-of-gpu01")
    gone = sent.diff(["id-of-gpu01"], NOON)
    fleet.apply(snapshot(gpu(), taken_at=NOON + 1), NOON + 1)
    back = sent.diff(["id-of-gpu01"], NOON + 1)
    assert first and gone and back
    assert gone.removed == [first.nodes[0].number]
    assert back.nodes[0].number not in gone.removed


def test_command_lines_are_never_in_the_stream() -> None:
    fleet = FleetState()
    sent = StreamDiff(fleet)
    mine = process(command="python train.py --password=hunter2", name="secret-name")
    fleet.apply(snapshot(gpu(processes=(mine,), instances=(instance(processes=(mine,)),))), NOON)
    sent.diff(["id-of-gpu01"], NOON)
    frame = encode_event("fleet", "a-1", NOON, sent.full_state())
    assert b"hunter2" not in frame
    assert b"secret-name" not in frame


cards = st.builds(
    gpu,
    st.integers(0, 3),
    busy_percent=st.none() | st.floats(0, 100),
    power_watts=st.none() | st.sampled_from([70.0, 71.0, 300.0]),
    memory_used_bytes=st.none() | st.integers(0, 80 << 30),
    processes=st.sampled_from([None, (), (process(),), (process(), process(2, "bob"))]),
    instances=st.sampled_from([(), (instance(1),), (instance(1), instance(2))]),
)
steps = st.fixed_dictionaries(
    {
        "node": st.sampled_from(["gpu01", "gpu02", "gpu03"]),
        "gpus": st.lists(cards, max_size=3),
        "pause": st.sampled_from([0.4, 1.0, 30.0]),
        "remove": st.booleans(),
        "tell": st.booleans(),
    }
)


@given(st.lists(steps, min_size=1, max_size=12))
def test_applying_all_changes_to_the_first_state_gives_the_last(
    history: list[dict[str, Any]],
) -> None:
    fleet, at = FleetState(), NOON
    sent, known = StreamDiff(fleet), None
    everybody = ["id-of-gpu01", "id-of-gpu02", "id-of-gpu03"]
    for step in history:
        at += step["pause"]
        node_id = f"id-of-{step['node']}"
        if step["remove"]:
            fleet.remove(node_id)
        else:
            fleet.apply(snapshot(*step["gpus"], node=step["node"], taken_at=at), at)
        if step["tell"] and (change := sent.diff(everybody, at)):
            known = after(known, change)
    if known is not None:
        assert known == after(None, sent.full_state())
        assert set(known.nodes) == set(known.figures)
        assert known.summary == summarize_nodes(known.nodes.values())
