"""Which processes have a GPU's device file open."""

import os
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.node.bindings import drm_clients
from tests.node.file_trees import drm_client, write_tree

NODES = {"card1": "0000:03:00.0", "renderD128": "0000:03:00.0"}


def _look(root: str, at: float = 0.0) -> dict[str, Any]:
    return drm_clients.read_clients(root, NODES, clock=lambda: at)


def test_a_client_is_found_with_its_memory_and_engines(tmp_path: Path) -> None:
    tree = drm_client(
        41,
        "renderD128",
        drm_pdev="0000:03:00.0",
        drm_memory_vram="12 KiB",
        drm_engine_compute="5 ns",
        drm_engine_gfx="0 ns",
    )
    found = _look(write_tree(tmp_path, tree))
    assert found["clients"] == [
        {
            "pid": 41,
            "pci": "0000:03:00.0",
            "id": "7",
            "memory": {"vram": "12 KiB"},
            "engines": {"compute": "5 ns", "render": "0 ns"},
        }
    ]
    assert (found["refused"], found["whole"], found["listed"]) == (0, True, True)


def test_what_is_resident_is_preferred_to_what_is_allocated(tmp_path: Path) -> None:
    tree = drm_client(
        41,
        "card1",
        drm_total_vram0="90 MiB",
        drm_resident_vram0="12 MiB",
        drm_total_cycles_ccs="77",
    )
    (found,) = _look(write_tree(tmp_path, tree))["clients"]
    assert found["memory"] == {"vram0": "12 MiB"}


def test_device_files_of_other_gpus_are_not_opened(tmp_path: Path) -> None:
    assert _look(write_tree(tmp_path, drm_client(41, "renderD129")))["clients"] == []


def test_a_client_that_a_fork_inherited_counts_once(tmp_path: Path) -> None:
    tree = (
        drm_client(41, "renderD128") | drm_client(52, "renderD128") | drm_client(53, "renderD128")
    )
    tree |= drm_client(53, "renderD128", drm_client_id="8")
    assert [c["pid"] for c in _look(write_tree(tmp_path, tree))["clients"]] == [41, 53]


def test_a_seat_manager_is_not_a_client(tmp_path: Path) -> None:
    tree = drm_client(41, "card1") | {"proc/41/comm": "systemd-logind\n"} | drm_client(900, "card1")
    assert [c["pid"] for c in _look(write_tree(tmp_path, tree))["clients"]] == [900]


@pytest.mark.parametrize("refused_call", ["listdir", "readlink"])
def test_unreadable_processes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused_call: str
) -> None:
    root = write_tree(
        tmp_path, drm_client(41, "renderD128") | drm_client(42, "renderD128", drm_client_id="8")
    )
    real = getattr(os, refused_call)

    def refuse(path: str) -> Any:
        if "/proc/41/" in path:
            raise PermissionError(13, "denied", path)
        return real(path)

    monkeypatch.setattr(os, refused_call, refuse)
    found = _look(root)
    assert ([c["pid"] for c in found["clients"]], found["refused"]) == ([42], 1)


def test_without_a_list_of_processes_nothing_is_claimed(tmp_path: Path) -> None:
    assert _look(str(tmp_path)) == {"clients": [], "refused": 0, "whole": True, "listed": False}


def test_a_process_without_a_gpu_is_scanned_again_after_ten_seconds(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/41/fd/0": Path("/dev/null")})
    assert _look(root, at=0.0)["clients"] == []
    write_tree(
        tmp_path, {k: v for k, v in drm_client(41, "renderD128").items() if not k.endswith("fd/0")}
    )
    assert _look(root, at=9.0)["clients"] == []
    assert [c["pid"] for c in _look(root, at=10.0)["clients"]] == [41]


def test_a_new_process_is_in_the_next_reading(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/41/fd/0": Path("/dev/null")})
    _look(root, at=0.0)
    write_tree(tmp_path, drm_client(42, "renderD128"))
    assert [c["pid"] for c in _look(root, at=1.0)["clients"]] == [42]


def test_a_limit_that_was_reached_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drm_clients, "_MAX_DESCRIPTORS", 1)
    found = _look(write_tree(tmp_path, drm_client(41, "renderD128")))
    assert (found["clients"], found["whole"]) == ([], False)


def test_a_process_beyond_the_limit_is_found_in_the_next_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {f"proc/41/fd/{number}": Path("/dev/null") for number in range(5)}
    root = write_tree(tmp_path, others | drm_client(42, "renderD128"))
    monkeypatch.setattr(drm_clients, "_MAX_DESCRIPTORS", 5)
    assert _look(root, at=0.0)["clients"] == []
    # By then it is known that the first process has no GPU open.
    found = _look(root, at=1.0)
    assert ([client["pid"] for client in found["clients"]], found["whole"]) == ([42], True)


def test_what_is_not_of_drm_is_ignored(tmp_path: Path) -> None:
    tree = drm_client(41, "renderD128") | {
        "proc/41/fdinfo/5": "pos:\t0\n",
        "proc/42/fd/3": Path("/dev/kfd"),
        "proc/42/fdinfo/3": "pos:\t0\n",
        "proc/self/fd/0": Path("/dev/dri/card1"),
    }
    found = _look(write_tree(tmp_path, tree))
    assert (found["clients"], found["listed"]) == ([], True)
