"""The fleet as gpustat prints it, dated by the clock of the reader, and decoded again."""

import json
from datetime import UTC, datetime

from msgspec.structs import replace

from fleet_smi.compat.gpustat import table
from fleet_smi.compat.gpustat.codec import GpustatOptions, decode_gpustat
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.units import UNKNOWN
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import status
from tests.builders import NOON, gpu, snapshot


def utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def fleet_of(*snapshots: Snapshot, age_seconds: float = 0.0) -> FleetView:
    fleet = FleetState()
    for each in snapshots:
        fleet.apply(each, NOON - age_seconds)
    return fleet.view(NOON)


def test_the_header_has_the_time_of_the_report_by_the_viewers_clock() -> None:
    wrong_clock = replace(snapshot(gpu(name="A100")), taken_at=NOON + 3600, interval_seconds=60.0)
    view = fleet_of(wrong_clock, age_seconds=5.0)
    assert table.render(view, GpustatOptions(), utc).startswith(
        "gpu01    Sun Jun 15 15:06:35 2025\n"
    )
    assert json.loads(table.render_json(view, utc))["query_time"] == "2025-06-15T15:06:35"


def test_json_of_several_nodes_is_a_list_without_those_that_are_silent() -> None:
    nodes = [snapshot(gpu(uuid=f"GPU-{name}"), node=name) for name in ("a", "b")]
    silent = snapshot(gpu(uuid="GPU-c"), node="c", interval_seconds=0.1)
    output = json.loads(table.render_json(fleet_of(*nodes, silent, age_seconds=1.0), utc))
    assert [each["hostname"] for each in output] == ["a", "b"]


def test_a_pid_that_gpustat_did_not_print_is_shown_as_unknown() -> None:
    (output,) = decode_gpustat(
        b"[0] A100 | 71'C,  97 % | 13578 / 24576 MB | alice(11264M)\n", "cml10", NOON
    )
    assert isinstance(output, Snapshot)
    screen = status.render(fleet_of(output), 100, Paint(enabled=False), processes=True)
    (line,) = [line for line in screen.splitlines() if "11.0 GiB" in line and "alice" in line]
    assert line.split()[:2] == [UNKNOWN, "alice"]
