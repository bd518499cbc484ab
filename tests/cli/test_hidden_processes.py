"""Processes that the kernel hides are counted, without a user."""

import subprocess
import sys

import msgspec

from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.machines import UserProcesses, require_root
from tests.sim.fixtures import Simulated


def test_processes_of_another_pid_namespace_are_counted_as_hidden(
    people: UserProcesses, simulated: Simulated
) -> None:
    require_root()
    pids = [people.start() for _ in range(2)]
    gpu = SimGpu(
        memory_used=21 * GIB,
        util_gpu=70,
        processes=[SimProcess(pid=pid, memory=10 * GIB) for pid in pids],
    )
    env = simulated(Scenario(gpus=[gpu]))
    inside = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "fleet_smi"]
    done = subprocess.run(
        [*inside, "--json"], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    (gpu_json,) = msgspec.json.decode(done.stdout)["nodes"][0]["gpus"]
    assert [each["pid"] for each in gpu_json["processes"]] == pids
    assert all(each["hidden"] and each["user"] is None for each in gpu_json["processes"])
    assert gpu_json["verdict"]["state"] == "busy"
    assert "cannot be seen" in gpu_json["verdict"]["reason"]


def test_processes_hidden_by_hidepid_are_counted_without_a_user(
    people: UserProcesses, simulated: Simulated
) -> None:
    require_root()
    pid = people.start(user="games")
    gpu = SimGpu(memory_used=11 * GIB, processes=[SimProcess(pid=pid, memory=10 * GIB)])
    env = simulated(Scenario(gpus=[gpu]))
    # Root sees all processes: drop the capability that lets it see those of others.
    blind = "--regid nogroup --clear-groups --bounding-set -sys_ptrace --inh-caps -sys_ptrace"
    hide = f"mount -t proc -o hidepid=2 proc /proc && exec setpriv {blind}"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{hide} "{sys.executable}" -m fleet_smi --json'],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    (gpu_json,) = msgspec.json.decode(done.stdout)["nodes"][0]["gpus"]
    (process,) = gpu_json["processes"]
    assert (process["hidden"], process["user"], process["uid"]) == (True, None, None)
