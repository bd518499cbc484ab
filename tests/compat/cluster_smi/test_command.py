"""`fleet-smi like cluster-smi` as a user runs it, and the original programs beside it."""

import os
import pty
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.scenario import Scenario, SimGpu
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.ports import free_port
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub
from tests.sim.fixtures import Simulated

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "hub") as running:
        mine = process(4711, ME, name="python", command="python train.py")
        theirs = process(4712, "bob", name="python")
        running.join_and_report(snapshot_now("gpu01", gpu(processes=(mine,)), gpu(1)))
        running.join_and_report(snapshot_now("gpu02", gpu(uuid="GPU-other", processes=(theirs,))))
        running.wait_until_published()
        yield running


@pytest.fixture
def env(tmp_path: Path, hub: ThreadedHub) -> dict[str, str]:
    path = os.environ["PATH"]
    return {"HOME": str(tmp_path), "PATH": path, "FLEET_SMI_CLIENT_HUB": hub.url, "TERM": "xterm"}


def shown(*flags: str, env: dict[str, str]) -> str:
    done = run_fleet_smi("like", "cluster-smi", *flags, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_piped_it_prints_its_table_once(env: dict[str, str]) -> None:
    text = shown(env=env)
    assert text.count("| Node  | Gpu ") == 1
    assert "(http://github.com/patwie/cluster-smi)" in text.splitlines()[0]
    assert "\x1b" not in text
    assert [line.split()[1] for line in text.splitlines() if "0:NVIDIA" in line] == [
        "gpu01",
        "gpu02",
    ]


@pytest.mark.parametrize("flags", [("-p",), ("--p",), ("-p=true",), ("-p=1",)])
def test_flags_are_written_as_go_writes_them(env: dict[str, str], flags: tuple[str, ...]) -> None:
    assert "| PID  | User " in shown(*flags, env=env)


def test_every_flag_adds_its_columns(env: dict[str, str]) -> None:
    head = shown("-p", "-t", "-d", "-e", env=env).splitlines()[2]
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        *("Node", "Gpu", "Memory-Usage", "GPU-Util", "Fan", "Temp", "Power"),
        *("PID", "User", "Command", "GPU Mem", "Runtime", "Last Seen"),
    ]
    assert "PID" not in shown("-p=false", env=env)


def test_as_html_it_is_one_table_in_its_colours(env: dict[str, str]) -> None:
    page = shown("-html", "-p", env=env)
    assert (page.count("<table>"), page.count("<tbody>"), "\x1b" in page) == (1, 2, False)
    assert "<th>Node</th><th>Gpu</th>" in page
    assert f'<td style="color: #9a6b00">{ME}</td>' in page
    assert '<td style="color: #1b7f2a">1:NVIDIA H100' in page
    assert "color:" not in shown("-html", "-color=false", env=env)


def test_an_interval_repeats_also_into_a_pipe(env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "fleet_smi", "like", "cluster-smi", "-i", "0.1"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        heads = 0
        while heads < 2:
            line = running.stdout.readline()
            assert line, "it ended after one table"
            heads += "| Node " in line
        running.terminate()
    for wrong in (("-i", "0"), ("-i", "1", "-html")):
        assert_error_line(run_fleet_smi("like", "cluster-smi", *wrong, env=env), 2, "-i")


def test_nodes_and_users_are_chosen(env: dict[str, str]) -> None:
    assert "gpu01" not in shown("-n", "02$", env=env)
    only = shown("-u", "bob", "-p", env=env)
    assert "bob" in only
    assert "gpu01" not in only


def test_a_bad_pattern_is_one_line_of_error(env: dict[str, str]) -> None:
    done = run_fleet_smi("like", "cluster-smi", "-n", "gpu[", env=env)
    assert_error_line(done, 2, "is not a regular expression")
    assert_error_line(run_fleet_smi("like", "cluster-smi", "-p=maybe", env=env), 2, "neither true")


@pytest.mark.parametrize("joined", ["-pt", "-pd", "-tp"])
def test_joined_flags_are_refused_and_not_half_parsed(env: dict[str, str], joined: str) -> None:
    done = run_fleet_smi("like", "cluster-smi", joined, env=env)
    assert_error_line(done, 2, "each flag has its own dash")


def test_colour_can_be_forced_and_disabled(env: dict[str, str]) -> None:
    coloured = shown("-p", "-color=true", env=env)
    assert "\x1b[0;32m1:NVIDIA H100 80GB HBM3\x1b[0m" in coloured
    assert f"\x1b[0;33m{ME}\x1b[0m" in coloured
    assert "\x1b[0;33mbob" not in coloured
    assert "\x1b" not in shown("-p", "-color=false", env=env)


def test_a_hub_that_does_not_answer_is_an_error_without_waiting(env: dict[str, str]) -> None:
    away = env | {"FLEET_SMI_CLIENT_HUB": f"http://127.0.0.1:{free_port()}"}
    assert_error_line(run_fleet_smi("like", "cluster-smi", env=away), 3, "")


def test_on_a_terminal_it_is_refreshed(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu()])) | {"TERM": "xterm"}
    program = (
        "import sys, fleet_smi.compat.cluster_smi.command as tool; tool._TICK_SECONDS = 0.1\n"
        "from fleet_smi.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program, "like", "cluster-smi", "--here"]
    with subprocess.Popen(command, env=env, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        drawn = b""
        while drawn.count(b"| Node ") < 3:
            drawn += os.read(ours, 65536)
        running.terminate()
        running.wait()
    os.close(ours)
    assert b"\x1b[0;32m0:" in drawn


def test_without_zeromq_the_hub_says_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "zmq.py").write_text("raise ImportError('not here')\n")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(hidden)}
    message = f"{sys.executable} -m pip install 'fleet-smi[zmq]'"
    ports = env | {"FLEET_SMI_HUB_CLUSTER_SMI_NODES": "9080"}
    flags = ("--listen", "127.0.0.1:0", "--state", str(tmp_path / "state"))
    assert_error_line(run_fleet_smi("hub", *flags, env=ports), 2, message)
    requests = env | {"FLEET_SMI_HUB_CLUSTER_SMI_CLIENTS": "9081"}
    assert_error_line(run_fleet_smi("hub", *flags, env=requests), 2, message)
    output = run_fleet_smi("agent", "--cluster-smi", "old:9080", "--once", env=env)
    assert_error_line(output, 2, message)
