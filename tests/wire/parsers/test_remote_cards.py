"""AMD and Intel GPUs over ssh: the script in real shells, with fake vendor programs."""

import os
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.errors import Undecodable
from fleet_smi.model.snapshot import CollectorRun, Snapshot
from fleet_smi.wire.parsers.remote_shell import parse_script_output
from tests.machines import require_program
from tests.node.file_trees import Content, write_tree
from tests.wire.parsers.remote_nodes import (
    MARK,
    machine_files,
    only_snapshot,
    proc_stat,
    run_script,
)
from tests.wire.parsers.vendor_samples import (
    AMD_UUID,
    UNIQUE_ID,
    amd_smi_outputs,
    install_program,
    install_script,
    logged_calls,
    rocm_smi_output,
    xpu_smi_outputs,
)

GIB = 1 << 30
SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])


def read_node(folder: Path, **more: Any) -> Snapshot:
    body = run_script({"PATH": f"{folder}:/usr/bin:/bin"}, **more)
    return only_snapshot(parse_script_output(body, MARK))


def run_named(snapshot: Snapshot, name: str) -> CollectorRun:
    (run,) = (run for run in snapshot.runs if run.name == name)
    return run


def card_files(card: str, address: str, vendor: str, state: str) -> dict[str, Content]:
    device = f"sys/devices/pci/{address}"
    return {
        f"sys/class/drm/{card}/device": Path(f"../../../devices/pci/{address}"),
        f"{device}/vendor": f"{vendor}\n",
        f"{device}/device": "0x74a1\n",
        f"{device}/unique_id": f"{UNIQUE_ID:016x}\n",
        f"{device}/power/runtime_status": f"{state}\n",
    }


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_amd_smi_gives_gpus_with_their_processes(shell: list[str], tmp_path: Path) -> None:
    require_program(shell[0])
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(os.getpid()))
    found = read_node(tmp_path / "bin", shell=shell)
    (gpu,) = found.gpus
    assert (gpu.uuid, gpu.vendor, gpu.name) == (AMD_UUID, "amd", "AMD Instinct MI355X")
    assert (gpu.busy_percent, gpu.power_watts, gpu.power_limit_watts) == (87.0, 812.0, 1000.0)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (2 * GIB, 294896 << 20)
    (process,) = gpu.processes or ()
    assert (process.pid, process.uid, process.gpu_memory_bytes) == (os.getpid(), os.getuid(), GIB)
    assert process.command and not process.hidden
    assert run_named(found, "amd_smi").outcome == "ok"
    assert run_named(found, "nvidia_smi").outcome == "absent"


def test_rocm_smi_is_run_where_there_is_no_amd_smi(tmp_path: Path) -> None:
    install_program(tmp_path / "bin", "rocm-smi", rocm_smi_output(os.getpid()))
    found = read_node(tmp_path / "bin")
    (gpu,) = found.gpus
    assert (gpu.uuid, gpu.busy_percent, gpu.memory_used_bytes) == (AMD_UUID, 42.0, 2 * GIB)
    (process,) = gpu.processes or ()
    assert (process.pid, process.hidden) == (os.getpid(), False)
    assert run_named(found, "rocm_smi").outcome == "ok"


def test_amd_smi_comes_before_rocm_smi(tmp_path: Path) -> None:
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(os.getpid()))
    install_program(tmp_path / "bin", "rocm-smi", rocm_smi_output(os.getpid()))
    assert len(read_node(tmp_path / "bin").gpus) == 1
    assert logged_calls(tmp_path / "bin", "rocm-smi") == []


def test_xpu_smi_gives_intel_gpus(tmp_path: Path) -> None:
    install_program(tmp_path / "bin", "xpu-smi", xpu_smi_outputs(os.getpid()))
    found = read_node(tmp_path / "bin")
    (gpu,) = found.gpus
    assert gpu.uuid.startswith("intel-0000:29:00.0@")
    assert (gpu.busy_percent, gpu.memory_used_bytes) == (33.0, 2 * GIB)
    assert gpu.memory_total_bytes == 128 * GIB
    (process,) = gpu.processes or ()
    assert (process.pid, process.gpu_memory_bytes, process.hidden) == (os.getpid(), GIB, False)


def test_both_vendors_on_one_node(tmp_path: Path) -> None:
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(os.getpid()))
    install_program(tmp_path / "bin", "xpu-smi", xpu_smi_outputs(os.getpid()))
    assert [gpu.vendor for gpu in read_node(tmp_path / "bin").gpus] == ["amd", "intel"]


