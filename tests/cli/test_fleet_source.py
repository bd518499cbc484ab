"""Commands that look at a fleet: a hub's, one without a hub, and how each failure ends them."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.node.outlets.file import FileOutlet
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub

HOSTILE = "$(touch pwned); -oProxyCommand=`id` 'x' \"y\""
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """Three nodes, two of them with one name; alice is on a GPU of the first."""
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        running.join_and_report(
            snapshot_now("gpu01", gpu(0, processes=(process(),)), gpu(1), gpu(2))
        )
        for each in ("b", "c"):
            running.join_and_report(
                snapshot_now("twin", gpu(0, uuid=f"GPU-{each}"), node_id=f"id-{each}")
            )
        yield running


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "COLUMNS": "100"}


def asked(hub: ThreadedHub, env: dict[str, str], *arguments: str) -> str:
    done = run_fleet_smi(*arguments, "--hub", hub.url, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_of_a_hub_has_its_nodes_as_groups(hub: ThreadedHub, env: dict[str, str]) -> None:
    table = asked(hub, env)
    assert "3 of 3 nodes" in table
    assert table.count("gpu01") == 1
    assert table.count("twin") == 2
    assert run_json("--hub", hub.url, env=env)["summary"]["gpus"] == 5


def test_the_hub_of_the_settings_is_asked_unless_here_is_meant(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    env["FLEET_SMI_CLIENT_HUB"] = hub.url
    assert run_json(env=env)["summary"]["nodes"] == 3
    assert run_json("--here", env=env)["summary"]["nodes"] == 1


def test_free_names_node_and_index(hub: ThreadedHub, env: dict[str, str]) -> None:
    assert set(asked(hub, env, "free").strip().split(",")) == {
        "gpu01:1",
        "gpu01:2",
        "twin~id-b:0",
        "twin~id-c:0",
    }
    assert asked(hub, env, "free", "-n", "2", "--same-node") == "gpu01:1,gpu01:2\n"
    uuids = asked(hub, env, "free", "--uuid").strip().split(",")
    assert sorted(uuids) == ["GPU-00000001", "GPU-00000002", "GPU-b", "GPU-c"]


def test_what_cannot_be_met_is_exit_1_and_no_device(hub: ThreadedHub, env: dict[str, str]) -> None:
    done = run_fleet_smi("free", "-n", "3", "--same-node", "--hub", hub.url, env=env)
    assert_error_line(done, 1, "3")


def test_the_ssh_line_leads_to_those_gpus_and_no_others(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    (line,) = asked(hub, env, "free", "-n", "2", "--same-node", "--ssh-line").splitlines()
    *ssh, node, remote = shlex.split(line)
    assert (ssh, node) == (["ssh", "-t", "--"], "gpu01")
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2 exec" in remote
    both = asked(hub, env, "free", "--ssh-line").splitlines()
    assert sum(" twin " in each for each in both) == 2  # two nodes of one name stay two


def test_a_name_that_a_shell_would_obey_is_only_a_name(tmp_path: Path, env: dict[str, str]) -> None:
    with ThreadedHub(tmp_path / "state") as hub:
        hub.join_and_report(snapshot_now(HOSTILE, gpu(0), node_id="id-x"))
        line = asked(hub, env, "free", "--ssh-line").strip()
    # What a shell makes of it, with an `ssh` that only tells its arguments.
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "ssh").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / "ssh").chmod(0o755)
    shell = {"PATH": f"{folder}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["/bin/sh", "-c", line], env=shell, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[:3] == ["-t", "--", HOSTILE]
    assert not (tmp_path / "pwned").exists()


def test_who_and_nodes_answer_for_the_whole_fleet(hub: ThreadedHub, env: dict[str, str]) -> None:
    assert "alice" in asked(hub, env, "who")
    assert "gpu01" in asked(hub, env, "who", "alice")
    listed = run_json("nodes", "--hub", hub.url, env=env)["nodes"]
    assert [node["name"] for node in listed] == ["gpu01", "twin", "twin"]


def test_reports_in_a_folder_are_a_fleet_without_a_hub(tmp_path: Path, env: dict[str, str]) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in ("gpu01", "gpu02"):
        outlet = FileOutlet(str(folder))
        outlet.deliver(snapshot_now(name, gpu(0, uuid=f"GPU-{name}"), node_id=f"id-{name}"))
        outlet.close()
    (folder / "bad.fsmi").write_bytes(b"")
    view = run_json("--dir", str(folder), env=env)
    assert view["summary"]["nodes_reporting"] == 2
    troubles = [node["trouble"] for node in view["nodes"] if node["trouble"]]
    assert troubles == ["is empty: its writer was interrupted, or the disk is full"]
    assert run_fleet_smi("free", "--dir", str(folder), env=env).stdout == "gpu01:0,gpu02:0\n"
    assert "is empty" in run_fleet_smi("nodes", "--dir", str(folder), env=env).stdout


@pytest.mark.parametrize("command", ["status", "free", "who", "nodes"])
def test_a_folder_that_is_not_there_is_no_empty_fleet(env: dict[str, str], command: str) -> None:
    done = run_fleet_smi(command, "--dir", "/nonexistent/place", env=env)
    words = "/nonexistent/place: the folder cannot be read: No such file or directory"
    assert_error_line(done, 3, words)


def test_a_folder_in_which_nobody_has_left_a_file_is_told_as_such(
    env: dict[str, str], tmp_path: Path
) -> None:
    done = run_fleet_smi("--dir", str(tmp_path), env=env)
    assert_error_line(done, 3, f"{tmp_path}: no file of a node in this folder")


def test_a_hub_that_does_not_answer_is_exit_3(env: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for command in ((), ("free",), ("who",), ("nodes",)):
        done = run_fleet_smi(*command, "--hub", f"http://127.0.0.1:{port}", env=env)
        assert_error_line(done, 3, "connection refused")


def test_a_token_that_the_hub_does_not_know_is_exit_3(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    done = run_fleet_smi("--hub", hub.url, env=env | {"FLEET_SMI_CLIENT_TOKEN": "fsmi_viewer_x"})
    assert_error_line(done, 3, "unknown token")


@pytest.mark.parametrize("url", ["ftp://hub", "http://hub:99999", "http://me:pw@hub"])
def test_what_is_no_hub_is_exit_2(env: dict[str, str], url: str) -> None:
    done = run_fleet_smi("--hub", url, env=env)
    assert_error_line(done, 2, "--hub")


def test_two_places_at_once_make_no_sense(env: dict[str, str]) -> None:
    assert_error_line(run_fleet_smi("--here", "--dir", "/tmp", env=env), 2, "not allowed with")


def test_a_fleet_is_looked_at_again_and_again_over_one_connection(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "fleet_smi", "--json", "-i", "0.1", "--hub", hub.url],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    with started.stdout:
        for _ in range(3):
            assert '"nodes"' in started.stdout.readline()
    started.terminate()
    started.wait(10)
