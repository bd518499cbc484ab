"""The ssh script in real shells, on fake file systems, and the report parsed from its output."""

import os
import pwd
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import DeliveryError, Undecodable, UnsupportedVersion
from fleet_smi.hub.ssh_script import REMOTE_COMMAND, build_script
from fleet_smi.node.bindings.host import HostReader as HostBinding
from fleet_smi.node.collectors.host import HostCollector
from fleet_smi.wire.parsers.remote_shell import parse_script_output
from sim.scenario import GIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.machines import UserProcesses, require_program
from tests.node.file_trees import Content, write_tree
from tests.sim.fixtures import Simulated
from tests.wire.parsers.remote_nodes import (
    DOCUMENT,
    MARK,
    OTHER_PROCESS,
    PROCESS,
    device_files,
    gpu_run,
    install_fake_fleet_smi,
    install_fake_nvidia_smi,
    machine_files,
    only_gpu,
    only_snapshot,
    proc_stat,
    run_script,
)

SHELLS = (["dash"], ["bash", "--posix"], ["busybox", "sh"])
VENDOR_SECTIONS = (
    *("cards@0x1002", "amd_smi", "hangs@amd_smi", "amd_smi@static", "amd_smi@metric"),
    *("rocm_smi", "rocm_smi@all", "cards@0x8086", "xpu_smi", "xpu_smi@dump", "xpu_smi@ps"),
)
SECTIONS = [
    *sorted(set(re.findall(r"section (\w+)", build_script("", 1).decode()))),
    "nvidia_smi@0",
    *VENDOR_SECTIONS,
]
LOGIN_SHELLS = ("csh", "fish", "bash", "zsh", "dash")


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_every_shell_gives_the_same_machine_and_processes(
    shell: list[str], simulated: Simulated, people: UserProcesses
) -> None:
    require_program(shell[0])
    pid = people.start("sleep", "600", "60", user="nobody")
    busy = SimGpu(memory_used=3 * GIB, processes=[SimProcess(pid=pid, memory=2 * GIB)])
    found = only_snapshot(
        parse_script_output(run_script(simulated(Scenario(gpus=[busy, SimGpu()])), shell), MARK)
    )
    (process,) = found.gpus[0].processes or ()
    assert (process.user, process.uid) == ("nobody", pwd.getpwnam("nobody").pw_uid)
    assert (process.name, process.command) == ("sleep", "sleep 600 60")
    assert process.gpu_memory_bytes == 2 * GIB
    assert process.host_memory_bytes
    assert process.started_at == pytest.approx(found.taken_at, abs=30)
    assert found.gpus[1].processes == ()
    assert {run.outcome for run in found.runs} == {"ok"}


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_any_login_shell_passes_the_script_on(shell: str) -> None:
    require_program(shell)
    found = only_snapshot(
        parse_script_output(
            run_script({"PATH": "/usr/bin:/bin"}, [shell, "-c", REMOTE_COMMAND]), MARK
        )
    )
    assert found.name == os.uname().nodename


def test_a_node_is_the_same_node_to_an_agent_and_over_ssh() -> None:
    agent = HostCollector().parse(HostBinding().read("/"))
    found = only_snapshot(parse_script_output(run_script({"PATH": "/usr/bin:/bin"}), MARK))
    identity = (found.node_id, found.name, found.boot_id)
    assert identity == (agent.node_id, agent.name, agent.boot_id)
    assert (found.host.kernel, found.host.cpu_count) == (agent.host.kernel, agent.host.cpu_count)
    assert found.host.booted_at == agent.host.booted_at
    assert found.host.memory_total_bytes == agent.host.memory_total_bytes
    assert found.host.load_1_minute is not None


def test_a_node_without_nvidia_smi_has_no_gpus_and_an_absent_run() -> None:
    found = only_snapshot(parse_script_output(run_script({"PATH": "/usr/bin:/bin"}), MARK))
    assert found.gpus == ()
    assert gpu_run(found).outcome == "absent"
    assert "no nvidia-smi" in gpu_run(found).detail


def test_instances_have_the_uuids_of_the_list(simulated: Simulated) -> None:
    card = SimGpu(mig=True, instances=[SimInstance(profile="1g.10gb", gi=7, ci=0, uuid="MIG-7")])
    found = only_snapshot(parse_script_output(run_script(simulated(Scenario(gpus=[card]))), MARK))
    assert [part.uuid for part in found.gpus[0].instances] == ["MIG-7"]


def test_a_long_user_name_is_not_truncated(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "root", machine_files(7, b"python\0train.py\0"))
    env = install_fake_nvidia_smi(tmp_path, f"cat <<'END'\n{DOCUMENT}\nEND")
    write_tree(tmp_path, {"getent": "#!/bin/sh\necho averyveryverylongname:x:$2:0::/:/bin/sh\n"})
    (tmp_path / "getent").chmod(0o755)
    (process,) = only_gpu(run_script(env, root=root)).processes or ()
    assert process.user == "averyveryverylongname"
    assert process.command == "python train.py"


