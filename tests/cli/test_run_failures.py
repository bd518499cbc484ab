"""`fleet-smi run` where other tools that give out GPUs were found to fail."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.node.bindings.lease_files import open_folder, own_name
from fleet_smi.node.bindings.lease_locks import try_take
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import StartedPrograms, first_line, run_fleet_smi
from tests.cli.test_run_terminal import Shell
from tests.machines import UserProcesses, require_root, wait_until
from tests.node.leases.held import held_uuids
from tests.sim.fixtures import Simulated

UUID = "GPU-00000000-0000-4000-8000-00000000000{}"
FLEET_SMI = [sys.executable, "-m", "fleet_smi"]


class Machine:
    """A machine whose simulated GPUs and leases belong to one test."""

    def __init__(self, simulated: Simulated, folder: Path) -> None:
        self._simulated = simulated
        self.leases = folder / "leases"
        self.env: dict[str, str] = {}
        self._programs = StartedPrograms()
        self.close = self._programs.close

    def set_gpus(self, *gpus: SimGpu) -> None:
        settings = {"FLEET_SMI_NODE_LEASE_DIR": str(self.leases)}
        self.env = self._simulated(Scenario(gpus=list(gpus))) | settings

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a job that prints its pid, and ends after its input does."""
        command = ("-m", "fleet_smi", "run", *arguments, "--", "sh", "-c", "echo $$; read line")
        return self._programs.start(*command, env=self.env)


@pytest.fixture
def computer(simulated: Simulated, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(simulated, tmp_path)
    yield machine
    machine.close()


def test_a_job_that_uses_another_gpu_than_its_own_is_named_and_nobody_is_sent_there(
    computer: Machine,
) -> None:
    computer.set_gpus(SimGpu(), SimGpu(), SimGpu())
    job = computer.start("--gpu-ids", "1")
    pid = int(first_line(job))
    # It ignores what it was given: everybody lands on GPU 0.
    stray = SimGpu(memory_used=9 * GIB, util_gpu=80, processes=[SimProcess(pid=pid, memory=GIB)])
    computer.set_gpus(stray, SimGpu(), SimGpu())
    listed = run_fleet_smi("leases", "--here", "--json", env=computer.env)
    rows = {row["label"].rpartition(":")[2]: row for row in json.loads(listed.stdout)["leases"]}
    assert rows["0"]["lease"] is None
    assert rows["1"]["lease"]["pid"] == job.pid
    shown = run_fleet_smi("leases", "--here", env=computer.env).stdout
    assert "without lease" in shown
    next_one = run_fleet_smi(
        *("run", "--nowait", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"), env=computer.env
    )
    assert next_one.stdout == "2\n", next_one.stderr


def test_a_lease_that_somebody_else_takes_while_the_job_runs_does_not_end_the_job(
    computer: Machine,
) -> None:
    computer.set_gpus(SimGpu())
    job = computer.start()
    pid = int(first_line(job))
    job.send_signal(signal.SIGSTOP)
    # An administrator cleans up, and the next one is faster than the supervisor.
    (computer.leases / own_name(UUID.format(0), os.geteuid())).unlink()
    folder = open_folder(str(computer.leases))
    other = try_take(folder, UUID.format(0), {"command": "other"})
    assert other is not None
    job.send_signal(signal.SIGCONT)
    assert job.stderr is not None
    assert "is lost: the job runs on without lease" in job.stderr.readline()
    assert Path(f"/proc/{pid}").exists()
    # It has it again when that is possible, and ends as it would have.
    other.release()
    os.close(folder)
    wait_until(lambda: held_uuids(computer.leases) == [UUID.format(0)])
    job.communicate("end\n")
    assert job.returncode == 0


def test_a_gpu_in_exclusive_mode_is_given_to_one_process_alone(
    computer: Machine, people: UserProcesses
) -> None:
    taken = SimGpu(
        compute_mode="exclusive-process",
        memory_used=GIB,
        processes=[SimProcess(pid=people.start(), memory=GIB)],
    )
    computer.set_gpus(taken, SimGpu(compute_mode="exclusive-process"))
    done = run_fleet_smi(*("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"), env=computer.env)
    assert done.stdout == "1\n", done.stderr
    # There is memory, but a second process would not start.
    offered = run_fleet_smi("free", "--policy", "memory", "--max-used", "50", env=computer.env)
    assert offered.stdout == "1\n"


@pytest.mark.parametrize("flags", ["", "-e CUDA_VISIBLE_DEVICES "])
def test_docker_exec_that_loses_the_environment_is_named(
    computer: Machine, tmp_path: Path, flags: str
) -> None:
    computer.set_gpus(SimGpu())
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho ran\n")
    docker.chmod(0o755)
    done = run_fleet_smi(
        *("run", "--", str(docker), "exec", *flags.split(), "box", "python"), env=computer.env
    )
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert ("docker exec does not pass the environment on" in done.stderr) == (not flags)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_container_that_does_not_share_the_leases_says_so(
    computer: Machine, is_shared: bool
) -> None:
    require_root("make a container")
    computer.set_gpus(SimGpu())
    env = {key: each for key, each in computer.env.items() if key != "FLEET_SMI_NODE_LEASE_DIR"}
    # Its own /run, or one into which the machine's folder is mounted.
    mounts = "mount -t tmpfs -o mode=755 tmpfs /run && mkdir -m 1777 /run/lock"
    if is_shared:
        mounts += " && mount -t tmpfs -o mode=1777 tmpfs /run/lock"
    inside = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    run = " ".join([*FLEET_SMI, "run", "--nowait", "--", "true"])
    done = subprocess.run(
        [*inside, f"{mounts} && {run}"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = "in a container: this lease is not seen outside it; mount the host's /run/lock into it"
    assert (said in done.stderr) == (not is_shared)


def test_a_detached_job_survives_the_loss_of_its_session(computer: Machine, tmp_path: Path) -> None:
    computer.set_gpus(SimGpu())
    run = " ".join([*FLEET_SMI, "run", "--detach", "--"])
    shell = Shell(computer.env | {"XDG_STATE_HOME": str(tmp_path / "state"), "RUN": run})
    try:
        mark = tmp_path / "mark"
        shell.type(f"$RUN sh -c 'until test -e {mark}; do sleep 0.05; done; echo over'\n")
        shell.wait_for("job 1: ")
        wait_until(lambda: held_uuids(computer.leases) == [UUID.format(0)])
        shell.hang_up()
        wait_until(lambda: not Path(f"/proc/{shell.pid}/fd/0").exists())
        assert held_uuids(computer.leases) == [UUID.format(0)]
        mark.touch()
        wait_until(lambda: held_uuids(computer.leases) == [])
        (log,) = (tmp_path / "state/fleet-smi/jobs").rglob("*.log")
        assert log.read_text() == "over\n"
    finally:
        shell.close()
