"""The benchmark of the hub under load: parsing, summary and budgets."""

import os
import time
from dataclasses import replace

import pytest

from bench import hub, load_windows
from bench.hub_peers import UVICORN, peer_label
from bench.load_windows import LoadWindow, parse_bodies, parse_load_line
from bench.peers import NotAvailable
from bench.report import MeasurementSeries, check_budget
from fleet_smi.cli.commands.simulate import format_counters
from fleet_smi.simulation.counters import LoadCounters

WINDOW = LoadWindow(
    seconds=5.0,
    acknowledged=10_000,
    failed=0,
    p99_milliseconds=12.0,
    server_cpu_seconds=0.6,
    load_cpu_seconds=0.9,
    body_bytes=480.0,
    compact_percent=98.5,
)
RUN = hub.HubRun(
    nodes=2000,
    windows=(WINDOW, WINDOW),
    hub_bytes=100 << 20,
    listener_bytes_per_second=20_480.0,
    delays=(0.01, 0.02, 0.4),
)


def test_the_output_of_the_load_generator_is_parsed() -> None:
    tally = LoadCounters(sent=10_000, late=3, failed=2, compact=9_900, sent_bytes=5_000_000)
    for _ in range(100):
        tally.acknowledge(0.01)
    line = f"  2000 reports/s: {format_counters(tally)}\n"
    acknowledged, failed, p99 = parse_load_line(line)
    assert parse_bodies(line) == (500.0, 99.0)
    assert (acknowledged, failed) == (100, 2)
    assert p99 == pytest.approx(10.0, rel=0.06)


@pytest.mark.parametrize("line", ["", "0 reports/s: 5 sent, 0 acknowledged, 5 failed"])
def test_a_load_that_does_not_get_through_cannot_be_measured(line: str) -> None:
    with pytest.raises(NotAvailable, match="no report came through"):
        parse_load_line(line)


def test_the_description_has_rate_cpu_share_and_delays() -> None:
    text = hub.describe_run(RUN)
    assert "2000 reports/s acknowledged, 0 failed" in text
    assert "0.12 of a core, 100 MiB resident" in text
    assert "20 KiB/s each" in text
    assert "480 bytes per report, 98.5 % compact" in text
    assert "20 ms, p99" in text
    assert "at most 400 ms" in text


def test_a_hub_that_falls_behind_is_reported() -> None:
    slow = replace(RUN, windows=(replace(WINDOW, acknowledged=4_000),), delays=())
    assert hub.describe_run(slow).startswith("THE HUB DID NOT KEEP UP: 800 of 2,000 reports/s")


def test_the_hub_is_judged_by_a_bare_uvicorn_application_and_by_its_own_growth() -> None:
    larger = replace(RUN, nodes=5000, windows=(replace(WINDOW, server_cpu_seconds=0.9),))
    bare = [
        MeasurementSeries(label=peer_label(UVICORN, run.nodes), values=(50e-6, 55e-6))
        for run in (RUN, larger)
    ]
    measured = hub.summarize([RUN, larger], bare, ["note"])
    by_label = {series.label: series for series in measured.cpu}
    results = {
        (pair.ours, pair.theirs): check_budget(pair, by_label) for pair in measured.cpu_pairs
    }
    beside = results[(RUN.label, peer_label(UVICORN, RUN.nodes))]
    assert beside.minimum_ratio == pytest.approx(1.2)
    assert beside.outcome == "missed"
    grown = results[(larger.label, RUN.label)]
    assert grown.minimum_ratio == pytest.approx(1.5)
    assert measured.latency[0].minimum == pytest.approx(0.012)
    assert measured.notes.endswith("note")


def test_the_largest_hub_says_how_many_nodes_fill_a_core() -> None:
    assert hub.full_core_nodes([RUN]) == 15_000


def test_the_cpu_of_a_process_is_what_the_kernel_counts() -> None:
    before = load_windows.cpu_seconds(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert load_windows.cpu_seconds(os.getpid()) - before >= 0.05
