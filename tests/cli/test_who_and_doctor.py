"""`who`, `doctor` and `completion` as a user runs them."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fleet_smi.cli.main import COMMANDS
from fleet_smi.model.fleet import STATES
from fleet_smi.model.view_options import SORT_KEYS
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import run_fleet_smi
from tests.machines import UserProcesses, require_program, require_root
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.sim.fixtures import Simulated


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated) -> dict[str, str]:
    """nobody has two GPUs, games one, and one is free."""
    require_root()
    owners = ("nobody", "nobody", "games")
    taken = [
        SimGpu(
            memory_used=11 * GIB,
            util_gpu=80,
            processes=[SimProcess(pid=people.start(user=owner), memory=10 * GIB)],
        )
        for owner in owners
    ]
    return simulated(Scenario(gpus=[*taken, SimGpu()]))


def test_who_lists_people_by_what_they_hold(env: dict[str, str]) -> None:
    rows = [line.split() for line in run_fleet_smi("who", env=env).stdout.splitlines()]
    assert rows[0][0] == "WHO"
    assert [(row[0], row[1]) for row in rows[1:]] == [("nobody", "2"), ("games", "1")]


def test_who_shows_one_person_with_every_process(env: dict[str, str]) -> None:
    said = run_fleet_smi("who", "nobody", env=env).stdout
    assert said.count("sleep 600") == 2
    assert "games" not in said


def test_who_speaks_json(env: dict[str, str]) -> None:
    done = run_fleet_smi("who", "--json", env=env)
    people = msgspec.json.decode(done.stdout)
    assert [person["user"] for person in people["people"]] == ["nobody", "games"]


def test_nobody_on_the_gpus_is_said(simulated: Simulated) -> None:
    done = run_fleet_smi("who", env=simulated(Scenario(gpus=[SimGpu()])))
    assert done.returncode == 0
    assert done.stdout.strip()


def findings(env: dict[str, str]) -> tuple[int, dict[str, str]]:
    done = run_fleet_smi("doctor", "--json", env=env)
    return done.returncode, {
        finding["id"]: finding["status"] for finding in msgspec.json.decode(done.stdout)["findings"]
    }


def test_a_healthy_machine_passes(simulated: Simulated) -> None:
    code, found = findings(simulated(Scenario(gpus=[SimGpu()])))
    assert code == 0
    assert found["nvidia.driver"] == found["gpus.found"] == found["nvidia.persistence"] == "PASS"
    assert "FAIL" not in found.values()


@pytest.mark.parametrize(
    ("scenario", "finding", "status"),
    [
        (Scenario(gpus=[SimGpu(persistence=False)]), "nvidia.persistence", "WARN"),
        (Scenario(gpus=[SimGpu(faults={"*": "lost"})]), "gpu.fault", "FAIL"),
        (Scenario(gpus=[SimGpu(ecc_uncorrected_volatile=2)]), "gpu.memory", "FAIL"),
        (Scenario(gpus=[SimGpu(pcie_width=4)]), "gpu.link", "WARN"),
        (Scenario(init="mismatch"), "nvidia.driver", "FAIL"),
        (Scenario(init="no-permission"), "nvidia.driver", "FAIL"),
        (Scenario(init="no-driver"), "gpus.found", "WARN"),
        (Scenario(gpus=[SimGpu(faults={"Name": "slow=1200"})]), "nvidia.speed", "WARN"),
    ],
)
def test_what_is_wrong_is_found(
    simulated: Simulated, scenario: Scenario, finding: str, status: str
) -> None:
    code, found = findings(simulated(scenario))
    assert found[finding] == status
    assert code == (1 if "FAIL" in found.values() else 0)


def test_a_mismatch_names_both_versions_and_the_remedy(
    simulated: Simulated, tmp_path: Path
) -> None:
    write_nvidia_kernel_files(tmp_path / "root", "0000:10:00.0", version="590.48.01")
    env = simulated(Scenario(driver="595.12.00", init="mismatch"))
    done = run_fleet_smi("doctor", env=env | {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root")})
    assert done.returncode == 1
    for words in ("590.48.01", "595.12", "reload the driver or reboot"):
        assert words in " ".join(done.stdout.split())


def test_processes_of_another_pid_namespace_are_counted_and_not_dropped(
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
    (said,) = msgspec.json.decode(done.stdout)["nodes"][0]["gpus"]
    assert [one["pid"] for one in said["processes"]] == pids
    assert all(one["hidden"] and one["user"] is None for one in said["processes"])
    assert said["verdict"]["state"] == "busy"
    assert "cannot be seen" in said["verdict"]["reason"]


def test_processes_hidden_by_the_kernel_are_counted_and_nobody_is_blamed(
    people: UserProcesses, simulated: Simulated
) -> None:
    require_root()
    pid = people.start(user="games")
    gpu = SimGpu(memory_used=11 * GIB, processes=[SimProcess(pid=pid, memory=10 * GIB)])
    env = simulated(Scenario(gpus=[gpu]))
    # Root itself would see all: take from it what lets it look into other people's processes.
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
    (said,) = msgspec.json.decode(done.stdout)["nodes"][0]["gpus"]
    (process,) = said["processes"]
    assert (process["hidden"], process["user"], process["uid"]) == (True, None, None)


def completed(shell: str, words: str, env: dict[str, str]) -> list[str]:
    """What the shell offers after these words."""
    script = (
        f'eval "$("{sys.executable}" -m fleet_smi completion {shell})"\n'
        f"COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_fleet_smi; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fleet-smi", {"free", "who", "doctor", "--json", "-p"}),
        ("fleet-smi free", {"--min-free", "--uuid"}),
        ("fleet-smi free --policy", {"memory", "context"}),
        ("fleet-smi completion", {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(words: str, offered: set[str]) -> None:
    assert offered <= set(completed("bash", words, dict(os.environ)))


VALUES = [
    ("fleet-smi --state", set(STATES)),
    ("fleet-smi status --state", set(STATES)),
    ("fleet-smi --sort", set(SORT_KEYS)),
    ("fleet-smi free --policy", {"free", "no-process", "memory", "load", "context"}),
    ("fleet-smi free --vendor", {"nvidia", "amd", "intel"}),
    ("fleet-smi --user", set()),
]


@pytest.mark.parametrize(("words", "offered"), VALUES)
def test_after_a_flag_bash_offers_its_values_and_nothing_else(
    words: str, offered: set[str]
) -> None:
    assert set(completed("bash", words, dict(os.environ))) == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        *((f"{words} ", offered) for words, offered in VALUES),
        ("fleet-smi completion ", {"bash", "zsh", "fish"}),
        ("fleet-smi ", set(COMMANDS)),
        ("fleet-smi --so", {"--sort"}),
        ("fsmi status --so", {"--sort"}),
        ("fleet-smi --state free --u", {"--user"}),
        ("fleet-smi free --u", {"--uuid"}),
    ],
)
def test_fish_offers_what_may_come_next(words: str, offered: set[str]) -> None:
    require_program("fish")
    script = run_fleet_smi("completion", "fish", env=os.environ).stdout
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{script}\ncomplete -C '{words}'"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == offered


def test_zsh_takes_the_script_before_it_has_loaded_its_completion(tmp_path: Path) -> None:
    require_program("zsh")
    script = run_fleet_smi("completion", "zsh", env=os.environ).stdout
    done = subprocess.run(
        ["zsh", "-f", "-c", f'{script}\nprint -r -- "$_comps[fleet-smi]"'],
        env=dict(os.environ) | {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    assert "_fleet_smi" in done.stdout
