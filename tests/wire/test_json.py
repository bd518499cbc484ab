"""JSON encoding of the fleet and its users."""

import json

import msgspec
from hypothesis import given

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.people import PeopleView, view_people
from fleet_smi.wire.json import fleet_json, to_json
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import fleet, gpu, node, verdict


def test_json_has_the_shape_that_is_documented() -> None:
    read = json.loads(fleet_json(samples.lab()))
    assert {"taken_at", "summary", "nodes"} == read.keys()
    assert read["summary"]["free"] == 4 and read["summary"]["nodes_reporting"] == 5
    first = read["nodes"][0]
    assert {"name", "node_id", "age_seconds", "runs", "gpus"} <= first.keys()
    assert {"state", "reason", "since"} <= first["gpus"][0]["verdict"].keys()
    assert first["gpus"][0]["processes"][0]["user"] == "alice"


def test_unknown_is_null_and_zero_is_zero_in_json() -> None:
    view = fleet(node("n", gpu(0, verdict("free"), None, busy_percent=0.0, processes=None)))
    (read,) = json.loads(fleet_json(view))["nodes"][0]["gpus"]
    assert read["memory_used_bytes"] is None and read["processes"] is None
    assert read["busy_percent"] == 0.0


def test_pretty_json_is_the_same_json_over_several_lines() -> None:
    view = samples.lab()
    pretty = fleet_json(view, pretty=True)
    assert b"\n" in pretty and b"\n" not in fleet_json(view)
    assert json.loads(pretty) == json.loads(fleet_json(view))


@given(FLEET)
def test_any_fleet_reads_back_from_json(view: FleetView) -> None:
    assert msgspec.json.decode(fleet_json(view), type=FleetView) == view


def test_people_read_back_from_json() -> None:
    for user in (None, "alice"):
        people = view_people(samples.lab(), user)
        assert people.people
        assert bool(people.holdings) == (user is not None)
        assert msgspec.json.decode(to_json(people), type=PeopleView) == people


def test_any_struct_can_be_encoded() -> None:
    assert json.loads(to_json(verdict("free", "nobody on it")))["state"] == "free"
