"""Hostile process and GPU names reach terminal, JSON and CSV as sanitised text."""

import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import run_fleet_smi, run_gpus
from tests.machines import UserProcesses
from tests.sim.fixtures import Simulated

HOSTILE = {
    "ansi codes": b"\x1b[2J\x1b[31mboo\x1b]0;title\x07",
    "control characters": b"a\x00b\rc\nd\x08e\x7ff",
    "a hundred kilobytes": b"x" * 100_000,
    "invalid utf-8": b"\xff\xfe\x80 train",
    "right to left": "\u202ecod.exe\u2066".encode(),
    "markup": b"<img src=x onerror=alert(1)>",
    "a formula": b"=cmd|' /C calc'!A0",
    "wide characters": ("訓練" * 400).encode(),
}


@pytest.fixture
def env(
    request: pytest.FixtureRequest, people: UserProcesses, simulated: Simulated
) -> dict[str, str]:
    """A machine with a GPU process that has a hostile command line."""
    arguments = [part or b"-" for part in HOSTILE[request.param].split(b"\0")]
    pid = people.start(sys.executable, "-c", "import signal; signal.pause()", *arguments)
    process = SimProcess(pid=pid, memory=4 * GIB)
    return simulated(Scenario(gpus=[SimGpu(memory_used=5 * GIB, processes=[process])]))


hostile = pytest.mark.parametrize("env", HOSTILE, indirect=True)


def has_control_characters(text: str) -> bool:
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in marks for c in text)


@hostile
def test_the_terminal_gets_no_control_characters(env: dict[str, str]) -> None:
    done = run_fleet_smi("-p", "-v", env=env | {"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert not has_control_characters(done.stdout)
    assert len(done.stdout.splitlines()) <= 8


@hostile
def test_json_has_sanitised_text_of_bounded_length(env: dict[str, str]) -> None:
    (gpu,) = run_gpus(env=env)
    command = gpu["processes"][0]["command"]
    assert not has_control_characters(command)
    assert len(command) <= 4096


@hostile
def test_csv_keeps_its_columns_and_has_no_formula(env: dict[str, str]) -> None:
    done = run_fleet_smi("--csv", env=env)
    header, row = csv.reader(io.StringIO(done.stdout))
    assert len(header) == len(row)
    assert not any(cell.startswith(("=", "+", "@", "-")) for cell in row)


def test_a_hostile_program_name_is_sanitised(
    people: UserProcesses, simulated: Simulated, tmp_path: Path
) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = tmp_path / "evil\x1b[31m) R 1 1"
    shutil.copy(sleep, program)
    process = SimProcess(pid=people.start(str(program), "600"), memory=GIB)
    env = simulated(Scenario(gpus=[SimGpu(memory_used=2 * GIB, processes=[process])]))
    (gpu,) = run_gpus(env=env)
    assert gpu["processes"][0]["user"] is not None
    assert gpu["processes"][0]["started_at"] is not None
    assert not has_control_characters(gpu["processes"][0]["name"])


def test_a_hostile_gpu_name_is_shown_as_text(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(name="H100 \x1b[31m\x9b2J evil")]))
    done = run_fleet_smi(env=env)
    assert "evil" in done.stdout
    assert not has_control_characters(done.stdout)


def test_a_closed_pipe_is_not_an_error(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu() for _ in range(64)]))
    script = f'"{sys.executable}" -m fleet_smi --json | head -c 1'
    done = subprocess.run(
        ["sh", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    assert (done.stdout, done.stderr) == ("{", "")
