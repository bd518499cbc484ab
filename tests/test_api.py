"""The Python API on the local machine: threads, forks, and nvgpu's functions."""

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import fleet_smi
from fleet_smi import api
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.local import SharedFleet
from fleet_smi.node.reader import Reader
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.machines import SimulatedMachine, UserProcesses, wait_until


@pytest.fixture(autouse=True)
def own_machine(
    machine: SimulatedMachine, people: UserProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two free GPUs and a busy one."""
    busy = SimProcess(pid=people.start(), memory=30 * GIB)
    gpus = [
        SimGpu(memory_used=4 * MIB, temperature=50),
        SimGpu(memory_used=31 * GIB, util_gpu=80, processes=[busy]),
        SimGpu(memory_used=4 * MIB, temperature=30),
    ]
    machine.set_scenario(Scenario(gpus=gpus))
    own = SharedFleet()
    monkeypatch.setattr(api, "_machine", own)


@pytest.fixture(autouse=True)
def closed(own_machine: None) -> object:
    yield
    if api._machine._fleet is not None:
        api._machine._fleet.close()


def test_gpus_come_with_their_verdicts() -> None:
    assert [gpu.verdict.state for gpu in fleet_smi.gpus()] == ["free", "busy", "free"]


def test_a_snapshot_has_no_verdicts() -> None:
    snapshot = fleet_smi.snapshot()
    assert len(snapshot.gpus) == 3
    assert not hasattr(snapshot.gpus[0], "verdict")
    assert snapshot.host.driver_version == "590.48.01"


def test_the_best_free_gpus_are_offered() -> None:
    assert [gpu.index for gpu in fleet_smi.free(2)] == [2, 0]
    assert fleet_smi.free()[0].uuid.startswith("GPU-")


def test_free_stays_inside_cuda_visible_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert [gpu.index for gpu in fleet_smi.free(1)] == [0]
    with pytest.raises(Unmet, match="CUDA_VISIBLE_DEVICES=0,1 leaves out 1 more"):
        fleet_smi.free(2)


@pytest.mark.parametrize("count", ["1", 1.5, None, True])
def test_a_count_that_is_no_whole_number_is_a_usage_error(count: Any) -> None:
    with pytest.raises(UsageError, match="give a whole number"):
        fleet_smi.free(n=count)
    with pytest.raises(UsageError, match="give a whole number"):
        fleet_smi.Fleet("http://127.0.0.1:9").free(n=count)


def test_min_free_takes_text_or_bytes() -> None:
    assert len(fleet_smi.free(2, min_free="40GiB")) == 2
    assert len(fleet_smi.free(2, min_free=40 * GIB)) == 2
    with pytest.raises(UsageError, match="min_free=40 is in bytes: write '40GiB'"):
        fleet_smi.free(2, min_free=40)
    with pytest.raises(Unmet):
        fleet_smi.free(1, min_free="100GiB")


def test_too_few_free_gpus_raise_unmet() -> None:
    with pytest.raises(Unmet, match="2 of 3 requested GPUs are free"):
        fleet_smi.free(3)


def test_invalid_arguments_raise_usage_error() -> None:
    with pytest.raises(UsageError):
        fleet_smi.free(1, policy="magic")


def test_gpu_info_has_the_shape_of_nvgpu() -> None:
    first = fleet_smi.gpu_info()[0]
    assert first == {
        "index": "0",
        "type": "NVIDIA H100 80GB HBM3",
        "uuid": "GPU-00000000-0000-4000-8000-000000000000",
        "mem_used": 4,
        "mem_total": 81559,
        "mem_used_percent": pytest.approx(100 * 4 / 81559),
    }


def test_available_gpus_are_those_with_free_memory_as_in_nvgpu() -> None:
    assert fleet_smi.available_gpus() == ["0", "2"]
    assert fleet_smi.available_gpus(max_used_percent=50) == ["0", "1", "2"]


def test_available_mig_instances_are_returned_as_uuids(machine: SimulatedMachine) -> None:
    instances = [SimInstance(profile="1g.10gb", gi=number) for number in (7, 8)]
    machine.set_scenario(SimGpu(mig=True, instances=instances))
    uuids = fleet_smi.available_gpus()
    assert len(set(uuids)) == 2
    assert all(each.startswith("MIG-") for each in uuids)


def test_unknown_memory_is_none_and_never_zero(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_total=None, memory_used=None))
    (info,) = fleet_smi.gpu_info()
    assert (info["mem_used"], info["mem_total"], info["mem_used_percent"]) == (None, None, None)
    assert fleet_smi.available_gpus() == []


def test_threads_can_call_concurrently() -> None:
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: counts.append(len(fleet_smi.gpus()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [3] * 8


def count_gpus(results: "multiprocessing.SimpleQueue[int]") -> None:
    results.put(len(fleet_smi.gpus()))
    assert api._machine._fleet is not None
    api._machine._fleet.close()


def test_a_forked_child_starts_its_own_reader() -> None:
    assert len(fleet_smi.gpus()) == 3
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    copy = fork.Process(target=count_gpus, args=(results,))
    copy.start()
    copy.join()
    assert results.get() == 3
    assert len(fleet_smi.gpus()) == 3


def test_it_works_with_more_open_files_than_select_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with contextlib.ExitStack() as files:
        for _ in range(1100):
            files.enter_context(Path(os.devnull).open())
        assert len(fleet_smi.gpus()) == 3
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_forked_child_does_not_keep_the_reader_alive() -> None:
    fleet_smi.gpus()
    reader = api._machine.fleet()._sampler._reader
    assert isinstance(reader, Reader)
    child = reader._worker
    assert child is not None
    copy = os.fork()
    if copy == 0:
        signal.pause()
    try:
        child.detach()
        wait_until(child.has_exited)
    finally:
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)
        api._machine._fleet = None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gpuz'"):
        fleet_smi.gpuz  # noqa: B018