@pytest.mark.parametrize("name", [b"a\n7 (b", b"x) S 1 1", b"(((", b"\xff\x1b[31m"])
def test_a_hostile_process_name_hides_and_changes_no_other_process(
    tmp_path: Path, name: bytes
) -> None:
    root = write_tree(
        tmp_path / "root", machine_files(8, b"", name) | machine_files(7, b"honest\0", b"honest")
    )
    env = install_fake_nvidia_smi(
        tmp_path, f"cat <<'END'\n{DOCUMENT.replace(PROCESS, PROCESS + OTHER_PROCESS)}\nEND"
    )
    honest, liar = only_gpu(run_script(env, root=root)).processes or ()
    assert (honest.name, honest.command, honest.hidden) == ("honest", "honest", False)
    assert not liar.hidden
    assert liar.name
    assert "\x1b" not in liar.name


def test_the_command_line_of_a_process_in_uninterruptible_sleep_is_not_read(tmp_path: Path) -> None:
    stuck: dict[str, Content] = {"proc/7/stat": proc_stat(7, b"train", "D")}
    root = write_tree(tmp_path / "root", machine_files(7, b"never read\0") | stuck)
    env = install_fake_nvidia_smi(tmp_path, f"cat <<'END'\n{DOCUMENT}\nEND")
    (process,) = only_gpu(run_script(env, root=root)).processes or ()
    assert (process.command, process.condition) == ("train", "uninterruptible")


def test_a_process_that_is_not_visible_is_hidden(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "root", machine_files(9))
    env = install_fake_nvidia_smi(tmp_path, f"cat <<'END'\n{DOCUMENT}\nEND")
    (process,) = only_gpu(run_script(env, root=root)).processes or ()
    assert process.hidden


def test_in_a_container_the_pids_of_the_driver_are_not_looked_up(tmp_path: Path) -> None:
    elsewhere: dict[str, Content] = {
        "dev/nvidiactl": "",
        "proc/self/ns/pid": Path("pid:[4026539999]"),
    }
    root = write_tree(tmp_path / "root", machine_files(7, b"somebody else\0") | elsewhere)
    env = install_fake_nvidia_smi(tmp_path, f"cat <<'END'\n{DOCUMENT}\nEND")
    (process,) = only_gpu(run_script(env, root=root)).processes or ()
    assert process.hidden


def test_a_sleeping_device_is_not_woken(tmp_path: Path) -> None:
    asleep = device_files("0000:01:00.0", "suspended") | device_files("0000:02:00.0", "active")
    root = write_tree(tmp_path / "root", machine_files(7) | asleep)
    calls = tmp_path / "calls"
    env = install_fake_nvidia_smi(tmp_path, f"echo $* >>{calls}\ncat <<'END'\n{DOCUMENT}\nEND")
    found = only_snapshot(parse_script_output(run_script(env, root=root), MARK))
    assert calls.read_text().splitlines() == ["-q -x -i 0000:02:00.0"]
    assert [(gpu.asleep, gpu.fault) for gpu in found.gpus] == [(True, None), (False, None)]
    assert gpu_run(found).outcome == "ok"


def test_a_lost_device_does_not_hide_the_others(tmp_path: Path) -> None:
    both = device_files("0000:01:00.0", "active") | device_files("0000:02:00.0", "active")
    root = write_tree(tmp_path / "root", machine_files(7) | both)
    message = "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot"
    case = (
        f"case $* in *02:00*) cat <<'END'\n{DOCUMENT}\nEND\n;; *) echo '{message}'; exit 15;; esac"
    )
    found = only_snapshot(
        parse_script_output(run_script(install_fake_nvidia_smi(tmp_path, case), root=root), MARK)
    )
    assert [gpu.fault and gpu.fault.kind for gpu in found.gpus] == ["lost", None]


def test_a_lost_device_is_found_by_number_where_the_kernel_lists_none(
    simulated: Simulated,
) -> None:
    three = Scenario(gpus=[SimGpu(), SimGpu(faults={"**": "lost"}), SimGpu()])
    found = only_snapshot(parse_script_output(run_script(simulated(three)), MARK))
    kinds = sorted(gpu.fault.kind if gpu.fault else "" for gpu in found.gpus)
    assert kinds == ["", "", "lost"]


def test_a_hung_driver_is_reported_and_its_devices_stay_listed(tmp_path: Path) -> None:
    require_program("timeout")
    root = write_tree(tmp_path / "root", machine_files(7) | device_files("0000:01:00.0", "active"))
    report = parse_script_output(
        run_script(
            install_fake_nvidia_smi(tmp_path, "exec sleep 60"), root=root, timeout_seconds=1
        ),
        MARK,
    )
    run = gpu_run(only_snapshot(report))
    assert (run.outcome, run.fault) == ("failed", "not_answering")
    assert [gpu.uuid for gpu in only_snapshot(report).gpus] == ["GPU-0000:01:00.0"]
    assert [gpu.fault and gpu.fault.kind for gpu in only_snapshot(report).gpus] == ["not_answering"]


