"""Fleet selection by flags and settings, with and without a hub, and its failures."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.model.snapshot import Host
from fleet_smi.node.outlets.file import FileOutlet
from tests.builders import gpu, process
from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.machines import MISSING_FOLDER
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


def run_with_hub(hub: ThreadedHub, env: dict[str, str], *arguments: str) -> str:
    done = run_fleet_smi(*arguments, "--hub", hub.url, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_table_groups_gpus_by_node(hub: ThreadedHub, env: dict[str, str]) -> None:
    table = run_with_hub(hub, env)
    assert "3 of 3 nodes" in table
    assert table.count("gpu01") == 1
    assert table.count("twin") == 2
    assert run_json("--hub", hub.url, env=env)["summary"]["gpus"] == 5


def test_the_hub_of_the_settings_is_used_unless_here_is_given(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    env["FLEET_SMI_CLIENT_HUB"] = hub.url
    assert run_json(env=env)["summary"]["nodes"] == 3
    assert run_json("--here", env=env)["summary"]["nodes"] == 1


def test_the_hub_that_runs_here_is_used_by_its_own_user(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    env["FLEET_SMI_HUB_STATE"] = str(hub.folder)
    assert run_json(env=env)["summary"]["gpus"] == 5
    assert len(run_json("nodes", env=env)["nodes"]) == len(hub.fleet().nodes)
    assert run_json("--here", env=env)["summary"]["nodes"] == 1
    # A job takes its GPUs from this machine, unless a hub is named.
    assert "gpu01:" not in run_fleet_smi("free", env=env).stdout


@pytest.mark.parametrize("name", ["127.0.0.1", "gpu.example.org"])
def test_who_can_read_the_state_folder_is_admin_whatever_the_settings_say(
    tmp_path: Path, env: dict[str, str], name: str
) -> None:
    with ThreadedHub(tmp_path / "hub", hub__hosts="gpu.example.org") as hub:
        hub.join_and_report(snapshot_now("gpu01", gpu(0)))
        port = hub.url.rpartition(":")[2]
        (tmp_path / "fleet-smi.toml").write_text(
            f'[hub]\nstate = "{hub.folder}"\nhosts = ["gpu.example.org"]\n'
            f'[client]\nhub = "http://{name}:{port}"\ntoken = "{hub.token("viewer")}"\n'
        )
        env["FLEET_SMI_CONFIG"] = str(tmp_path / "fleet-smi.toml")
        done = run_fleet_smi("nodes", "rename", "gpu01", "big", env=env)
        assert (done.returncode, done.stderr) == (0, "")
        env["FLEET_SMI_CLIENT_TOKEN"] = hub.token("viewer")
        done = run_fleet_smi("nodes", "rename", "big", "small", "--hub", hub.url, env=env)
        assert_error_line(done, 3, "only an admin may do this")


def test_free_prints_node_and_index(hub: ThreadedHub, env: dict[str, str]) -> None:
    assert set(run_with_hub(hub, env, "free").strip().split(",")) == {
        "gpu01:1",
        "gpu01:2",
        "twin~id-b:0",
        "twin~id-c:0",
    }
    assert run_with_hub(hub, env, "free", "-n", "2", "--same-node") == "gpu01:1,gpu01:2\n"
    uuids = run_with_hub(hub, env, "free", "--uuid").strip().split(",")
    assert sorted(uuids) == ["GPU-00000001", "GPU-00000002", "GPU-b", "GPU-c"]


def test_too_few_free_gpus_exit_with_1_and_print_no_device(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    done = run_fleet_smi("free", "-n", "3", "--same-node", "--hub", hub.url, env=env)
    assert_error_line(done, 1, "3")


def test_the_ssh_line_makes_only_the_offered_gpus_visible(
    hub: ThreadedHub, env: dict[str, str]
) -> None:
    (line,) = run_with_hub(hub, env, "free", "-n", "2", "--same-node", "--ssh-line").splitlines()
    *ssh, node, remote = shlex.split(line)
    assert (ssh, node) == (["ssh", "-t", "--"], "gpu01")
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2 exec" in remote
    both = run_with_hub(hub, env, "free", "--ssh-line").splitlines()
    assert sum(" twin " in each for each in both) == 2  # nodes of the same name stay separate


def test_the_ssh_line_quotes_hostile_node_names(tmp_path: Path, env: dict[str, str]) -> None:
    with ThreadedHub(tmp_path / "state") as hub:
        hub.join_and_report(snapshot_now(HOSTILE, gpu(0), node_id="id-x"))
        line = run_with_hub(hub, env, "free", "--ssh-line").strip()
    # Run by a real shell, with a fake `ssh` that prints its arguments.
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "ssh").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / "ssh").chmod(0o755)
    shell = {"PATH": f"{folder}:{os.environ['PATH']}"}
    arguments = subprocess.run(
        ["/bin/sh", "-c", line], env=shell, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert arguments[:3] == ["-t", "--", HOSTILE]
    assert not (tmp_path / "pwned").exists()


def test_who_and_nodes_cover_the_whole_fleet(hub: ThreadedHub, env: dict[str, str]) -> None:
    assert "alice" in run_with_hub(hub, env, "who")
    assert "gpu01" in run_with_hub(hub, env, "who", "alice")
    listed = run_json("nodes", "--hub", hub.url, env=env)["nodes"]
    assert [node["name"] for node in listed] == ["gpu01", "twin", "twin"]


def test_dir_reads_the_reports_in_a_folder(tmp_path: Path, env: dict[str, str]) -> None:
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
def test_a_missing_folder_is_an_error_and_not_an_empty_fleet(
    env: dict[str, str], command: str
) -> None:
    done = run_fleet_smi(command, "--dir", MISSING_FOLDER, env=env)
    message = f"{MISSING_FOLDER}: the folder cannot be read: No such file or directory"
    assert_error_line(done, 3, message)


def test_an_empty_folder_is_an_error(env: dict[str, str], tmp_path: Path) -> None:
    done = run_fleet_smi("--dir", str(tmp_path), env=env)
    assert_error_line(done, 3, f"{tmp_path}: no file of a node in this folder")


def test_an_unreachable_hub_exits_with_3(env: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for command in ((), ("free",), ("who",), ("nodes",)):
        done = run_fleet_smi(*command, "--hub", f"http://127.0.0.1:{port}", env=env)
        assert_error_line(done, 3, "connection refused")


def test_an_unknown_token_exits_with_3(hub: ThreadedHub, env: dict[str, str]) -> None:
    done = run_fleet_smi("--hub", hub.url, env=env | {"FLEET_SMI_CLIENT_TOKEN": "fsmi_viewer_x"})
    assert_error_line(done, 3, "unknown token")


@pytest.mark.parametrize("url", ["ftp://hub", "http://hub:99999", "http://me:pw@hub"])
def test_an_invalid_hub_url_exits_with_2(env: dict[str, str], url: str) -> None:
    done = run_fleet_smi("--hub", url, env=env)
    assert_error_line(done, 2, "--hub")


def test_fleet_flags_are_mutually_exclusive(env: dict[str, str]) -> None:
    assert_error_line(run_fleet_smi("--here", "--dir", "/tmp", env=env), 2, "not allowed with")


def test_interval_prints_the_hubs_fleet_repeatedly(hub: ThreadedHub, env: dict[str, str]) -> None:
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
    started.wait(60)


def test_the_ssh_line_has_an_address_that_works_and_not_the_display_name(
    tmp_path: Path, env: dict[str, str]
) -> None:
    with ThreadedHub(tmp_path / "state") as hub:
        hosts = {
            "with-address": Host(addresses=("fd00::1", "10.0.0.7", "10.1.0.7")),
            "with-ipv6": Host(addresses=("fd00::2",)),
            "with-name": Host(),
        }
        for name, host in hosts.items():
            shot = snapshot_now(name, gpu(0, uuid=f"GPU-{name}"), node_id=f"id-{name}", host=host)
            hub.join_and_report(shot)
            rename = {"name": f"shown {name}"}
            path = f"/api/v1/nodes/id-{name}"
            assert hub.request_json("PATCH", path, rename, token=hub.token("admin")).status == 204
        lines = run_with_hub(hub, env, "free", "--ssh-line").splitlines()
        assert sorted(shlex.split(line)[3] for line in lines) == [
            "10.0.0.7",
            "fd00::2",
            "with-name",
        ]
        for target in ("monitor@gpu07:2222", "gpu08"):
            shot = snapshot_now(
                target[-4:], gpu(0, uuid=f"GPU-{target}"), node_id=f"id-{target[-5:]}"
            )
            hub.deliver(Delivery(source="ssh", target=target, result=shot))
        lines = run_with_hub(hub, env, "free", "--ssh-line").splitlines()
        found = {shlex.split(line)[3] for line in lines}
        assert {"ssh://gpu07:2222", "gpu08"} <= found
