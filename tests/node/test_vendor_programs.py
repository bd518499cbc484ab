"""Fallback on `amd-smi`, `rocm-smi` and `xpu-smi` where the kernel's files have too little."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet_smi.errors import NotAnswering, NotPresent, ReadFailed
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Snapshot
from fleet_smi.node import vendor_programs
from fleet_smi.node.collectors import QUICK_SUBJECTS
from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler
from fleet_smi.node.vendor_programs import fill_in, find_program, needs_program
from tests.cli.program import run_json
from tests.node.file_trees import write_tree
from tests.wire.parsers.vendor_samples import (
    AMD_UUID,
    amd_smi_outputs,
    install_program,
    install_script,
    logged_calls,
    rocm_smi_output,
    xpu_smi_outputs,
)

GIB = 1 << 30
PLACE = "00000000:29:00.0"
KERNEL_GPU = Gpu(
    uuid="intel-0000:29:00.0",
    uuid_is_made=True,
    index=3,
    vendor="intel",
    name="Intel GPU",
    pci_bus_id=PLACE,
    sm_clock_mhz=900,
    unread={"busy_percent": "not offered by this driver without root", "fan_percent": "no fan"},
)
PROGRAM_GPU = Gpu(
    uuid="intel-0000:29:00.0",
    uuid_is_made=True,
    index=0,
    vendor="intel",
    name="Intel(R) Data Center GPU Max 1550",
    pci_bus_id=PLACE,
    busy_percent=33.0,
    sm_clock_mhz=1600,
    processes=(),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH of this process, and of a reader that it starts."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(vendor_programs, "MORE_FOLDERS", ())
    return programs


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Callable[[], Snapshot]]:
    """Takes samples of a machine whose kernel lists no GPU."""
    root = write_tree(tmp_path / "root", {"proc/stat": "btime 1750000000\n"})
    sampler = Sampler(Reader(spawn_worker), root=root, subjects=QUICK_SUBJECTS, patient=True)
    yield sampler.sample
    sampler.close()


def outcomes(snapshot: Snapshot) -> dict[str, str]:
    return {run.name: run.outcome for run in snapshot.runs}


def run_named(snapshot: Snapshot, name: str) -> CollectorRun:
    (run,) = (run for run in snapshot.runs if run.name == name)
    return run


def test_amd_smi_is_run_where_the_kernel_lists_no_gpu(
    folder: Path, sample: Callable[[], Snapshot]
) -> None:
    install_program(folder, "amd-smi", amd_smi_outputs(7))
    for _ in range(2):
        (gpu,) = sample().gpus
        assert (gpu.uuid, gpu.name, gpu.busy_percent) == (AMD_UUID, "AMD Instinct MI355X", 87.0)
        assert (gpu.power_limit_watts, gpu.memory_used_bytes) == (1000.0, 2 * GIB)
        assert [process.pid for process in gpu.processes or ()] == [7]
    assert sorted(logged_calls(folder, "amd-smi"))[:2] == ["metric --json"] * 2


def test_rocm_smi_is_run_where_amd_smi_is_missing_or_fails(
    folder: Path, sample: Callable[[], Snapshot]
) -> None:
    install_script(folder, "amd-smi", "echo Traceback; exit 1")
    install_program(folder, "rocm-smi", rocm_smi_output(7))
    found = sample()
    assert [gpu.busy_percent for gpu in found.gpus] == [42.0]
    assert (outcomes(found)["amd_smi"], outcomes(found)["rocm_smi"]) == ("failed", "ok")
    # A program that failed is too costly to run at every sample.
    calls = len(logged_calls(folder, "amd-smi"))
    assert outcomes(sample())["amd_smi"] == "failed"
    assert len(logged_calls(folder, "amd-smi")) == calls


def test_xpu_smi_is_run_for_intel(folder: Path, sample: Callable[[], Snapshot]) -> None:
    install_program(folder, "xpu-smi", xpu_smi_outputs(7))
    (gpu,) = sample().gpus
    assert (gpu.vendor, gpu.busy_percent, gpu.memory_total_bytes) == ("intel", 33.0, 128 * GIB)


def test_programs_that_are_not_installed_are_not_listed(
    folder: Path, sample: Callable[[], Snapshot]
) -> None:
    assert not {"amd_smi", "rocm_smi", "xpu_smi"} & outcomes(sample()).keys()


def test_a_slow_program_is_killed_and_not_called_hung(
    folder: Path, sample: Callable[[], Snapshot]
) -> None:
    install_script(folder, "amd-smi", "exec sleep 60")
    run = run_named(sample(), "amd_smi")
    assert (run.outcome, run.fault) == ("failed", "unreadable")
    assert run.detail == "amd-smi did not end in time and was killed"


def test_what_some_commands_printed_counts_when_another_is_too_slow(
    folder: Path, sample: Callable[[], Snapshot]
) -> None:
    install_program(folder, "other", amd_smi_outputs(7))
    install_script(
        folder, "amd-smi", f'case $1 in process) exec sleep 60;; *) exec {folder}/other "$@";; esac'
    )
    (gpu,) = sample().gpus
    assert (gpu.busy_percent, gpu.processes) == (87.0, None)


def test_the_command_shows_the_gpus_of_the_program(folder: Path) -> None:
    install_program(folder, "amd-smi", amd_smi_outputs(os.getpid()))
    (node,) = run_json(env=dict(os.environ))["nodes"]
    (gpu,) = node["gpus"]
    assert (gpu["uuid"], gpu["busy_percent"], gpu["power_limit_watts"]) == (AMD_UUID, 87.0, 1000.0)
    (process,) = gpu["processes"]
    assert process["pid"] == os.getpid() and process["user"]


@pytest.mark.parametrize(
    ("gpus", "error", "expected"),
    [
        ([], NotPresent("no AMD GPU"), True),
        ([], None, True),
        ([], ReadFailed("denied"), True),
        ([], NotAnswering("hung"), False),
        ([KERNEL_GPU], None, True),
        ([PROGRAM_GPU], None, True),  # without its memory
        ([replace(PROGRAM_GPU, memory_used_bytes=0)], None, False),
        ([replace(PROGRAM_GPU, memory_shared=True)], None, False),
        ([Gpu(uuid="a", index=0, vendor="amd", asleep=True), KERNEL_GPU], None, False),
        (
            [Gpu(uuid="a", index=0, vendor="amd", fault=Fault(kind="lost", detail=""))],
            None,
            False,
        ),
    ],
)
def test_the_program_is_needed_where_files_give_no_gpu_or_no_figure(
    gpus: list[Gpu], error: ReadFailed | None, expected: bool
) -> None:
    assert needs_program(gpus, error) is expected


def test_figures_of_the_program_fill_gaps_and_overrule_nothing() -> None:
    other = Gpu(uuid="intel-0000:4d:00.0", index=1, vendor="intel")
    filled, added = fill_in([KERNEL_GPU], [PROGRAM_GPU, other])
    assert (filled.index, filled.name, filled.sm_clock_mhz) == (3, "Intel GPU", 900)
    assert (filled.busy_percent, filled.processes) == (33.0, ())
    assert filled.unread == {"fan_percent": "no fan"}
    assert added == other


def test_a_program_is_found_on_path_and_where_rocm_installs_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_program("rocm_smi") is None
    monkeypatch.setattr(vendor_programs, "MORE_FOLDERS", (str(tmp_path / "rocm"),))
    install_script(tmp_path / "rocm", "rocm-smi", "")
    assert find_program("rocm_smi") == str(tmp_path / "rocm" / "rocm-smi")
    install_script(folder, "rocm-smi", "")
    assert find_program("rocm_smi") == str(folder / "rocm-smi")
