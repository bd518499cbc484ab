"""The nodes of the live screen, by the events of a stream, and their arrangement."""

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.stream_payload_builder import fleet_payload
from fleet_smi.terminal.top.arrangement import Arrangement
from fleet_smi.terminal.top.nodes import FleetNodes
from fleet_smi.wire.event import Event, StreamUpdate, encode_event_data
from fleet_smi.wire.event_reader import decode_event
from tests.terminal import samples


def event_of(view: FleetView) -> Event:
    numbers = {node.node_id: at for at, node in enumerate(view.nodes, 1)}
    payload = fleet_payload(view, numbers)
    nodes, figures = tuple(payload.nodes.values()), tuple(payload.figures.values())
    update = StreamUpdate(summary=payload.summary, nodes=nodes, figures=figures)
    return decode_event(encode_event_data(view.taken_at, update))


def change(**parts: object) -> Event:
    empty = StreamUpdate(summary=samples.fleet().summary, nodes=(), figures=())
    data = encode_event_data(samples.NOW + 1, empty)
    known = decode_event(data)
    return Event(taken_at=known.taken_at, summary=known.summary, **parts)  # type: ignore[arg-type]


def test_a_stream_shows_what_a_view_shows() -> None:
    view = samples.fleet(samples.eight(), samples.sliced())
    fleet = FleetNodes()
    fleet.apply_event("fleet", event_of(view))
    (first, second) = fleet
    assert first.states == tuple(gpu.verdict.state for gpu in view.nodes[0].gpus)
    assert [gpu.busy_percent for gpu in second.view.gpus] == [None, 0]
    assert fleet.power_watts == sum(
        round(gpu.power_watts or 0) for node in view.nodes for gpu in node.gpus
    )


def test_figures_alone_do_not_change_the_roster() -> None:
    fleet = FleetNodes()
    event = event_of(samples.fleet(samples.eight()))
    fleet.apply_event("fleet", event)
    before, roster = fleet.get("id-gpu01"), fleet.roster_version
    fleet.apply_event("change", change(figures=event.figures))
    after = fleet.get("id-gpu01")
    assert before is not None and after is not None
    assert after is not before
    assert after.facts is before.facts
    assert fleet.roster_version == roster


def test_removed_nodes_disappear_and_a_whole_fleet_replaces_all() -> None:
    fleet = FleetNodes()
    fleet.apply_event("fleet", event_of(samples.fleet(samples.eight(), samples.mixed())))
    fleet.apply_event("change", change(removed=(1,)))
    assert [item.name for item in fleet] == ["desk"]
    fleet.apply_event("fleet", event_of(samples.fleet(samples.sliced())))
    assert [item.name for item in fleet] == ["mig01"]


def test_a_filter_by_figures_follows_them() -> None:
    fleet, arrangement = FleetNodes(), Arrangement()
    arrangement.set_filter("load>50")
    busy = samples.node("a", samples.busy_gpu(0, samples.process("alice")))
    idle = samples.node("a", samples.busy_gpu(0, samples.process("alice"), busy_percent=1.0))
    for node, shown in ((busy, ["id-a"]), (idle, []), (busy, ["id-a"])):
        fleet.apply_event("fleet", event_of(samples.fleet(node)))
        arrangement.update(fleet)
        assert arrangement.node_ids == shown


def test_every_order_puts_the_expected_node_first() -> None:
    calm = samples.node("b", samples.gpu(0, samples.verdict("free")))
    hot = samples.node("c", samples.busy_gpu(0, samples.process("alice")))
    lost = samples.node("a", samples.lost_gpu(0))
    fleet, arrangement = FleetNodes(), Arrangement()
    fleet.apply_view(samples.fleet(calm, hot, lost))
    expected = {"name": "a", "attention": "a", "free": "b", "load": "c", "memory": "c"}
    for sort, first in (expected | {"power": "c", "temperature": "c"}).items():
        arrangement.set_sort(sort)
        arrangement.update(fleet)
        assert arrangement.node_ids[0] == f"id-{first}", sort


def test_a_filter_of_a_large_fleet_is_matched_in_slices_and_takes_effect_at_the_end() -> None:
    free = samples.gpu(0, samples.verdict("free"))
    nodes = [samples.node(f"gpu{number:03d}", free) for number in range(250)]
    fleet, arrangement = FleetNodes(), Arrangement()
    fleet.apply_view(samples.fleet(*nodes))
    arrangement.update(fleet)
    arrangement.set_filter("node:gpu12*")
    arrangement.update(fleet)
    # A key costs a slice; until all are matched, the list is the one of before.
    assert (arrangement.is_pending, len(arrangement.node_ids)) == (True, 250)
    # Another letter begins again.
    arrangement.set_filter("node:gpu123")
    arrangement.update(fleet)
    assert arrangement.is_pending
    arrangement.update(fleet)
    arrangement.update(fleet)
    assert (arrangement.is_pending, arrangement.matching_gpus) == (False, 1)
    assert arrangement.node_ids == ["id-gpu123"]
    arrangement.set_filter("")
    arrangement.update(fleet)
    assert (arrangement.is_pending, len(arrangement.node_ids)) == (False, 250)
