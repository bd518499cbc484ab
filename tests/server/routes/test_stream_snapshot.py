"""`GET /api/v1/stream/snapshot`: the first event of the stream, current or at a past time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.wire.event import Event
from fleet_smi.wire.event_reader import decode_event
from tests.builders import HOUR, MINUTE, gpu, process
from tests.server.routes.sample_history import STEP, get_json, report_history
from tests.server.routes.snapshots import snapshot_now
from tests.server.routes.test_stream import Listening
from tests.server.threaded_hub import ThreadedHub, error_code

PATH = "/api/v1/stream/snapshot"


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ThreadedHub, float]]:
    """A hub with two hours of history, and what the time is."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub, report_history(hub)


def snapshot(hub: ThreadedHub, at: float | None = None) -> Event:
    answer = hub.request("GET", PATH if at is None else f"{PATH}?at={at:.0f}")
    assert answer.status == 200, answer
    return decode_event(answer.body)


def test_of_now_it_is_the_first_event_of_the_stream(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path) as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1)))
        hub.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-x")))
        hub.wait_until_published()
        with Listening(hub) as listening:
            live, snap = listening.next().event, snapshot(hub)
        assert sorted(snap.nodes, key=lambda node: node.number) == sorted(
            live.nodes, key=lambda node: node.number
        )
        assert snap.summary == live.summary
        assert [row.parts for row in snap.figures] == [row.parts for row in live.figures]


def test_of_a_past_moment_it_has_the_states_people_and_figures(
    remembering: tuple[ThreadedHub, float],
) -> None:
    hub, time = remembering
    event = snapshot(hub, time - HOUR - 5 * MINUTE)
    assert event.taken_at == pytest.approx(time - HOUR - 5 * MINUTE, abs=1.0)
    assert event.summary.nodes_reporting == 2
    node = next(each for each in event.nodes if each.name == "gpu01")
    busy, free = (each.verdict for each in node.gpus)
    assert (busy.state, busy.users, busy.reason) == ("busy", ("bob",), None)
    assert busy.since == pytest.approx(time - 1.5 * HOUR, abs=STEP)
    assert (free.state, free.users) == ("free", ())
    row = next(each for each in event.figures if each.number == node.number)
    parts = row.parts[0]
    assert not isinstance(parts, str)
    load, memory, _, power = parts
    assert (load, power) == (80, 500)
    assert memory == pytest.approx(17 * 1024, rel=0.01)


def test_nodes_have_the_numbers_of_the_live_stream(remembering: tuple[ThreadedHub, float]) -> None:
    hub, time = remembering
    with Listening(hub) as listening:
        live = {node.node_id: node.number for node in listening.next().event.nodes}
        past = {node.node_id: node.number for node in snapshot(hub, time - HOUR).nodes}
    assert past == live


def test_a_moment_without_history_is_refused(remembering: tuple[ThreadedHub, float]) -> None:
    hub, time = remembering
    assert error_code(hub.request("GET", f"{PATH}?at={time - 100 * HOUR:.0f}")) == "bad_request"


def test_a_node_can_be_requested_at_the_same_past_time(
    remembering: tuple[ThreadedHub, float],
) -> None:
    hub, time = remembering
    moment = f"at={time - HOUR - 5 * MINUTE:.0f}"
    node = get_json(hub, f"nodes/id-of-gpu01?{moment}")
    assert node == get_json(hub, f"fleet?{moment}")["nodes"][0]
    assert error_code(hub.request("GET", f"/api/v1/nodes/nobody?{moment}")) == "unknown_node"
