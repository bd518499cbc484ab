"""`fleet-smi like gpustat`, compared with the real gpustat on the same simulated driver."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from fleet_smi.hub.sources.files import FilesSource
from sim.scenario import GIB, Scenario, SimGpu, SimProcess
from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.machines import UserProcesses, wait_until
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated

HIDDEN_PID = 4_194_000
GONE = re.compile(r"\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}")


@pytest.fixture(autouse=True)
def the_real_one() -> None:
    """These tests are about gpustat 1.1.1 itself."""
    try:
        found = version("gpustat")
    except PackageNotFoundError:
        found = None
    if found != "1.1.1":
        assert not os.environ.get("CI"), f"gpustat 1.1.1 is missing: found {found}"
        pytest.skip(f"gpustat 1.1.1 is not installed: found {found}")


@pytest.fixture
def machine(simulated: Simulated, people: UserProcesses, tmp_path: Path) -> dict[str, str]:
    """Four cards: one at work, one free, one lost, one whose process cannot be seen."""
    pid = people.start_named("trainer", tmp_path, "600")
    cards = [
        SimGpu(
            name="NVIDIA A100-SXM4-80GB",
            memory_used=12 * GIB,
            util_gpu=87,
            temperature=61,
            fan=None,
            power_usage=301_000,
            power_limit=400_000,
            util_encoder=55,
            processes=[SimProcess(pid=pid, memory=11 * GIB, sm=85)],
        ),
        SimGpu(fan=31, temperature=49),
        SimGpu(faults={"*": "lost"}),
        SimGpu(memory_used=9 * GIB, processes=[SimProcess(pid=HIDDEN_PID, memory=8 * GIB)]),
    ]
    env = simulated(Scenario(driver="550.90.07", gpus=cards))
    return {**env, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}


def real(*arguments: str, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gpustat", *arguments],
        env=dict(env),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def ours(*arguments: str, env: Mapping[str, str]) -> str:
    done = run_fleet_smi("like", "gpustat", *arguments, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def steady(text: str) -> str:
    """Without the date, what changes by itself, grey, and the process that gpustat drops."""
    text = GONE.sub("DATE", text).replace("\x1b[1m\x1b[30m", "\x1b[2m")
    text = re.sub(r" (?:\x1b\[2m)?--(?:\x1b\[0;10m)?.*8192M.*\)", "", text)
    text = re.sub(r"\n [├└]─ +4194000 .*", "", text)
    return re.sub(r"(─ +\d+ \()[^)]*\)", r"\1…)", text)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("-cup",),
        ("-c",),
        ("-F", "-e", "dec", "-P", "draw"),
        ("--show-power", "limit", "--show-codec", "enc", "--gpuname-width", "30"),
        ("--id", "0,3", "--no-header"),
        ("--id", "3,0,3"),
        ("--no-processes", "--gpuname-width", "10"),
        ("--gpuname-width", "0", "-p"),
        ("-a", "--force-color"),
        ("-P", "draw", "--color"),
        ("-f", "--no-color"),
        ("--debug",),
    ],
    ids=" ".join,
)
def test_what_it_prints_is_what_gpustat_prints(
    machine: dict[str, str], flags: tuple[str, ...]
) -> None:
    assert steady(ours(*flags, env=machine)) == steady(real(*flags, env=machine))


def test_its_json_is_gpustats_json_with_the_process_that_gpustat_drops(
    machine: dict[str, str],
) -> None:
    mine, theirs = (json.loads(run("--json", env=machine)) for run in (ours, real))
    assert list(mine) == list(theirs)
    for one, other in zip(mine["gpus"], theirs["gpus"], strict=True):
        assert list(one) == list(other)
        processes, others = one.pop("processes"), other.pop("processes")
        assert one == other
        seen = [each for each in processes or [] if each["username"] is not None]
        assert [_identity(each) for each in seen] == [_identity(each) for each in others or []]
    (hidden,) = json.loads(ours("--json", env=machine))["gpus"][3]["processes"]
    assert (hidden["pid"], hidden["gpu_memory_usage"]) == (HIDDEN_PID, 8192)


def _identity(process: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        process[key] for key in ("username", "command", "full_command", "gpu_memory_usage", "pid")
    )


FILES = {
    "cml10": ("-pcu",),
    "cml11": ("-pcu", "--color"),
    "cml12": ("-a", "-f"),
    "cml13": ("--json",),
    "cml14": (),
}


def drop(folder: Path, env: Mapping[str, str], *names: str) -> None:
    """What cron does on these servers, with gpustat itself."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text(real(*FILES[name], env=env))


EXPECTED = ["busy", "free", "broken", "ghost"]


