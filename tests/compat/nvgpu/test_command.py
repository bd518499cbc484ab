"""`fleet-smi like nvgpu` as a user runs it, here and over a hub."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fleet_smi.compat.nvgpu.source import NvgpuSource
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.compat.nvgpu.statuses import IDLE
from tests.delivery.fixed_response_server import FixedResponseServer
from tests.machines import UserProcesses, wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated

FREE = SimGpu(memory_used=4 * MIB)
FULL = SimGpu(memory_used=60 * GIB)


def nvgpu(*arguments: str, env: dict[str, str]) -> str:
    done = run_fleet_smi("like", "nvgpu", *arguments, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_available_prints_indices_in_their_order(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[FREE, FULL, FULL, FREE, FREE]))
    assert nvgpu("available", env=env) == "0,3,4\n"
    assert nvgpu("available", "-l", "1", env=env) == "0\n"
    assert nvgpu("available", "--limit", "9", env=env) == "0,3,4\n"
    assert nvgpu("available", "--max-used", "90", env=env) == "0,1,2,3,4\n"


def test_a_gpu_with_a_little_in_use_is_available_by_this_rule(
    simulated: Simulated, people: UserProcesses
) -> None:
    notebook = SimProcess(pid=people.start(), memory=500 * MIB)
    env = simulated(Scenario(gpus=[SimGpu(memory_used=500 * MIB, processes=[notebook])]))
    assert nvgpu("available", env=env) == "0\n"


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_that_is_invalid_is_an_error(simulated: Simulated, limit: str) -> None:
    done = run_fleet_smi(
        "like", "nvgpu", "available", "-l", limit, env=simulated(Scenario(gpus=[FREE]))
    )
    assert_error_line(done, 2, "ask for one GPU or more")


def test_a_limit_for_the_list_is_an_error_and_not_forgotten(simulated: Simulated) -> None:
    done = run_fleet_smi("like", "nvgpu", "list", "-l", "3", env=simulated(Scenario(gpus=[FREE])))
    assert_error_line(done, 2, "-l goes with available")


def test_what_is_not_known_to_be_free_has_a_mark_of_its_own(simulated: Simulated) -> None:
    blind = SimGpu(memory_total=None, memory_used=None)
    env = simulated(Scenario(gpus=[FREE, blind, FULL]))
    marks = [line[4:7] for line in nvgpu("list", env=env).splitlines()[2:]]
    assert marks == ["[ ]", "[?]", "[?]"]


def test_nothing_available_prints_nothing_and_fails(simulated: Simulated) -> None:
    done = run_fleet_smi("like", "nvgpu", "available", env=simulated(Scenario(gpus=[FULL])))
    assert_error_line(done, 1, "no GPU has at most 20 % of its memory in use")


def test_a_gpu_that_is_lost_or_has_no_memory_figures_is_not_available(simulated: Simulated) -> None:
    lost = SimGpu(faults={"*": "lost"})
    blind = SimGpu(memory_total=None, memory_used=None)
    assert nvgpu("available", env=simulated(Scenario(gpus=[lost, FREE, blind]))) == "1\n"


def test_a_machine_without_a_driver_is_one_line(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    for command in ("available", "list"):
        done = run_fleet_smi("like", "nvgpu", command, env=env)
        assert_error_line(done, 1, "nvgpu: cannot query the NVIDIA driver: ")


def test_instances_are_printed_as_cuda_takes_them(simulated: Simulated) -> None:
    divided = SimGpu(mig=True, instances=[SimInstance(profile="1g.10gb", gi=9)])
    assert nvgpu("available", env=simulated(Scenario(gpus=[divided]))).startswith("MIG-")


def test_mixed_models_come_with_a_warning_of_cudas_order(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[FREE, SimGpu(name="NVIDIA GeForce RTX 4090")]))
    done = run_fleet_smi("like", "nvgpu", "available", env=env)
    assert (done.returncode, done.stdout) == (0, "0,1\n")
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in done.stderr


def test_the_list_has_the_columns_of_nvgpu(simulated: Simulated, people: UserProcesses) -> None:
    pid = people.start("sleep", "600")
    train = SimProcess(pid=pid, memory=60 * GIB)
    stuck = [SimProcess(pid=999_999_7, memory=GIB), SimProcess(pid=999_999_8, memory=GIB)]
    gpus = [
        SimGpu(temperature=34, clock_sm=210),
        SimGpu(memory_used=60 * GIB, util_gpu=97, temperature=71, processes=[train]),
        SimGpu(memory_used=2 * GIB, processes=stuck),
    ]
    env = simulated(Scenario(gpus=gpus))
    head, _, *lines = [" ".join(each.split()) for each in nvgpu("list", env=env).splitlines()]
    assert head == "status type util. temp. MHz users since pids cmd"
    user = pwd.getpwuid(os.getuid()).pw_name
    assert lines[0] == "0 [ ] NVIDIA H100 80GB HBM3 0 % 34 210"
    assert lines[1] == f"1 [~] NVIDIA H100 80GB HBM3 97 % 71 345 {user} just now {pid} sleep 600"
    assert lines[2].split()[1] == "[!]"
    assert "64.42GB" in nvgpu("list", "--memory", env=env)
    assert "\x1b[32m[ ]\x1b[0m" in nvgpu("list", "--color", env=env)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "hub") as running:
        busy = gpu(0, memory_used_bytes=60 * GIB, processes=(process(7, "alice"),))
        blind = gpu(2, memory_used_bytes=None, memory_total_bytes=None)
        running.join_and_report(snapshot_now("gpu10", busy, gpu(1), blind, gpu(3)))
        running.join_and_report(snapshot_now("gpu2", gpu(0, uuid="GPU-2")))
        yield running


def test_over_a_hub_the_available_gpus_are_those_of_this_machine(
    hub: ThreadedHub, tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path), "FLEET_SMI_NODE_NAME": "gpu10"}
    assert nvgpu("available", "--hub", hub.url, env=env) == "1,3\n"
    assert nvgpu("available", "-l", "1", "--hub", hub.url, env=env) == "1\n"


def test_over_a_hub_that_does_not_know_this_machine_nothing_is_available(
    hub: ThreadedHub, tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path), "FLEET_SMI_NODE_NAME": "laptop"}
    done = run_fleet_smi("like", "nvgpu", "available", "--hub", hub.url, env=env)
    assert_error_line(done, 1, "this machine (laptop) is not a node of that fleet")


def test_over_a_hub_a_gpu_whose_memory_is_not_reported_is_not_available(tmp_path: Path) -> None:
    agent = FixedResponseServer(0, msgspec.json.encode({"hostname": "gpu02", "gpus": [IDLE]}))
    env = {"HOME": str(tmp_path), "FLEET_SMI_NODE_NAME": "gpu02"}
    try:
        source = NvgpuSource([f"127.0.0.1:{agent.port}"], interval_seconds=0.2)
        with ThreadedHub(tmp_path / "hub", [source]) as running:
            wait_until(lambda: any(node.gpus for node in running.fleet().nodes))
            done = run_fleet_smi("like", "nvgpu", "available", "--hub", running.url, env=env)
    finally:
        agent.close()
    assert_error_line(done, 1, "no GPU has at most 20 % of its memory in use")


def test_a_single_machine_that_is_named_is_the_one(tmp_path: Path) -> None:
    (tmp_path / "cml10").write_text(
        "cml10  Sun Nov 15 19:30:14 2026  550.90.07\n"
        "[0] NVIDIA GeForce RTX 3090 | 71'C,  97 % | 13578 / 24576 MB | alice(11264M)\n"
        "[1] NVIDIA GeForce RTX 3090 | 30'C,   0 % |     3 / 24576 MB |\n"
    )
    env = {"HOME": str(tmp_path)}
    assert nvgpu("available", "--dir", str(tmp_path / "cml*"), env=env) == "1\n"


def test_over_a_hub_each_machine_is_named_in_the_list(hub: ThreadedHub, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    shown = nvgpu("list", "--hub", hub.url, env=env)
    first, second = shown.split("\n\n")
    assert first.startswith("gpu2\n")
    assert second.startswith("gpu10\n")
    assert "alice" in second
