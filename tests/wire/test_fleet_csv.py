"""CSV encoding of the fleet."""

import csv
import io

import pytest
from hypothesis import given

from fleet_smi.model.figures import GPU_FIGURES
from fleet_smi.model.fleet import FleetView
from fleet_smi.wire.fleet_csv import COLUMNS, fleet_csv
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import fleet, gpu, node, process, verdict

# Spreadsheets refer to columns by position: a change to this list breaks them.
PUBLISHED_COLUMNS = (
    "node,node_id,age_seconds,silent,index,uuid,parent_uuid,profile,vendor,name,pci_bus_id,state,"
    "reason,notes,since_epoch_seconds,idle_seconds,users,process_count,memory_used_bytes,"
    "memory_total_bytes,memory_shared,busy_percent,memory_busy_percent,encoder_percent,"
    "decoder_percent,temperature_celsius,fan_percent,power_watts,power_limit_watts,sm_clock_mhz,"
    "sm_clock_max_mhz,memory_clock_mhz,memory_clock_max_mhz,performance_state,ecc_corrected,"
    "ecc_uncorrected,pcie_generation,pcie_generation_max,pcie_width,pcie_width_max,"
    "pcie_rx_bytes_per_second,pcie_tx_bytes_per_second,persistence,compute_mode,mig_mode,asleep,"
    "throttle_reasons,fault,driver_version,memory_temperature_celsius,energy_joules"
)


def rows(view: FleetView) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(fleet_csv(view), newline="")))


def test_published_columns_keep_their_position_and_new_ones_come_after_them() -> None:
    assert ",".join(COLUMNS).startswith(PUBLISHED_COLUMNS)
    assert {figure.field for figure in GPU_FIGURES} <= set(COLUMNS)


@given(FLEET)
def test_any_fleet_reads_back_from_csv_with_a_cell_for_every_column(view: FleetView) -> None:
    table = list(csv.reader(io.StringIO(fleet_csv(view), newline="")))
    gpus = [gpu for node in view.nodes for gpu in node.gpus]
    assert table[0] == list(COLUMNS)
    assert len(table) == 1 + len(gpus) + sum(len(gpu.instances) for gpu in gpus)
    assert {len(row) for row in table} == {len(COLUMNS)}


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
