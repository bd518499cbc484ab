"""The amd collector: which processes are on which GPU, from both drivers' files."""

from pathlib import Path

import pytest

from fleet_smi.model.snapshot import Process
from fleet_smi.node.bindings import amdgpu
from fleet_smi.node.collectors.amd import AmdCollector
from tests.node.collectors.amd_files import KFD, compute_nodes, read_gpus
from tests.node.file_trees import drm_card, drm_client, write_tree

TWO_CARDS = drm_card("amdgpu") | drm_card("amdgpu", number=2, pci="0000:04:00.0")


def test_a_process_is_on_the_gpus_it_holds_memory_or_queues_of(tmp_path: Path) -> None:
    tree = (
        TWO_CARDS
        | compute_nodes(0x300, 0x400)
        | {
            f"{KFD}/proc/41/vram_1001": "1048576\n",
            f"{KFD}/proc/41/vram_1002": "0\n",
            f"{KFD}/proc/42/vram_1002": "0\n",
            f"{KFD}/proc/42/queues/1/gpuid": "1002\n",
            "proc/1/fd/0": Path("/dev/null"),
        }
    )
    first, second = read_gpus(write_tree(tmp_path, tree))
    assert first.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=1048576),)
    assert second.processes == (Process(pid=42, kind="compute", gpu_memory_bytes=0),)
    assert "processes" not in first.unread


def test_gpus_are_counted_as_hip_counts_them(tmp_path: Path) -> None:
    tree = TWO_CARDS | compute_nodes(0x400, 0x300)
    found = read_gpus(write_tree(tmp_path, tree))
    assert [(g.index, g.uuid) for g in found] == [(0, "amd-0000:04:00.0"), (1, "amd-0000:03:00.0")]


def test_processes_on_partitions_are_on_the_card(tmp_path: Path) -> None:
    tree = (
        drm_card("amdgpu")
        | compute_nodes(0x300, 0x301, 0x302)
        | {
            f"{KFD}/proc/41/vram_1002": "100\n",
            f"{KFD}/proc/41/vram_1003": "20\n",
            "proc/1/fd/0": Path("/dev/null"),
        }
    )
    (gpu,) = read_gpus(write_tree(tmp_path, tree))
    assert gpu.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=120),)


def test_memory_that_both_drivers_count_is_not_added(tmp_path: Path) -> None:
    tree = drm_card("amdgpu") | compute_nodes(0x300) | {f"{KFD}/proc/41/vram_1001": "4096\n"}
    tree |= drm_client(41, "renderD128", drm_memory_vram="5 KiB", drm_memory_gtt="9 KiB")
    (gpu,) = read_gpus(write_tree(tmp_path, tree))
    assert gpu.processes == (Process(pid=41, kind="compute", gpu_memory_bytes=5120),)


@pytest.mark.parametrize(
    "engines, kind",
    [
        ({}, "graphics"),
        ({"drm_engine_gfx": "9 ns", "drm_engine_compute": "0 ns"}, "graphics"),
        ({"drm_engine_compute": "9 ns"}, "compute"),
        ({"drm_engine_compute": "9 ns", "drm_engine_gfx": "9 ns"}, "compute+graphics"),
    ],
)
def test_the_kind_of_a_client_follows_from_its_engines(
    tmp_path: Path, engines: dict[str, str], kind: str
) -> None:
    tree = drm_card("amdgpu") | drm_client(41, "renderD128", 5, drm_memory_vram="2 MiB", **engines)
    (gpu,) = read_gpus(write_tree(tmp_path, tree))
    assert gpu.processes is not None
    assert [(p.kind, p.gpu_memory_bytes) for p in gpu.processes] == [(kind, 2 << 20)]


def test_no_process_is_not_the_same_as_unknown_processes(tmp_path: Path) -> None:
    looked = write_tree(
        tmp_path / "looked", drm_card("amdgpu") | {"proc/1/fd/0": Path("/dev/null")}
    )
    blind = write_tree(tmp_path / "blind", drm_card("amdgpu"))
    assert [read_gpus(root)[0].processes for root in (looked, blind)] == [(), None]


def test_unreadable_clients_are_reported_beside_compute_processes(tmp_path: Path) -> None:
    raw = amdgpu.read(write_tree(tmp_path, drm_card("amdgpu") | compute_nodes(0x300)))
    raw["drm"] = {"clients": [], "refused": 300, "whole": True, "listed": True}
    (gpu,) = AmdCollector().parse(raw).gpus
    assert gpu.processes == ()
    assert "300 processes cannot be read without root" in gpu.unread["processes"]
