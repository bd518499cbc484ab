"""`fleet-smi simulate`: a load test that prints totals at the end."""

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import wait_until
from tests.simulation.recording_hub import (
    JOIN_TOKEN,
    RecordingHub,
    listener_url,
    open_listener,
    serve_hub_in_thread,
)


def test_it_reports_for_the_given_time_and_prints_totals() -> None:
    hub = RecordingHub()
    with serve_hub_in_thread(hub) as url:
        few = ("--nodes", "3", "--gpus", "2", "--interval", "0.1", "--for", "0.5")
        done = run_fleet_smi("simulate", "--to", url, *few, env=os.environ)
    assert done.returncode == 0, done.stderr
    count = len(hub.reports)
    assert f"total: {count} sent, {count} acknowledged, 0 failed" in done.stdout
    assert "p99" in done.stdout
    assert {len(report.snapshots[0].gpus) for report in hub.reports} == {2}
    assert len(hub.sequences) == 3


def test_nodes_join_with_the_join_token() -> None:
    hub = RecordingHub()
    hub.open_to_all = False
    with serve_hub_in_thread(hub) as url:
        few = ("--nodes", "3", "--interval", "0.1", "--for", "0.3")
        done = run_fleet_smi("simulate", "--to", url, *few, "--join", JOIN_TOKEN, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert len(hub.issued_tokens) == 3


def test_a_refused_token_ends_it_with_one_line() -> None:
    hub = RecordingHub()
    hub.open_to_all = False
    with serve_hub_in_thread(hub) as url:
        done = run_fleet_smi(
            "simulate", "--to", url, "--nodes", "3", "--token", "no", env=os.environ
        )
    assert_error_line(done, 3, "unknown token")


def test_a_lost_report_exits_with_1() -> None:
    hub = RecordingHub()
    hub.statuses = [413]
    with serve_hub_in_thread(hub) as url:
        few = ("--nodes", "1", "--interval", "0.1", "--for", "0.3")
        done = run_fleet_smi("simulate", "--to", url, *few, env=os.environ)
    assert done.returncode == 1
    assert "1 failed" in done.stdout


def test_an_unreachable_hub_exits_with_3() -> None:
    with open_listener() as listener:
        url = listener_url(listener)
    done = run_fleet_smi("simulate", "--to", url, "--nodes", "2", env=os.environ)
    assert_error_line(done, 3, "connection refused")


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--nodes", "0"), "--nodes 0"),
        (("--gpus", "65"), "--gpus 65"),
        (("--interval", "0"), "--interval 0"),
        (("--interval", "nan"), "--interval nan"),
        (("--for", "-1"), "--for -1"),
    ],
)
def test_invalid_numbers_are_refused(flags: tuple[str, str], message: str) -> None:
    done = run_fleet_smi("simulate", "--to", "http://127.0.0.1:1", *flags, env=os.environ)
    assert_error_line(done, 2, message)


def test_an_interrupt_prints_totals() -> None:
    hub = RecordingHub()
    with serve_hub_in_thread(hub) as url:
        line = [sys.executable, "-m", "fleet_smi", "simulate", "--to", url, "--nodes", "2"]
        program = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(hub.reports) > 0)
        program.send_signal(signal.SIGINT)
        output, _ = program.communicate(timeout=60)
    assert output.startswith("total: ")
    assert program.returncode == 0
