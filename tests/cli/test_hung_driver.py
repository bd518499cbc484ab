"""Driver calls that never return: commands finish in time and report the fault."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sim.scenario import Scenario, SimGpu
from tests.cli.program import run_fleet_smi, run_json
from tests.machines import wait_until
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.sim.fixtures import Simulated

SOON = {"FLEET_SMI_NODE_DRIVER_TIMEOUT": "4s", "FLEET_SMI_NODE_DRIVER_INIT_TIMEOUT": "4s"}
"""Deadlines for tests that wait until the driver counts as hung."""

HUNG = {
    "nvmlInit": Scenario(gpus=[SimGpu(), SimGpu()], faults={"nvmlInit": "never"}),
    "a field": Scenario(gpus=[SimGpu(), SimGpu(faults={"PowerUsage": "never"})]),
    "a handle": Scenario(gpus=[SimGpu(faults={"HandleByIndex": "never"}), SimGpu()]),
}


@pytest.mark.parametrize("where", HUNG)
def test_status_finishes_while_the_driver_hangs_and_names_the_fault(
    simulated: Simulated, tmp_path: Path, where: str
) -> None:
    write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0", "0000:11:00.0")
    env = simulated(HUNG[where]) | SOON | {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root")}
    done = run_fleet_smi(env=env)
    assert done.returncode == 0
    rows = [line for line in done.stdout.splitlines() if " broken " in line]
    assert len(rows) == 2
    assert all("driver not answering" in row for row in rows)


def test_free_offers_none_of_its_gpus(simulated: Simulated, tmp_path: Path) -> None:
    write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0", "0000:11:00.0")
    env = simulated(HUNG["a field"]) | SOON | {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root")}
    done = run_fleet_smi("free", "-n", "1", env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no GPU is free" in done.stderr


def test_the_fault_is_named_without_a_gpu_list_from_the_kernel(simulated: Simulated) -> None:
    done = run_fleet_smi(env=simulated(HUNG["nvmlInit"]) | SOON)
    assert done.returncode == 0
    assert "driver not answering" in done.stdout


def test_gpus_read_before_the_hang_are_still_listed(simulated: Simulated) -> None:
    machine = [SimGpu(uuid="GPU-a"), SimGpu(faults={"PowerUsage": "never"}), SimGpu()]
    (node,) = run_json(env=simulated(Scenario(gpus=machine)) | SOON)["nodes"]
    assert [gpu["verdict"]["state"] for gpu in node["gpus"]] == ["broken"] * 3
    assert node["gpus"][0]["uuid"] == "GPU-a"
    assert "driver not answering" in node["gpus"][2]["verdict"]["reason"]


def test_gpus_become_broken_when_the_driver_hangs_between_reads(
    simulated: Simulated,
) -> None:
    env = simulated(Scenario(gpus=[SimGpu(), SimGpu()])) | SOON
    command = [sys.executable, "-m", "fleet_smi", "-i", "0.1", "--json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        simulated(Scenario(gpus=[SimGpu(faults={"*": "never"}), SimGpu()]))
        look: dict[str, Any] = {}
        while look.get("summary", {}).get("broken") != 2:
            look = msgspec.json.decode(running.stdout.readline())
            assert look["summary"]["unknown"] == 0
        running.terminate()


def test_a_slow_driver_is_not_a_hung_one(simulated: Simulated) -> None:
    slow = [SimGpu(faults={"PowerUsage": "slow=600"}) for _ in range(8)]
    assert run_json(env=simulated(Scenario(gpus=slow)))["summary"]["free"] == 8


@pytest.mark.parametrize("where", ["nvmlInit", "HandleByIndex"])
def test_a_slow_initialisation_is_awaited_and_the_terminal_says_so(
    simulated: Simulated, where: str
) -> None:
    env = simulated(Scenario(gpus=[SimGpu()], faults={where: "slow=5000"})) | SOON
    env |= {"FLEET_SMI_NODE_DRIVER_INIT_TIMEOUT": "90s"}
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "fleet_smi", "--json"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert msgspec.json.decode(done.stdout)["summary"]["free"] == 1
    assert re.search(r"waiting for [1-9]\d* s: the NVIDIA driver", shown)
    # Where it is no terminal, once.
    notice = run_fleet_smi("--json", env=env).stderr
    assert re.fullmatch(r"fleet-smi: waiting: the NVIDIA driver [^\n]*\n", notice)


@pytest.mark.parametrize("flags", [(), ("-i", "1")])
def test_a_terminal_shows_the_rest_of_the_machine_while_the_driver_is_slow(
    simulated: Simulated, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0", "0000:11:00.0")
    env = simulated(HUNG["nvmlInit"]) | {
        "FLEET_SMI_NODE_ROOT": str(tmp_path / "root"),
        "FLEET_SMI_NODE_DRIVER_INIT_TIMEOUT": "10min",
        "TERM": "xterm",
    }
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    shown = b""

    def has_both_gpus() -> bool:
        nonlocal shown
        with contextlib.suppress(BlockingIOError):
            shown += os.read(ours, 1 << 16)
        return shown.count(b"driver slow") >= 2

    command = [sys.executable, "-m", "fleet_smi", *flags]
    with subprocess.Popen(command, env=env, stdout=theirs, stderr=theirs) as running:
        wait_until(has_both_gpus)
        running.terminate()
    os.close(theirs)
    os.close(ours)
    assert flags or b"waiting for nvidia (" in shown


def test_doctor_names_persistence_mode_where_the_driver_is_slow_or_hangs(
    simulated: Simulated,
) -> None:
    slow = Scenario(gpus=[SimGpu(persistence=False)], faults={"nvmlInit": "slow=1500"})
    text = run_fleet_smi("doctor", env=simulated(slow)).stdout
    assert "with persistence mode off" in text
    hung = run_fleet_smi("doctor", env=simulated(HUNG["nvmlInit"]) | SOON).stdout
    assert "no persistence daemon runs" in hung


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_reader_that_hangs_does_not_outlive_its_command(
    simulated: Simulated, ending: signal.Signals
) -> None:
    # `env` undoes what `nohup` would pass on: an ignored SIGHUP.
    command = ["env", "--default-signal", sys.executable, "-m", "fleet_smi", "free"]
    with subprocess.Popen(
        command, env=simulated(HUNG["nvmlInit"]), stderr=subprocess.DEVNULL
    ) as running:
        wait_until(lambda: bool(readers_of(running.pid)))
        (reader,) = readers_of(running.pid)
        running.send_signal(ending)
    wait_until(lambda: not Path(f"/proc/{reader}").exists())


def test_the_rest_of_the_machine_is_still_reported(simulated: Simulated) -> None:
    (node,) = run_json(env=simulated(HUNG["nvmlInit"]) | SOON)["nodes"]
    runs = {run["name"]: run["outcome"] for run in node["runs"]}
    assert (runs["nvidia"], runs["host"]) == ("failed", "ok")
    assert node["host"]["memory_total_bytes"] > 0


def readers_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_repeated_reads_do_not_pile_up_reader_processes(simulated: Simulated) -> None:
    command = [sys.executable, "-m", "fleet_smi", "-i", "0.1", "--json"]
    env = simulated(HUNG["nvmlInit"]) | SOON
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for _ in range(5):
            look = msgspec.json.decode(running.stdout.readline())
            assert look["nodes"][0]["runs"][0]["outcome"] == "failed"
            # The one that hangs, and one that reads the rest of the machine.
            assert len(readers_of(running.pid)) <= 2
        running.terminate()


def test_a_driver_that_answers_again_is_read_again(simulated: Simulated) -> None:
    # The reader leaves a silent subject alone for a while; a new command asks at once.
    env = simulated(HUNG["a field"]) | SOON
    assert run_json(env=env)["nodes"][0]["runs"][0]["outcome"] == "failed"
    simulated(Scenario(gpus=[SimGpu(), SimGpu()]))
    assert run_json(env=env)["summary"]["free"] == 2


def test_the_exit_does_not_wait_for_a_hung_reader(simulated: Simulated) -> None:
    # As in $(fleet-smi free): the shell reads until the last writer has closed the pipe.
    script = f'out=$("{sys.executable}" -m fleet_smi free -n 1); echo "code $?"'
    done = subprocess.run(
        ["sh", "-c", script],
        env=simulated(HUNG["nvmlInit"]) | SOON,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "code 1\n"


def test_the_reader_ends_with_the_command(simulated: Simulated) -> None:
    command = [sys.executable, "-m", "fleet_smi", "-i", "60", "--json"]
    env = simulated(Scenario(gpus=[SimGpu()]))
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        (reader,) = readers_of(running.pid)
        running.kill()
    wait_until(lambda: not Path(f"/proc/{reader}").exists())
