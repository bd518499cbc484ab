"""`fleet-smi leases`, `claim`, `free --hold` and `release` on one machine."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.node.bindings import leases
from fleet_smi.paths import user_name
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import UserProcesses, wait_until
from tests.node.leases.held import held_uuids
from tests.sim.fixtures import Simulated

UUID = "GPU-00000000-0000-4000-8000-00000000000{}"


@pytest.fixture
def lease_dir(tmp_path: Path) -> Path:
    return tmp_path / "leases"


@pytest.fixture
def pid(people: UserProcesses) -> int:
    """A process of this user on GPU 0."""
    return people.start()


@pytest.fixture
def env(pid: int, simulated: Simulated, lease_dir: Path) -> Iterator[dict[str, str]]:
    busy = SimGpu(memory_used=2 * GIB, util_gpu=90, processes=[SimProcess(pid=pid, memory=GIB)])
    machine = Scenario(gpus=[busy, SimGpu(), SimGpu()])
    env = simulated(machine) | {"FLEET_SMI_NODE_LEASE_DIR": str(lease_dir)}
    yield env
    run_fleet_smi("release", env=env)


def rows(env: dict[str, str]) -> list[dict[str, Any]]:
    done = run_fleet_smi("leases", "--here", "--json", env=env)
    assert done.returncode == 0, done.stderr
    listed: list[dict[str, Any]] = json.loads(done.stdout)["leases"]
    return listed


def test_a_gpu_is_held_for_a_notebook_and_released(env: dict[str, str], lease_dir: Path) -> None:
    first = run_fleet_smi("free", "--hold", "5m", env=env)
    assert (first.returncode, first.stdout, first.stderr) == (0, "1\n", "")
    second = run_fleet_smi("free", "--hold", "5m", "--uuid", env=env)
    assert second.stdout == f"{UUID.format(2)}\n"
    assert_error_line(run_fleet_smi("free", "--hold", "5m", env=env), 1, "no GPU is free")
    assert set(held_uuids(lease_dir)) == {UUID.format(1), UUID.format(2)}
    held = [row["lease"] for row in rows(env) if row["lease"]]
    assert [round(each["until"] - each["taken_at"]) for each in held] == [300, 300]
    assert run_fleet_smi("release", UUID.format(2), env=env).returncode == 0
    wait_until(lambda: held_uuids(lease_dir) == [UUID.format(1)])
    assert run_fleet_smi("release", env=env).returncode == 0
    wait_until(lambda: held_uuids(lease_dir) == [])
    assert_error_line(run_fleet_smi("release", env=env), 1, "nothing to release")


def test_a_hold_ends_by_itself(env: dict[str, str], lease_dir: Path) -> None:
    assert run_fleet_smi("free", "--hold", "0.5s", env=env).stdout == "1\n"
    wait_until(lambda: held_uuids(lease_dir) == [])


def test_what_already_runs_is_claimed_until_it_ends(
    env: dict[str, str], lease_dir: Path, pid: int, people: UserProcesses
) -> None:
    (before,) = rows(env)
    assert (before["lease"], before["state"]) == (None, "busy")
    assert "without lease" in run_fleet_smi("leases", "--here", env=env).stdout
    done = run_fleet_smi("claim", str(pid), "--note", "demo", env=env)
    assert (done.returncode, done.stdout) == (0, f"{UUID.format(0)}\n")
    (after,) = rows(env)
    assert (after["holder"], after["lease"]["note"]) == (user_name(os.geteuid()), "demo")
    again = run_fleet_smi("claim", env=env)
    assert_error_line(again, 1, "is leased by")
    people.stop(pid)
    wait_until(lambda: held_uuids(lease_dir) == [])


def test_a_job_of_run_is_not_released_by_hand(env: dict[str, str], lease_dir: Path) -> None:
    nested = "exec python3 -m fleet_smi release"

    nested = nested.replace("python3", sys.executable)
    done = run_fleet_smi("run", "--", "sh", "-c", nested, env=env)
    assert done.returncode == 1
    assert "end with their job" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["claim", "1"], 1, "process 1 is not one that uses a GPU here without a lease"),
        (["free", "--hold", "0"], 2, "must be more than 0"),
        (["free", "--hold", "5m", "--json"], 2, "--hold leases GPUs of this machine"),
        (["release", "GPU-nothing"], 2, "no lease of yours on GPU-nothing"),
    ],
)
def test_a_mistake_is_one_line(
    env: dict[str, str], arguments: list[str], code: int, text: str
) -> None:
    assert_error_line(run_fleet_smi(*arguments, env=env), code, text)


def test_the_holder_is_the_process_that_stays(env: dict[str, str], lease_dir: Path) -> None:
    run_fleet_smi("free", "--hold", "5m", env=env)
    (row,) = leases.read(folder=str(lease_dir))
    assert Path(f"/proc/{row['pid']}").exists()
    assert row["uid"] == os.geteuid()
