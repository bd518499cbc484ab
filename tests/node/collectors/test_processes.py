"""Details of processes, from the files of /proc."""

import grp
import os
import pwd
import subprocess
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.snapshot import Process
from fleet_smi.node.bindings.processes import ProcessReader
from fleet_smi.node.collectors.processes import ProcessesCollector
from tests.machines import UserProcesses, require_root, wait_until

ID = "0123456789abcdef" * 4
HARMFUL = ("Cc", "Cs", "Zl", "Zp")
POD = "3f8b1c2d-0000-4a5b-9c8d-111122223333"


def person(**facts: Any) -> Process:
    known: dict[str, Any] = {
        "uid": 1000,
        "user": "alice",
        "group": "vision",
        "cgroup": "0::/user.slice/user-1000.slice/session-3.scope",
        "slurm_job": None,
        "name": b"python",
        "command": b"python\0train.py\0",
        "state": "S",
        "parent": 1,
        "started_at": 1_750_000_000.0,
        "cpu_percent": None,
        "memory": 4096,
    }
    return ProcessesCollector().parse({7: known | facts}).processes[7]


def test_arguments_are_joined_by_blanks() -> None:
    assert person().command == "python train.py"


def test_a_secret_in_a_command_line_does_not_leave_the_machine() -> None:
    facts = {"command": b"python\0--password=hunter2\0--hf-token\0abc\0--lr\x003\0"}
    assert person(**facts).command == "python --password=••• --hf-token ••• --lr 3"


def test_the_group_is_reported_where_it_has_a_name() -> None:
    assert person(group="vision").group == "vision"
    assert person(group=None).group is None


def test_without_a_command_line_the_name_is_used() -> None:
    assert person(command=b"", name=b"kworker").command == "kworker"


def test_a_name_that_the_kernel_cut_is_completed_from_the_command() -> None:
    facts = {"name": b"nvidia-cuda-mps", "command": b"/usr/bin/nvidia-cuda-mps-server\0"}
    assert person(**facts).name == "nvidia-cuda-mps-server"
    assert person(name=b"exactly-fifteen", command=b"other\0").name == "exactly-fifteen"


def test_a_secret_in_the_first_argument_is_no_part_of_the_name() -> None:
    facts = {"name": b"nvidia-cuda-mps", "command": b"nvidia-cuda-mps --password=hunter2\0"}
    assert person(**facts).name == "nvidia-cuda-mps --password=•••"
    assert person(name=b"pwd=hunter2", command=b"").command == "pwd=•••"


@pytest.mark.parametrize(
    ("cgroup", "container", "pod"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope", None, None),
        ("", None, None),
        (f"0::/system.slice/docker-{ID}.scope", ID[:12], None),
        (f"12:memory:/docker/{ID}\n0::/", ID[:12], None),
        (f"0::/machine.slice/libpod-{ID}.scope/container", ID[:12], None),
        (f"0::/kubepods.slice/pod{POD.replace('-', '_')}/cri-containerd-{ID}.scope", ID[:12], POD),
        (f"11:devices:/kubepods/besteffort/pod{POD}/{ID}", ID[:12], POD),
        ("0::/lxc.payload.gpu-box/init.scope", "gpu-box", None),
    ],
)
def test_the_container_and_the_pod_come_from_the_control_group(
    cgroup: str, container: str | None, pod: str | None
) -> None:
    found = person(cgroup=cgroup)
    assert (found.container, found.pod) == (container, pod)


@pytest.mark.parametrize(
    ("variable", "cgroup", "job"),
    [
        (None, "0::/system.slice/slurmstepd.scope/job_4711/step_0/user", "4711"),
        (b"815", "0::/system.slice/slurmstepd.scope/job_4711/step_0", "815"),
        (b"815", "0::/system.slice/slurmstepd.scope/s9QbzC", "815"),
        (b"<b>", "0::/", None),
        (None, "0::/", None),
    ],
)
def test_the_slurm_job_comes_from_the_environment_or_the_control_group(
    variable: bytes | None, cgroup: str, job: str | None
) -> None:
    assert person(slurm_job=variable, cgroup=cgroup).slurm_job == job


