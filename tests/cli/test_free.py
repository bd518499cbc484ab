"""`fleet-smi free` on one machine: what it prints for a shell, and its failures."""

import subprocess
import sys
from pathlib import Path

import pytest

from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.machines import UserProcesses
from tests.sim.fixtures import Simulated


@pytest.fixture
def env(people: UserProcesses, simulated: Simulated) -> dict[str, str]:
    """Free: 1 (hot), 3 (cool), 4 (small). Taken: 0. Broken: 2."""
    busy = SimGpu(
        memory_used=10 * GIB, util_gpu=90, processes=[SimProcess(pid=people.start(), memory=GIB)]
    )
    machine = [
        busy,
        SimGpu(temperature=60),
        SimGpu(faults={"*": "lost"}),
        SimGpu(temperature=30),
        SimGpu(memory_total=24 * GIB, temperature=20),
    ]
    return simulated(Scenario(gpus=machine))


def test_the_best_gpus_come_first(env: dict[str, str]) -> None:
    done = run_fleet_smi("free", env=env)
    assert (done.returncode, done.stdout) == (0, "3,1,4\n")


def test_count_limits_the_offer(env: dict[str, str]) -> None:
    assert run_fleet_smi("free", "-n", "1", env=env).stdout == "3\n"


def test_min_free_takes_a_size_with_a_unit(env: dict[str, str]) -> None:
    assert run_fleet_smi("free", "--min-free", "40GiB", env=env).stdout == "3,1\n"
    without = run_fleet_smi("free", "--min-free", "5", env=env)
    assert without.returncode == 2
    assert "'5' has no unit: write 5GiB or 5MiB" in without.stderr


def test_uuid_prints_uuids(env: dict[str, str]) -> None:
    done = run_fleet_smi("free", "-n", "1", "--uuid", env=env)
    assert done.stdout == "GPU-00000000-0000-4000-8000-000000000003\n"


def test_model_filters_by_name(env: dict[str, str]) -> None:
    assert run_fleet_smi("free", "--model", "h100", "-n", "1", env=env).stdout == "3\n"
    assert_error_line(
        run_fleet_smi("free", "--model", "B200", env=env), 1, "no matching GPU is free"
    )


def test_too_few_exit_with_1_and_nothing_on_stdout(env: dict[str, str]) -> None:
    done = run_fleet_smi("free", "-n", "16", env=env)
    assert_error_line(done, 1, "3 of 16 requested GPUs are free: ")