def test_nvidia_smi_is_not_started_beside_one_that_is_stuck_in_the_kernel(tmp_path: Path) -> None:
    stuck = proc_stat(66, b"nvidia-smi", "D")
    root = write_tree(tmp_path / "root", machine_files(7) | {"proc/66/stat": stuck})
    calls = tmp_path / "calls"
    found = only_snapshot(
        parse_script_output(
            run_script(install_fake_nvidia_smi(tmp_path, f"touch {calls}"), root=root), MARK
        )
    )
    assert not calls.exists()
    assert (gpu_run(found).outcome, gpu_run(found).fault) == ("failed", "not_answering")


def test_output_cut_off_at_nvidia_smi_means_a_hung_driver(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "root", machine_files(7))
    whole = run_script(install_fake_nvidia_smi(tmp_path, "echo nothing"), root=root)
    begun = whole[: whole.index(b" nvidia_smi ") + 20]
    assert (
        gpu_run(only_snapshot(parse_script_output(begun, MARK, within_deadline=False))).fault
        == "not_answering"
    )
    with pytest.raises(Undecodable):
        parse_script_output(begun, MARK)
    with pytest.raises(Undecodable):
        parse_script_output(whole[: whole.index(b" kernel_version ")], MARK, within_deadline=False)


@pytest.mark.parametrize(
    ("message", "code", "outcome", "fault"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", 18, "failed", "mismatch"),
        ("No devices were found", 6, "absent", None),
        ("Failed to initialize NVML: Unknown Error", 255, "failed", "unreadable"),
    ],
)
def test_a_failure_of_nvidia_smi_is_classified(
    tmp_path: Path, message: str, code: int, outcome: str, fault: str | None
) -> None:
    run = gpu_run(
        only_snapshot(
            parse_script_output(
                run_script(install_fake_nvidia_smi(tmp_path, f"echo '{message}'; exit {code}")),
                MARK,
            )
        )
    )
    assert (run.outcome, run.fault) == (outcome, fault)


def test_an_installed_fleet_smi_gives_the_report(tmp_path: Path) -> None:
    output = (
        '{"version":1,"sent_at":12.5,"snapshots":[{"node_id":"n","name":"gpu","taken_at":12.0}]}'
    )
    report = parse_script_output(
        run_script(install_fake_fleet_smi(tmp_path, f"[ $1 = agent ] && echo '{output}'")), MARK
    )
    assert only_snapshot(report).node_id == "n"
    assert report.age_seconds(only_snapshot(report)) == 0.5


def test_an_installed_fleet_smi_that_fails_is_ignored(tmp_path: Path) -> None:
    found = only_snapshot(
        parse_script_output(
            run_script(install_fake_fleet_smi(tmp_path, "echo usage >&2; exit 2")), MARK
        )
    )
    assert found.name == os.uname().nodename


def test_a_report_of_a_later_version_has_its_own_error(tmp_path: Path) -> None:
    output = '{"version":999,"snapshots":[]}'
    with pytest.raises(UnsupportedVersion):
        parse_script_output(run_script(install_fake_fleet_smi(tmp_path, f"echo '{output}'")), MARK)


def test_text_around_the_output_is_ignored() -> None:
    clean_answer = run_script({"PATH": "/usr/bin:/bin"})
    noisy = b"Welcome to gpu07!\n* you have mail *" + clean_answer + b"\nbye\n"
    assert (
        only_snapshot(parse_script_output(noisy, MARK)).node_id
        == only_snapshot(parse_script_output(clean_answer, MARK)).node_id
    )


@given(st.binary(max_size=2000))
def test_any_bytes_give_a_report_or_a_delivery_error(body: bytes) -> None:
    with pytest.raises(DeliveryError):
        parse_script_output(body, MARK)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SECTIONS),
            st.one_of(st.binary(max_size=60), st.integers(0, 10**20).map(lambda n: b"%d" % n)),
        )
    )
)
def test_hostile_sections_give_a_report_or_a_delivery_error(parts: list[tuple[str, bytes]]) -> None:
    sections = b"".join(
        b"\n%s %s 12.5\n%s" % (MARK.encode(), name.encode(), text) for name, text in parts
    )
    begin = b"\n%s taken_at 1.0\n1750000000\n%s hostname 1.0\ngpu07\n" % ((MARK.encode(),) * 2)
    for body in (sections, begin.replace(b"gpu07\n", b"gpu07") + sections):
        with suppress(DeliveryError):
            assert parse_script_output(body, MARK).snapshots
