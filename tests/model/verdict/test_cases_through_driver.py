"""The verdict cases of use, by their numbers, through the simulated driver and NVML binding.

What is broken, silent or closed is in `test_device_cases_through_driver.py`. Case 30 needs no
driver: a lease is made in the hub.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.model.verdict.judge import Lease, Thresholds, judge
from fleet_smi.model.verdict.window import add_sample
from sim.build import find_compiler
from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.machines import SimulatedMachine, UserProcesses, process_state, require_root, wait_until
from tests.model.verdict.driver_cases import (
    BUSY_WATTS,
    HOURS_3,
    IDLE_WATTS,
    MINUTES_12,
    NO_LISTS,
    assert_verdict,
    busy,
)
from tests.nvidia_kernel_files import write_nvidia_kernel_files
from tests.verdicts import note_texts


def test_case_01_without_processes_is_free(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_used=4 * MIB))
    assert_verdict(machine.verdict(), "free", "nobody on it")


def test_case_02_a_display_server_alone_leaves_it_free(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    display = SimProcess(pid=people.start(), kind="graphics", memory=300 * MIB)
    machine.set_scenario(SimGpu(memory_used=300 * MIB, util_gpu=3, processes=[display]))
    assert_verdict(machine.verdict(), "free", "display only")


def test_case_03_load_without_a_process_is_a_process_that_cannot_be_seen(
    machine: SimulatedMachine,
) -> None:
    machine.set_scenario(SimGpu(memory_used=500 * MIB, util_gpu=35, power_usage=BUSY_WATTS))
    assert_verdict(machine.watch(300), "busy", "cannot be seen")


def test_case_04_much_memory_and_no_process_is_a_ghost(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_used=71 * GIB))
    assert_verdict(machine.watch(300), "ghost", "71.0 GiB used, no process accounts for it")


def test_case_05_memory_and_load_without_a_process_is_busy(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_used=71 * GIB, util_gpu=97, power_usage=BUSY_WATTS))
    assert_verdict(machine.verdict(), "busy", "cannot be seen")


def test_case_06_memory_beyond_its_processes_is_noted(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    process = SimProcess(pid=people.start(), memory=10 * GIB)
    machine.set_scenario(SimGpu(memory_used=71 * GIB, processes=[process]))
    verdict = machine.watch(HOURS_3)
    assert_verdict(verdict, "held", "idle for")
    assert any(
        "61.0 GiB more than its processes account for" in note.words for note in verdict.notes
    )


def test_case_07_a_process_idle_for_hours_holds_it(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start()))
    assert_verdict(machine.watch(HOURS_3), "held", "idle for 3 h, 16.0 GiB allocated")


def test_case_08_a_short_rest_after_work_is_still_busy(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    pid = people.start()
    machine.set_scenario(busy(pid, util_gpu=95, power_usage=BUSY_WATTS))
    machine.watch(600)
    machine.set_scenario(busy(pid))
    machine.poll(660)
    assert_verdict(machine.verdict(780), "busy", "idle for 2 min (held after 10 min)")


def test_case_09_a_bare_context_held_for_hours_is_held(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start(), memory=420 * MIB))
    assert_verdict(machine.watch(HOURS_3), "held", "420 MiB allocated")


def test_case_10_a_process_that_just_started_is_busy(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start()))
    assert_verdict(machine.verdict(20), "busy", "started 2")


def test_case_11_without_utilisation_idle_power_decides(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start(), util_gpu=None, power_usage=IDLE_WATTS))
    assert_verdict(machine.watch(MINUTES_12), "held", "power")


def test_case_12_without_utilisation_and_power_it_is_busy(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start(), util_gpu=None, power_usage=None, power_limit=None))
    assert_verdict(machine.watch(MINUTES_12), "busy", "utilisation not measurable")


def test_case_13_an_mps_server_without_clients_leaves_it_free(
    machine: SimulatedMachine, people: UserProcesses, tmp_path: Path
) -> None:
    server = people.start_named("nvidia-cuda-mps-server", tmp_path)
    machine.set_scenario(
        SimGpu(memory_used=30 * MIB, processes=[SimProcess(pid=server, memory=30 * MIB)])
    )
    assert_verdict(machine.verdict(), "free", "MPS server, no client")


def test_case_14_one_sample_of_full_load_without_processes_is_an_artefact(
    machine: SimulatedMachine,
) -> None:
    machine.set_scenario(SimGpu(memory_used=4 * MIB, util_gpu=100, power_usage=IDLE_WATTS))
    assert machine.verdict().state == "free"


def test_case_15_a_refused_process_list_with_nothing_used_is_free(
    machine: SimulatedMachine,
) -> None:
    machine.set_scenario(SimGpu(memory_used=4 * MIB, faults=NO_LISTS))
    assert_verdict(machine.verdict(), "free", "processes not readable")


def test_case_16_a_refused_process_list_with_memory_used_is_taken(
    machine: SimulatedMachine,
) -> None:
    machine.set_scenario(SimGpu(memory_used=30 * GIB, util_gpu=60, faults=NO_LISTS))
    assert_verdict(machine.verdict(), "busy", "processes not readable")


def test_case_17_memory_shared_with_the_host_is_free_without_processes(
    machine: SimulatedMachine,
) -> None:
    machine.set_scenario(
        SimGpu(name="NVIDIA GB10", memory_total=None, memory_used=None, addressing="ATS")
    )
    gpu = machine.gpu()
    assert_verdict(gpu.verdict, "free", "memory shared with the host")
    assert gpu.memory_shared


def test_case_18_memory_that_cannot_be_read_leaves_it_unknown(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_total=None, memory_used=None))
    gpu = machine.gpu()
    assert_verdict(gpu.verdict, "unknown", "memory not readable")
    assert not gpu.memory_shared


def test_case_26_a_divided_gpu_sums_up_its_instances(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    pid = people.start()
    machine.set_scenario(
        SimGpu(
            mig=True,
            memory_used=9 * GIB,
            instances=[
                SimInstance(profile="3g.40gb", gi=1, uuid="MIG-taken", memory_used=9 * GIB),
                SimInstance(profile="3g.40gb", gi=2, uuid="MIG-empty", memory_used=10 * MIB),
            ],
            processes=[SimProcess(pid=pid, memory=8 * GIB, gi=1, ci=0)],
        )
    )
    gpu = machine.gpu()
    assert gpu.verdict.state == "busy"
    assert "1 of 2 instances free" in gpu.verdict.reason
    assert {one.uuid: one.verdict.state for one in gpu.instances} == {
        "MIG-taken": "busy",
        "MIG-empty": "free",
    }


def test_case_27_a_zombie_that_holds_memory_is_a_ghost(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    zombie = people.start_zombie()
    machine.set_scenario(busy(zombie, memory=12 * GIB))
    reason = f"pid {zombie} is a zombie and still holds 12.0 GiB"
    assert_verdict(machine.watch(300), "ghost", reason)


def test_case_27_so_is_a_process_that_cannot_be_interrupted(
    machine: SimulatedMachine, people: UserProcesses, tmp_path: Path
) -> None:
    # A parent waits uninterruptibly for the child of its vfork.
    source = tmp_path / "stuck.c"
    source.write_text("#include <unistd.h>\nint main(void) { if (!vfork()) pause(); return 0; }\n")
    program = tmp_path / "stuck"
    subprocess.run([*find_compiler(), "-w", "-o", program, source], check=True)
    pid = people.start(str(program))
    wait_until(lambda: process_state(pid) == "D")
    machine.set_scenario(busy(pid, memory=12 * GIB))
    verdict = machine.watch(MINUTES_12)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        subprocess.run(["kill", "-9", child], check=True)
    assert_verdict(verdict, "ghost", "still holds 12.0 GiB")


def test_case_28_two_users_share_it(machine: SimulatedMachine, people: UserProcesses) -> None:
    require_root()
    pids = [people.start(user=user) for user in ("daemon", "nobody")]
    machine.set_scenario(
        SimGpu(
            util_gpu=70,
            memory_used=21 * GIB,
            processes=[SimProcess(pid=pid, memory=10 * GIB) for pid in pids],
        )
    )
    verdict = machine.verdict()
    assert verdict.state == "busy"
    assert "shared by 2" in [note.words for note in verdict.notes]


def test_case_30_a_lease_counts_before_its_work_is_visible(machine: SimulatedMachine) -> None:
    machine.set_scenario(SimGpu(memory_used=4 * MIB))
    gpu = machine.snapshot().gpus[0]
    lease = Lease(holder="alice", taken_at=machine.start - 40)
    verdict = judge(
        gpu, add_sample(None, gpu, machine.start, Thresholds()), machine.start, lease=lease
    )
    assert_verdict(verdict, "leased", "taken by alice 40 s ago")


def test_case_31_full_load_at_idle_power_is_probably_stalled(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    machine.set_scenario(busy(people.start(), util_gpu=100, power_usage=IDLE_WATTS))
    verdict = machine.watch(MINUTES_12)
    assert verdict.state == "busy"
    assert any("probably stalled" in note.words for note in verdict.notes)


@pytest.mark.parametrize(("load", "memory", "state"), [(0, 400, "free"), (60, 9000, "busy")])
def test_case_32_a_desktop_card_without_memory_figures_is_judged_by_its_use(
    machine: SimulatedMachine, people: UserProcesses, load: int, memory: int, state: str
) -> None:
    pid = people.start()
    both = [SimProcess(pid=pid, kind=kind, memory=None) for kind in ("compute", "graphics")]
    machine.set_scenario(SimGpu(util_gpu=load, memory_used=memory * MIB, processes=both))
    gpu = machine.gpu()
    assert [process.kind for process in gpu.processes or ()] == ["compute+graphics"]
    assert gpu.verdict.state == state


def test_cases_35_to_37_desktops_and_services_are_nobodys_work(
    machine: SimulatedMachine, people: UserProcesses, tmp_path: Path
) -> None:
    names = ("kwin_wayland", "nv-hostengine")
    window, service = (people.start_named(name, tmp_path) for name in names)

    def both(memory: int) -> list[SimProcess]:
        kinds = ("compute", "graphics")
        return [SimProcess(pid=window, kind=kind, memory=memory) for kind in kinds]

    card: dict[str, Any] = {"memory_total": 24 * GIB, "util_gpu": 2}
    machine.set_scenario(
        Scenario(
            gpus=[
                SimGpu(memory_used=300 * MIB, processes=both(280 * MIB), **card),
                SimGpu(memory_used=1638 * MIB, processes=both(1600 * MIB), util_decoder=30, **card),
                SimGpu(memory_used=MIB, processes=[SimProcess(pid=service, memory=MIB)], **card),
            ]
        )
    )
    small, large, watched = (gpu.verdict for gpu in machine.poll().nodes[0].gpus)
    assert_verdict(small, "free", "display only")
    assert_verdict(large, "free", "display only")
    assert note_texts(large) == ["display uses 1.6 GiB"]
    assert_verdict(watched, "free", "system services only")


def test_case_39_inside_a_pid_namespace_used_memory_is_no_ghost(machine: SimulatedMachine) -> None:
    write_nvidia_kernel_files(machine.root, "0000:10:00.0")
    (machine.root / "proc/self/ns").mkdir(parents=True)
    (machine.root / "proc/self/ns/pid").symlink_to("pid:[4026532901]")
    machine.set_scenario(SimGpu(memory_used=71 * GIB))
    assert_verdict(machine.verdict(), "busy", "in use, 71.0 GiB; not visible from here")
    assert_verdict(machine.watch(MINUTES_12), "held", "not visible from here; idle for")


def test_case_41_an_idle_user_beside_a_busy_one_is_named(
    machine: SimulatedMachine, people: UserProcesses
) -> None:
    require_root()
    idle, working = (people.start(user=user) for user in ("daemon", "nobody"))
    machine.set_scenario(
        SimGpu(
            util_gpu=97,
            memory_used=33 * GIB,
            processes=[
                SimProcess(pid=idle, memory=12 * GIB),
                SimProcess(pid=working, memory=20 * GIB, sm=97),
            ],
        )
    )
    verdict = machine.watch(MINUTES_12)
    assert_verdict(verdict, "busy", "nobody, 97 %")
    assert "daemon idle for 12 min, 12.0 GiB allocated" in note_texts(verdict)