def test_the_shell_gets_devices_for_cuda(env: dict[str, str]) -> None:
    script = (
        f'CUDA_VISIBLE_DEVICES=$("{sys.executable}" -m fleet_smi free -n 2) '
        "printenv CUDA_VISIBLE_DEVICES"
    )
    done = subprocess.run(
        ["sh", "-c", script], env=env, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "3,1\n"


def test_why_explains_each_gpu(env: dict[str, str]) -> None:
    text = run_fleet_smi("free", "-v", env=env | {"FLEET_SMI_NODE_NAME": "gpu07"}).stdout
    offered, refused = text.split("NOT OFFERED")
    assert all(f"gpu07:{index}" in offered for index in (1, 3, 4))
    assert "gpu07:0" in refused
    assert "gpu07:2   broken: fell off the bus" in refused


def test_policies_imitate_other_systems(people: UserProcesses, simulated: Simulated) -> None:
    notebook = SimProcess(pid=people.start(), memory=500 * MIB)
    gpu = SimGpu(memory_used=800 * MIB, processes=[notebook])
    env = simulated(Scenario(gpus=[gpu]))
    assert run_fleet_smi("free", "--policy", "memory", env=env).stdout == "0\n"
    for policy in ("free", "no-process", "load"):
        assert run_fleet_smi("free", "--policy", policy, env=env).returncode == 1


def test_mixed_models_print_a_warning_about_cuda_device_order(simulated: Simulated) -> None:
    machine = [SimGpu(), SimGpu(name="NVIDIA A100-SXM4-40GB", memory_total=40 * GIB)]
    env = simulated(Scenario(gpus=machine))
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in run_fleet_smi("free", env=env).stderr
    assert run_fleet_smi("free", env=env | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).stderr == ""
    assert run_fleet_smi("free", "--uuid", env=env).stderr == ""


@pytest.mark.parametrize(
    ("visible", "offered"),
    [
        ("1,2", "1,2"),
        ("2", "2"),
        ("GPU-two", "2"),
        ("2,99,1", "2"),  # CUDA ignores what follows an entry that names no device
        ("", None),
        ("-1", None),
        ("none", None),
    ],
)
def test_the_offer_stays_inside_cuda_visible_devices(
    simulated: Simulated, visible: str, offered: str | None
) -> None:
    cards = [SimGpu(uuid=f"GPU-{name}") for name in ("zero-aaaa", "one-aaaa", "two-aaaa")]
    env = simulated(Scenario(gpus=cards)) | {"CUDA_VISIBLE_DEVICES": visible}
    done = run_fleet_smi("free", env=env)
    if offered is None:
        assert_error_line(done, 1, f"CUDA_VISIBLE_DEVICES={visible} leaves out 3 more")
    else:
        assert done.stdout == f"{offered}\n"
        assert "not in CUDA_VISIBLE_DEVICES" in run_fleet_smi("free", "-v", env=env).stdout


def test_a_mig_instance_is_offered_by_its_uuid(simulated: Simulated) -> None:
    gpu = SimGpu(
        mig=True,
        instances=[SimInstance(profile="1g.10gb", gi=7, uuid="MIG-seven", memory_used=12 * MIB)],
    )
    assert run_fleet_smi("free", env=simulated(Scenario(gpus=[gpu]))).stdout == "MIG-seven\n"


def test_whole_gpus_and_instances_are_not_mixed(simulated: Simulated) -> None:
    sliced = SimGpu(
        mig=True,
        instances=[SimInstance(profile="1g.10gb", gi=n, uuid=f"MIG-{n}") for n in (1, 2)],
    )
    env = simulated(Scenario(gpus=[sliced, SimGpu()]))
    assert run_fleet_smi("free", "-n", "1", env=env).stdout == "1\n"
    assert run_fleet_smi("free", "-n", "2", env=env).stdout == "MIG-1,MIG-2\n"
    assert run_fleet_smi("free", "-n", "3", env=env).returncode == 1


def test_cards_of_two_vendors_are_never_mixed(
    people: UserProcesses, simulated: Simulated, tmp_path: Path
) -> None:
    busy = SimProcess(pid=people.start(), memory=10 * GIB)
    nvidia = SimGpu(memory_used=11 * GIB, util_gpu=90, processes=[busy])
    amd_card(tmp_path / "root")
    env = simulated(Scenario(gpus=[nvidia])) | {"FLEET_SMI_NODE_ROOT": str(tmp_path / "root")}
    assert_error_line(run_fleet_smi("free", "-n", "1", env=env), 1, "no GPU is free")
    assert run_fleet_smi("free", "-n", "1", "--vendor", "amd", env=env).stdout == "0\n"
    refused = run_fleet_smi("free", "--uuid", "--vendor", "amd", env=env)
    assert_error_line(refused, 1, "has no UUID: it can only be selected by its index")


def amd_card(root: Path) -> None:
    """An idle AMD card without a unique id, on a machine with this one's processes."""
    device = root / "sys/class/drm/card0/device"
    device.mkdir(parents=True)
    files = {
        "uevent": "DRIVER=amdgpu\nPCI_ID=1002:73FF\nPCI_SLOT_NAME=0000:03:00.0\n",
        "gpu_busy_percent": "0\n",
        "mem_info_vram_total": f"{8 * GIB}\n",
        "mem_info_vram_used": f"{100 * MIB}\n",
    }
    for name, text in files.items():
        (device / name).write_text(text)
    (root / "sys/class/kfd/kfd/proc").mkdir(parents=True)
    (root / "proc").symlink_to("/proc")


def test_a_machine_without_gpus_offers_none(simulated: Simulated) -> None:
    done = run_fleet_smi("free", "-n", "1", env=simulated(Scenario(init="no-driver")))
    assert_error_line(done, 1, "this machine has no GPU that fleet-smi can see: look at others")
    assert "--hub URL" in done.stderr
    waiting = run_fleet_smi("wait", "--here", env=simulated(Scenario(init="no-driver")))
    assert_error_line(waiting, 1, "this machine has no GPU")  # it would wait for ever