@pytest.mark.parametrize(
    ("state", "condition"),
    [("S", None), ("R", None), ("Z", "zombie"), ("X", "zombie"), ("D", "uninterruptible")],
)
def test_the_condition_comes_from_the_state(state: str, condition: str | None) -> None:
    assert person(state=state).condition == condition


@given(name=st.binary(max_size=64), command=st.binary(max_size=9000), cgroup=st.text())
def test_any_bytes_become_harmless_text(name: bytes, command: bytes, cgroup: str) -> None:
    found = person(name=name, command=command, cgroup=cgroup)
    text = f"{found.name}{found.command}{found.container}"
    assert not any(unicodedata.category(character) in HARMFUL for character in text)
    assert found.command is not None
    assert len(found.command) <= 4096


def test_a_pid_that_is_not_there_has_no_facts() -> None:
    binding = ProcessReader(cache_seconds=0)
    facts = binding.read("/", (os.getpid(), 2**22 + 1))
    assert facts[2**22 + 1] is None
    assert set(ProcessesCollector().parse(facts).processes) == {os.getpid()}


STAT = b"7 (python) S " + b" ".join(b"%d" % number for number in range(4, 53))


def facts_of(root: Path, stat: bytes, status: bytes) -> dict[int, Any]:
    """Return what is read of pid 7 with these files, and of pid 8 with valid ones."""
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_bytes(b"cpu 1 2 3 4 5 6 7 8\nbtime 1750000000\n")
    for pid, files in ((7, (stat, status)), (8, (STAT, b"Uid:\t0\t0\t0\t0\n"))):
        folder = root / f"proc/{pid}"
        folder.mkdir(exist_ok=True)
        for name, data in zip(("stat", "status"), files, strict=True):
            (folder / name).write_bytes(data)
    raw = ProcessReader().read(str(root), (7, 8))
    assert 8 in ProcessesCollector().parse(raw).processes
    return raw


@pytest.mark.parametrize(
    ("stat", "status"),
    [
        (b"", b"Uid:\t0\n"),
        (b"xx", b"Uid:\t0\n"),
        (b"7 (python) S 4 5", b"Uid:\t0\n"),
        (b"7 python S 4 5", b"Uid:\t0\n"),
        (STAT.replace(b" 22 ", b" x "), b"Uid:\t0\n"),
        (STAT.replace(b" 22 ", b" " + b"9" * 5000 + b" "), b"Uid:\t0\n"),
        (STAT.replace(b" 24 ", b" -24 "), b"Uid:\t0\n"),
        (STAT, b"Uid:\n"),
        (STAT, b"Uid:\tx\n"),
        (STAT, b"Uid:\t-1\n"),
    ],
)
def test_a_malformed_process_is_hidden_and_hides_no_other(
    tmp_path: Path, stat: bytes, status: bytes
) -> None:
    assert facts_of(tmp_path, stat, status)[7] is None


def test_a_process_without_an_owner_in_proc_is_visible(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, STAT, b"Name:\tpython\n")[7]
    assert (facts["name"], facts["uid"], facts["user"]) == (b"python", None, None)


@given(data=st.binary(max_size=200), uid=st.binary(max_size=30) | st.integers(0).map(b"%d".__mod__))
def test_whatever_the_kernel_writes_of_one_process_the_others_are_seen(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, uid: bytes
) -> None:
    root = tmp_path_factory.getbasetemp() / "any-process"
    root.mkdir(exist_ok=True)
    for stat in (data, b"7 (x) " + data, STAT):
        facts_of(root, stat, data)
        facts_of(root, stat, b"Uid:\t" + uid)