def test_a_sleeping_card_is_listed_and_not_woken(tmp_path: Path) -> None:
    cards = card_files("card0", "0000:03:00.0", "0x1a03", "active")
    cards |= card_files("card1", "0000:05:00.0", "0x1002", "suspended")
    cards |= card_files("card2", "0000:06:00.0", "0x1002", "active")
    root = write_tree(tmp_path / "root", machine_files(7) | cards)
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(7))
    found = read_node(tmp_path / "bin", root=root)
    assert logged_calls(tmp_path / "bin", "amd-smi") == []
    asleep, awake = found.gpus
    assert (asleep.uuid, asleep.asleep, asleep.name) == (AMD_UUID, True, "AMD Instinct MI300X")
    assert (asleep.pci_bus_id, asleep.fault) == ("00000000:05:00.0", None)
    assert (awake.asleep, awake.memory_used_bytes) == (False, None)
    assert "sleeps" in awake.unread["memory_used_bytes"]
    # The end of the sentence "read through amd_smi, which ...".
    detail = run_named(found, "amd_smi").detail
    assert detail == "is not run while a GPU sleeps, because that would wake it"


def test_a_program_without_gpus_is_absent(tmp_path: Path) -> None:
    install_program(tmp_path / "bin", "amd-smi", "ERROR:root:Unable to detect any GPU devices\n")
    found = read_node(tmp_path / "bin")
    assert found.gpus == ()
    assert (run_named(found, "amd_smi").outcome, run_named(found, "amd_smi").fault) == (
        "absent",
        None,
    )


def test_a_program_that_fails_is_reported_and_its_cards_stay_listed(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "root",
        machine_files(7) | card_files("card1", "0000:05:00.0", "0x1002", "active"),
    )
    install_program(tmp_path / "bin", "amd-smi", "Traceback (most recent call last):\n")
    found = read_node(tmp_path / "bin", root=root)
    run = run_named(found, "amd_smi")
    assert (run.outcome, run.fault) == ("failed", "unreadable")
    assert [(gpu.uuid, gpu.fault and gpu.fault.kind) for gpu in found.gpus] == [
        (AMD_UUID, "unreadable")
    ]


def test_all_commands_of_a_slow_program_share_one_timeout(tmp_path: Path) -> None:
    require_program("timeout")
    install_script(tmp_path / "bin", "amd-smi", "exec sleep 60")
    found = read_node(tmp_path / "bin", timeout_seconds=1)
    run = run_named(found, "amd_smi")
    assert (run.outcome, run.fault) == ("failed", "unreadable")
    assert "did not end in time" in run.detail
    assert run.seconds < 3


def test_a_program_is_not_started_beside_one_that_is_stuck_in_the_driver(tmp_path: Path) -> None:
    stuck: dict[str, Content] = {
        "proc/66/stat": proc_stat(66, b"timeout"),
        "proc/66/cmdline": b"timeout\0-s\0KILL\08\0amd-smi\0metric\0--json\0",
    }
    root = write_tree(tmp_path / "root", machine_files(7) | stuck)
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(7))
    run = run_named(read_node(tmp_path / "bin", root=root), "amd_smi")
    assert logged_calls(tmp_path / "bin", "amd-smi") == []
    assert (run.outcome, run.fault) == ("failed", "not_answering")


def test_output_cut_off_in_a_program_means_a_hung_driver(tmp_path: Path) -> None:
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(7))
    whole = run_script({"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    cut = whole[: whole.index(b" amd_smi@metric ") + 30]
    found = only_snapshot(parse_script_output(cut, MARK, within_deadline=False))
    assert run_named(found, "amd_smi").fault == "not_answering"
    with pytest.raises(Undecodable):
        parse_script_output(cut, MARK)


def test_in_a_container_the_pids_of_the_driver_are_not_looked_up(tmp_path: Path) -> None:
    elsewhere: dict[str, Content] = {"dev/kfd": "", "proc/self/ns/pid": Path("pid:[4026539999]")}
    root = write_tree(tmp_path / "root", machine_files(7, b"other\0") | elsewhere)
    install_program(tmp_path / "bin", "amd-smi", amd_smi_outputs(7))
    (gpu,) = read_node(tmp_path / "bin", root=root).gpus
    (process,) = gpu.processes or ()
    assert process.hidden