def test_files_of_a_real_gpustat_are_a_fleet_without_a_hub(
    machine: dict[str, str], tmp_path: Path
) -> None:
    drop(tmp_path / "status-gpu", machine, *FILES)
    (tmp_path / "status-gpu" / "cml15").write_text("")
    output = run_json("--dir", f"{tmp_path}/status-gpu/cml*", env=machine)
    nodes = {node["name"]: node for node in output["nodes"]}
    for name in FILES:
        assert [gpu["verdict"]["state"] for gpu in nodes[name]["gpus"]] == EXPECTED, name
        assert (nodes[name]["via"], nodes[name]["silent"]) == ("files", False)
        (process,) = nodes[name]["gpus"][0]["processes"]
        assert process["user"] == "root" if os.geteuid() == 0 else process["user"]
    assert nodes["cml12"]["gpus"][0]["processes"][0]["command"].endswith("trainer 600")
    assert nodes["cml13"]["gpus"][0]["uuid"].startswith("GPU-")
    assert "is empty" in nodes["cml15"]["trouble"]


def test_files_of_a_real_gpustat_are_received_by_a_hub_beside_our_own_agents(
    machine: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "status-gpu"
    drop(folder, machine, "cml11", "cml13")
    agent = ("agent", "--once", "--drop", str(folder))
    assert run_fleet_smi(*agent, env=machine).returncode == 0
    gpustat = ("--drop-format", "gpustat")
    named = machine | {"FLEET_SMI_NODE_NAME": "cml20"}
    assert run_fleet_smi(*agent, *gpustat, env=named).returncode == 0
    assert (folder / "cml20.json").exists()
    with ThreadedHub(tmp_path / "hub", [FilesSource(str(folder), interval_seconds=0.1)]) as hub:
        wait_until(lambda: hub.fleet().summary.nodes_reporting == 4)
        view = hub.fleet()
    states = {node.name: [gpu.verdict.state for gpu in node.gpus] for node in view.nodes}
    assert all(found[:3] == EXPECTED[:3] for found in states.values())
    assert states["cml11"] == states["cml13"] == EXPECTED
    assert sum("read through gpustat" in " ".join(node.limits) for node in view.nodes) == 3


def test_a_folder_of_text_files_can_be_joined_to_a_page_with_cat(
    machine: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "status-gpu"
    drop(folder, machine, "cml10")
    agent = ("agent", "--once", "--drop", str(folder), "--drop-format", "gpustat-text")
    named = machine | {"FLEET_SMI_NODE_NAME": "cml20"}
    assert run_fleet_smi(*agent, env=named).returncode == 0
    # Only the date, the time and the host differ from what gpustat itself writes.
    theirs, text = subprocess.run(
        ["sh", "-c", "cat * | sed 's/\x1b[^m]*m//g'"],
        cwd=folder,
        env=machine,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("cml20")
    assert [line.split("|")[:3] for line in text.splitlines()[1:]] == [
        line.split("|")[:3] for line in theirs.splitlines()[1:]
    ]
    assert b"\x1b[36m[0]" in (folder / "cml20").read_bytes()
    nodes = run_json("--dir", str(folder), env=machine)["nodes"]
    assert [node["name"] for node in nodes] == ["cml10", "cml20"]


@pytest.mark.parametrize("file_format", ["gpustat", "gpustat-text"])
def test_a_driver_that_fails_keeps_its_reason_in_the_file(
    simulated: Simulated, tmp_path: Path, file_format: str
) -> None:
    folder = tmp_path / "status-gpu"
    folder.mkdir()
    agent = ("agent", "--once", "--drop", str(folder), "--drop-format", file_format)
    named = {"HOME": str(tmp_path), "FLEET_SMI_NODE_NAME": "cml20"}
    sound = simulated(Scenario()) | named
    assert run_fleet_smi(*agent, env=sound).returncode == 0
    with ThreadedHub(tmp_path / "hub", [FilesSource(str(folder), interval_seconds=0.1)]) as hub:
        wait_until(lambda: hub.fleet().summary.free == 1)
        broken = simulated(Scenario(init="mismatch")) | named
        assert run_fleet_smi(*agent, env=broken).returncode == 0
        wait_until(lambda: bool(hub.fleet().nodes[0].failures))
        (node,) = hub.fleet().nodes
    assert len(node.failures) == 1
    assert node.failures[0].startswith("nvidia: the NVIDIA driver")
    # The GPU that was there stays listed, and is neither free nor merely missing.
    assert [gpu.verdict.state for gpu in node.gpus] in (["unknown"], ["broken"])
    assert "do not match" in node.gpus[0].verdict.reason


def test_a_stale_node_is_a_line_and_left_out_of_json(
    machine: dict[str, str], tmp_path: Path
) -> None:
    drop(tmp_path / "status-gpu", machine, "cml10", "cml13")
    os.utime(tmp_path / "status-gpu" / "cml10", (0, 0))
    where = ("--dir", f"{tmp_path}/status-gpu")
    assert re.search(r"^\(cml10\) silent for \d+ d$", ours(*where, env=machine), re.MULTILINE)
    done = run_fleet_smi("like", "gpustat", "--json", *where, env=machine)
    assert json.loads(done.stdout)["hostname"] == "cml13"
    assert "cml10 is silent" in done.stderr


def test_it_repeats_until_it_is_interrupted(machine: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fleet_smi", "like", "gpustat", "-i", "0.1", "--no-color"]
    with subprocess.Popen(command, env=machine, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        seen = [running.stdout.readline() for _ in range(11)]
        running.send_signal(signal.SIGINT)
        running.wait()
    assert sum("550.90.07" in line for line in seen) >= 2
    assert running.returncode == 130


def test_json_and_watching_exclude_each_other(machine: dict[str, str]) -> None:
    done = run_fleet_smi("like", "gpustat", "--json", "-i", env=machine)
    assert_error_line(done, 1, "--json and --interval/-i can't be used together")


def test_a_full_command_has_the_cpu_load_of_its_process(
    simulated: Simulated, people: UserProcesses
) -> None:
    pid = people.start(sys.executable, "-c", "while True: pass")
    env = simulated(Scenario(gpus=[SimGpu(processes=[SimProcess(pid=pid, memory=GIB)])]))
    (line,) = [line for line in ours("-f", env=env).splitlines() if "while True" in line]
    found = re.search(r"\( *(\d+)%", line)
    assert found is not None, line
    assert int(found[1]) > 0


@pytest.mark.parametrize("indexes, missing", [("7", "7"), ("0,7", "7"), ("9,0,7", "9, 7")])
def test_an_index_that_no_gpu_has_fails_as_in_gpustat(
    machine: dict[str, str], indexes: str, missing: str
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        real("--id", indexes, env=machine)
    assert (failed.value.returncode, failed.value.stdout) == (1, "")
    for flags in ((), ("--json",)):
        done = run_fleet_smi("like", "gpustat", "--id", indexes, *flags, env=machine)
        message = (
            f"Error on querying NVIDIA devices: no GPU {missing} (--id); there are: 0, 1, 2, 3"
        )
        assert_error_line(done, 1, message)


def test_in_a_fleet_machines_without_the_requested_gpu_are_left_out(
    machine: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "status-gpu"
    drop(folder, machine, "cml10")
    lines = (folder / "cml10").read_text().splitlines(keepends=True)
    (folder / "cml11").write_text("".join(lines[:2]).replace("cml10", "cml11"))
    where = ("--dir", str(folder))
    assert [line[:5] for line in ours("--id", "3", *where, env=machine).splitlines()] == [
        "cml10",
        "[3] N",
    ]
    done = run_fleet_smi("like", "gpustat", "--id", "7", *where, env=machine)
    assert_error_line(done, 1, "no GPU 7 (--id)")


@pytest.mark.parametrize(
    "flags, message",
    [
        (("--id", "x"), "--id x"),
        (("--gpuname-width", "-1"), "non-negative"),
        (("--color", "--no-color"), "not allowed with"),
        (("-e", "all"), "invalid choice"),
        (("-i", "inf"), "-i inf: give 0.1 to 86400 seconds"),
        (("-i", "1e400"), "-i inf: give 0.1 to 86400 seconds"),
        (("-i", "nan"), "-i nan: give 0.1 to 86400 seconds"),
        (("--dir", ""), "give a folder"),
        (("--dir", "/nfs/*/cml1*"), "/nfs/*/cml1* has a pattern before its last part"),
    ],
)
def test_flags_that_are_invalid_are_refused(
    machine: dict[str, str], flags: tuple[str, ...], message: str
) -> None:
    assert_error_line(run_fleet_smi("like", "gpustat", *flags, env=machine), 2, message)


@pytest.mark.parametrize("flags", [(), ("-i",), ("--debug",)], ids=["once", "again", "debug"])
def test_without_a_driver_it_fails_as_gpustat_does(
    simulated: Simulated, flags: tuple[str, ...]
) -> None:
    env = simulated(Scenario(init="no-driver", gpus=[]))
    assert_error_line(
        run_fleet_smi("like", "gpustat", "--here", *flags, env=env), 1, "NVIDIA devices: "
    )


def test_every_refresh_reports_that_no_file_matches(
    machine: dict[str, str], tmp_path: Path
) -> None:
    where = ("--dir", f"{tmp_path}/cml*")
    page = ("render", "--out", f"{tmp_path}/page")
    for command in ((), ("like", "gpustat"), ("like", "nvgpu", "list"), page):
        done = run_fleet_smi(*command, *where, env=machine)
        assert_error_line(done, 3, f"{tmp_path}/cml*: no file matches")


def test_no_gpus_are_no_failure(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[]))
    assert "(No GPUs are available)\n" in ours("--here", env=env)


def test_its_version_names_both(machine: dict[str, str]) -> None:
    assert ours("--version", env=machine).startswith("gpustat 1.1.1 (fleet-smi ")
