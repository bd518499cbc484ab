"""The fleet for other programs: JSON and CSV."""

import csv
import io
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.people import Person, people_in_view
from fleet_smi.wire.json import COLUMNS, fleet_csv, fleet_json, people_json, to_json
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import fleet, gpu, node, process, verdict

thorough = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def rows(view: FleetView) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(fleet_csv(view), newline="")))


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


def test_pretty_json_is_the_same_json_in_many_lines() -> None:
    view = samples.lab()
    pretty = fleet_json(view, pretty=True)
    assert b"\n" in pretty and b"\n" not in fleet_json(view)
    assert json.loads(pretty) == json.loads(fleet_json(view))


@thorough
@given(FLEET)
def test_any_fleet_reads_back_from_json(view: FleetView) -> None:
    assert msgspec.json.decode(fleet_json(view), type=FleetView) == view


def test_people_read_back_from_json() -> None:
    everyone = people_in_view(samples.lab())
    read = msgspec.json.decode(people_json(everyone), type=dict[str, tuple[Person, ...]])
    assert read == {"people": everyone}


def test_any_struct_can_be_written() -> None:
    assert json.loads(to_json(verdict("free", "nobody on it")))["state"] == "free"


@thorough
@given(FLEET)
def test_any_fleet_reads_back_from_csv_with_a_cell_for_every_column(view: FleetView) -> None:
    table = list(csv.reader(io.StringIO(fleet_csv(view), newline="")))
    gpus = [gpu for node in view.nodes for gpu in node.gpus]
    assert table[0] == list(COLUMNS)
    assert len(table) == 1 + len(gpus) + sum(len(gpu.instances) for gpu in gpus)
    assert {len(row) for row in table} == {len(COLUMNS)}


@thorough
@given(FLEET)
def test_no_cell_is_a_formula(view: FleetView) -> None:
    for row in rows(view):
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@", "\t"))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(1)", "\tx"])
def test_a_name_that_looks_like_a_formula_is_quoted(name: str) -> None:
    assert rows(fleet(node(name, gpu(0, verdict("free")))))[0]["node"] == f"'{name}"


def test_unknown_is_an_empty_cell_and_zero_is_zero() -> None:
    (row,) = rows(fleet(node("n", gpu(0, verdict("free"), None, busy_percent=0.0, processes=None))))
    assert row["memory_used_bytes"] == "" and row["users"] == "" and row["process_count"] == ""
    assert float(row["busy_percent"]) == 0.0
    (row,) = rows(fleet(node("n", gpu(0, verdict("free"), 0.0))))
    assert row["memory_used_bytes"] == "0" and row["process_count"] == "0"


def test_an_instance_is_a_row_with_its_parent_and_without_the_parent_s_figures() -> None:
    parent, child, *_ = rows(fleet(samples.sliced()))
    assert parent["parent_uuid"] == "" and parent["power_watts"] == "180.0"
    assert child["parent_uuid"] == parent["uuid"] and child["profile"] == "3g.20gb"
    assert child["users"] == "alice" and child["power_watts"] == ""


def test_lines_end_as_rfc_4180_asks_and_commas_are_quoted() -> None:
    shared = samples.busy_gpu(0, process("bob", 1.0, pid=1), process("alice", 2.0, pid=2))
    text = fleet_csv(fleet(node("n", shared)))
    assert text.count("\r\n") == 2 and text.endswith("\r\n")
    assert '"alice, bob"' in text