def test_a_process_that_started_after_its_pid_was_listed_is_another(people: UserProcesses) -> None:
    listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    while time.clock_gettime(time.CLOCK_BOOTTIME) < listed_at + 0.05:
        pass  # the kernel counts starts in ticks of 10 ms
    pid = people.start()
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert ProcessReader().read("/", (pid,), listed_at=listed_at)[pid] is None
    assert ProcessReader().read("/", (pid,), listed_at=now)[pid] is not None


@pytest.mark.parametrize(
    ("namespace", "device", "opened", "believed"),
    [
        ("pid:[4026531836]", True, "/dev/null", True),
        ("pid:[4026532000]", False, "/dev/null", True),
        ("pid:[4026532000]", True, "/dev/null", False),
        ("pid:[4026532000]", True, "/dev/nvidia0", True),
    ],
)
def test_in_a_container_with_gpus_only_a_process_that_has_one_open_is_believed(
    tmp_path: Path, people: UserProcesses, namespace: str, device: bool, opened: str, believed: bool
) -> None:
    pid = people.start()
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(namespace)
    (tmp_path / "proc/stat").write_text(Path("/proc/stat").read_text())
    (tmp_path / f"proc/{pid}/fd").mkdir(parents=True)
    (tmp_path / f"proc/{pid}/fd/3").symlink_to(opened)
    for name in ("stat", "status", "cmdline"):
        (tmp_path / f"proc/{pid}/{name}").write_bytes(Path(f"/proc/{pid}/{name}").read_bytes())
    if device:
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/nvidiactl").touch()
    facts = ProcessReader().read(str(tmp_path), (pid,))[pid]
    assert (facts is not None) is believed


def test_a_running_process_has_the_kernels_values(people: UserProcesses) -> None:
    pid = people.start("sleep", "601")
    found = ProcessesCollector().parse(ProcessReader().read("/", (pid,))).processes[pid]
    assert found.user == pwd.getpwuid(os.getuid()).pw_name
    assert found.group == grp.getgrgid(pwd.getpwuid(os.getuid()).pw_gid).gr_name
    assert (found.uid, found.name, found.command) == (os.getuid(), "sleep", "sleep 601")


def test_the_load_of_a_process_needs_two_samples(people: UserProcesses) -> None:
    spin = people.start("sh", "-c", "while :; do :; done")
    binding = ProcessReader(cache_seconds=0)
    first = binding.read("/", (spin,))[spin]["cpu_percent"]
    assert first is None
    load = None
    while not load:  # the scheduler decides when it first runs
        load = binding.read("/", (spin,))[spin]["cpu_percent"]
    assert 0 < load < 1000


def test_frequent_reads_are_cached_until_a_pid_is_added(people: UserProcesses) -> None:
    first, binding = people.start("sleep", "603"), ProcessReader(cache_seconds=1000)
    reported = binding.read("/", (first,))
    assert binding.read("/", (first,)) is reported
    second = people.start("sleep", "604")
    assert binding.read("/", (first, second)).keys() == {first, second}


def test_a_process_that_execs_another_program_gets_its_new_command() -> None:
    binding = ProcessReader(cache_seconds=0)
    running = subprocess.Popen(["sh", "-c", "read line; exec sleep 602"], stdin=subprocess.PIPE)

    def command() -> bytes:
        reported: bytes = binding.read("/", (running.pid,))[running.pid]["command"]
        return reported

    with running:
        try:
            wait_until(lambda: command().startswith(b"sh\0"))  # the kernel may be busy with it
            assert running.stdin is not None
            running.stdin.write(b"\n")
            running.stdin.flush()
            wait_until(lambda: command() == b"sleep\x00602\0")
        finally:
            running.kill()


def test_a_user_without_a_name_is_shown_by_uid() -> None:
    require_root()
    with subprocess.Popen(["sleep", "600"], user=54_321) as running:
        found = ProcessesCollector().parse(ProcessReader().read("/", (running.pid,)))
        running.kill()
    assert (found.processes[running.pid].user, found.processes[running.pid].uid) == (
        "54321",
        54_321,
    )
