"""The summary of the processes on a GPU."""

from msgspec.structs import replace

from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.process_group import EMPTY_GROUP, UNREADABLE_GROUP, summarize_processes
from tests.builders import process

ALICE = process()
BOB = process(5, "bob", gpu_memory_bytes=20 * GIB)
SCREEN = process(7, "root", kind="graphics", name="Xorg")
MPS = process(9, "root", name="nvidia-cuda-mps-server")
ZOMBIE = process(11, "carol", condition="zombie")


def test_an_empty_list_differs_from_an_unreadable_one() -> None:
    assert summarize_processes(()) is EMPTY_GROUP
    assert summarize_processes(None) is UNREADABLE_GROUP
    assert (EMPTY_GROUP.empty, EMPTY_GROUP.unoccupied) == (True, True)
    assert (UNREADABLE_GROUP.empty, UNREADABLE_GROUP.unoccupied) == (False, False)


def test_living_compute_processes_are_named() -> None:
    group = summarize_processes((ALICE, BOB, SCREEN, MPS, ZOMBIE))
    assert (group.name, group.named_memory_bytes) == ("bob and alice", 36 * GIB)
    assert (group.computes, group.has_living) == (True, True)
    assert [note.words for note in group.notes] == ["shared by 3"]


def test_a_display_or_an_mps_server_alone_computes_nothing() -> None:
    assert not summarize_processes((SCREEN,)).computes
    assert summarize_processes((MPS,)).unoccupied


def test_the_summary_of_unchanged_processes_is_reused() -> None:
    known = summarize_processes((ALICE, BOB))
    moved = replace(ALICE, cpu_percent=99.0, host_memory_bytes=1, busy_percent=3.0)
    assert summarize_processes((moved, BOB), known) is known


def test_changed_memory_or_condition_makes_a_new_summary() -> None:
    known = summarize_processes((ALICE, BOB))
    larger = summarize_processes((replace(ALICE, gpu_memory_bytes=30 * GIB), BOB), known)
    assert (larger.name, larger.pids) == ("alice and bob", known.pids)
    assert summarize_processes((replace(ALICE, condition="zombie"), BOB), known).name == "bob"
