"""`fleet-smi run` on one machine: what the command sees, its exit codes, and who waits."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet_smi.node.bindings.lease_files import own_name
from fleet_smi.paths import user_name
from sim.scenario import GIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi, run_gpus
from tests.machines import UserProcesses, wait_until
from tests.node.file_trees import Content, drm_card, write_tree
from tests.node.leases.held import held_uuids
from tests.sim.fixtures import Simulated

UUID = "GPU-00000000-0000-4000-8000-00000000000{}"
SHOW = "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def lease_dir(tmp_path: Path) -> Path:
    return tmp_path / "leases"


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated, lease_dir: Path) -> dict[str, str]:
    """Free: 1, 2, 3. Taken without a lease: 0."""
    busy = SimGpu(
        memory_used=10 * GIB, util_gpu=90, processes=[SimProcess(pid=people.start(), memory=GIB)]
    )
    machine = Scenario(gpus=[busy, SimGpu(), SimGpu(), SimGpu(memory_total=24 * GIB)])
    return simulated(machine) | {"FLEET_SMI_NODE_LEASE_DIR": str(lease_dir)}


@pytest.fixture
def start(env: dict[str, str]) -> Iterator[Start]:
    """Start `fleet-smi run` with a command that says when it runs and waits for its input."""
    started: list[subprocess.Popen[str]] = []

    def begin(
        *arguments: str, command: str = "echo $CUDA_VISIBLE_DEVICES; read line"
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "fleet_smi", "run", *arguments, "--", "sh", "-c", command],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_command_gets_indices_in_pci_order(env: dict[str, str]) -> None:
    done = run_fleet_smi("run", "-n", "2", "--", "sh", "-c", SHOW, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1,2 PCI_BUS_ID\n", "")


def test_uuids_on_request(env: dict[str, str]) -> None:
    done = run_fleet_smi("run", "--uuid", "--gpu-ids", "3", "--", "sh", "-c", SHOW, env=env)
    assert done.stdout == f"{UUID.format(3)} PCI_BUS_ID\n"


def test_it_chooses_among_visible_devices_and_replaces_them(env: dict[str, str]) -> None:
    notebook = env | {"CUDA_VISIBLE_DEVICES": "0,2"}
    assert run_fleet_smi("run", "--", "sh", "-c", SHOW, env=notebook).stdout == "2 PCI_BUS_ID\n"
    both = run_fleet_smi("run", "-n", "3", "--nowait", "--", "true", env=notebook)
    assert_error_line(both, 1, "could ever meet the request")


def test_docker_gets_the_same_gpus(env: dict[str, str]) -> None:
    done = run_fleet_smi("run", "--print-docker", "--", "echo", "--gpus", "{docker}", env=env)
    assert done.stdout == f'--gpus "device={UUID.format(1)}"\n'
    assert done.stderr == f"fleet-smi: docker: --gpus '\"device={UUID.format(1)}\"'\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [(["true"], 0), (["sh", "-c", "exit 37"], 37), (["no-such-program"], 127), (["/"], 126)],
)
def test_the_exit_code_is_that_of_the_command(
    env: dict[str, str], command: list[str], code: int
) -> None:
    assert run_fleet_smi("run", "--", *command, env=env).returncode == code


def test_it_ends_by_the_signal_that_ended_the_command(env: dict[str, str]) -> None:
    done = run_fleet_smi("run", "--", "sh", "-c", "kill -SEGV $$", env=env)
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "no command"),
        (["-n", "0", "--", "true"], 2, "must be 1 to"),
        (["--max-hours", "0", "--", "true"], 2, "more than 0"),
        (["--gpu-ids", "9", "--", "true"], 2, "no GPU '9' here; there are 0, 1, 2, 3"),
        (["--gpu-ids", "0", "--nowait", "--", "true"], 1, "no GPU is free; the next likely one is"),
        (["--timeout", "soon", "--", "true"], 2, "is not a duration"),
        (["-n", "5", "--", "true"], 1, "could ever meet the request; `fleet-smi free -v` says why"),
    ],
)
def test_what_cannot_be_met_is_one_line(
    env: dict[str, str], arguments: list[str], code: int, text: str
) -> None:
    assert_error_line(run_fleet_smi("run", *arguments, env=env), code, text)


def test_a_leased_gpu_has_its_holder_in_every_view(env: dict[str, str], start: Start) -> None:
    job = start("--note", "final \x1b[31mrun", "--max-hours", "2", "--gpu-ids", "2")
    assert first_line(job) == "2"
    gpu = run_gpus("--here", env=env)[2]
    assert gpu["verdict"]["state"] == "leased"
    user = user_name(os.geteuid())
    assert gpu["verdict"]["reason"].startswith(f"taken by {user} ")
    assert "\x1b" not in str(gpu)
    lease = gpu["lease"]
    assert (lease["holder"], lease["pid"], lease["command"]) == (user, job.pid, "sh")
    assert lease["until"] - lease["taken_at"] == pytest.approx(7200, abs=5)
    assert run_fleet_smi("free", env=env).stdout == "1,3\n"
    assert "taken by" in run_fleet_smi("--here", env=env).stdout
    job.communicate("end\n")
    assert run_fleet_smi("free", env=env).stdout == "1,2,3\n"


def test_who_waits_gets_the_gpu_when_it_is_released(start: Start) -> None:
    first = start("-n", "3")
    assert first_line(first) == "1,2,3"
    second = start("-n", "2")
    assert second.stderr is not None
    waiting = second.stderr.readline()
    assert "waiting for 2 GPUs" in waiting
    # Who has them: GPU 0 is used without a lease.
    assert ":0 " in waiting and "without lease, " in waiting
    # Later, and smaller: nothing is free, and it must not pass the one who came first.
    third = start("-n", "2")
    assert third.stderr is not None
    assert "place 2 in the queue" in third.stderr.readline()
    first.communicate("end\n")
    assert first_line(second) == "1,2"
    assert third.poll() is None
    second.communicate("end\n")
    assert first_line(third) == "1,2"


def test_a_timeout_ends_the_waiting(env: dict[str, str], start: Start, lease_dir: Path) -> None:
    assert first_line(start("-n", "3")) == "1,2,3"
    done = run_fleet_smi("run", "--timeout", "0.1s", "--", "true", env=env)
    assert done.returncode == 1
    assert [file.name for file in lease_dir.glob("*.queue")] == []


def test_a_killed_supervisor_frees_the_gpu_and_the_job_runs_on(
    env: dict[str, str], start: Start
) -> None:
    job = start("--gpu-ids", "1", command="echo $$; read line; echo done")
    pid = int(first_line(job))
    job.kill()
    job.wait()
    assert run_fleet_smi("run", "--gpu-ids", "1", "--nowait", "--", "true", env=env).returncode == 0
    assert Path(f"/proc/{pid}").exists()
    assert job.stdin is not None
    job.stdin.write("end\n")
    job.stdin.flush()
    assert first_line(job) == "done"


def test_a_lost_lease_is_taken_again(start: Start, lease_dir: Path) -> None:
    job = start("--gpu-ids", "1")
    assert first_line(job) == "1"
    file = lease_dir / own_name(UUID.format(1), os.geteuid())
    file.unlink()
    wait_until(lambda: held_uuids(lease_dir) == [UUID.format(1)])
    assert job.poll() is None


def test_a_mig_instance_is_leased_by_its_uuid(simulated: Simulated, lease_dir: Path) -> None:
    card = SimGpu(mig=True, instances=[SimInstance(profile="1g.10gb", gi=gi) for gi in (1, 2)])
    env = simulated(Scenario(gpus=[card])) | {"FLEET_SMI_NODE_LEASE_DIR": str(lease_dir)}
    nested = [sys.executable, "-m", "fleet_smi", "free"]
    done = run_fleet_smi(
        "run", "--", "sh", "-c", f"{SHOW}; env -u CUDA_VISIBLE_DEVICES {' '.join(nested)}", env=env
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("MIG-") and second.startswith("MIG-")
    assert first.split()[0] != second


def test_the_last_gpus_are_preferred(env: dict[str, str]) -> None:
    run_fleet_smi("run", "--gpu-ids", "2", "--", "true", env=env)
    done = run_fleet_smi("run", "--prefer-last", "--", "sh", "-c", SHOW, env=env)
    assert done.stdout == "2 PCI_BUS_ID\n"


def test_ctrl_c_while_waiting_leaves_nothing_behind(start: Start, lease_dir: Path) -> None:
    assert first_line(start("-n", "2")) == "1,2"
    waiting = start("-n", "2")
    assert waiting.stderr is not None
    assert "waiting for 2 GPUs" in waiting.stderr.readline()
    # One of the two that it wants is free, and stays so.
    assert len(held_uuids(lease_dir)) == 2
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait() == 130
    assert list(lease_dir.glob("*.queue")) == []
    assert first_line(start("--nowait")) == "3"


def test_declared_hours_warn_and_never_kill(start: Start) -> None:
    job = start("--max-hours", "0.0001")
    assert first_line(job)
    assert job.stderr is not None
    assert "--max-hours are over: the job runs on" in job.stderr.readline()
    job.communicate("end\n")
    assert job.returncode == 0


def test_an_amd_card_is_leased(tmp_path: Path, lease_dir: Path) -> None:
    memory: dict[str, Content] = {
        "mem_info_vram_total": str(16 * GIB),
        "mem_info_vram_used": "0",
        "gpu_busy_percent": "0",
    }
    card = drm_card("amdgpu", files=memory)
    root = write_tree(tmp_path / "root", card | {"proc/stat": "btime 1"})
    env = os.environ | {
        "FLEET_SMI_NODE_ROOT": str(root),
        "FLEET_SMI_NODE_LEASE_DIR": str(lease_dir),
    }
    nested = f"echo $ROCR_VISIBLE_DEVICES; {sys.executable} -m fleet_smi run --nowait -- true"
    done = run_fleet_smi("run", "--nowait", "--", "sh", "-c", nested, env=env)
    assert done.stdout == "0\n", done.stderr
    # Within the job, the only card is taken: also without a UUID of its own.
    assert done.returncode == 1
