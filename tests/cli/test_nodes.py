"""`fleet-smi nodes`: list nodes; rename, label and remove them as an admin."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_smi.cli import fleet_source
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.paths import user_name
from tests.builders import gpu
from tests.cli.program import assert_error_line, run_fleet_smi, run_json
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ThreadedHub]:
    with ThreadedHub(tmp_path / "state") as running:
        running.join_and_report(snapshot_now("gpu01", gpu(0)))
        yield running


@pytest.fixture
def local(hub: ThreadedHub, tmp_path: Path) -> dict[str, str]:
    """The environment of the user who runs the hub, on its machine."""
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "FLEET_SMI_HUB_STATE": str(hub.folder),
        "FLEET_SMI_HUB_LISTEN": hub.url.removeprefix("http://"),
    }


def named(hub: ThreadedHub) -> list[str]:
    return [node.name for node in hub.fleet().nodes]


def test_the_user_who_runs_the_hub_needs_no_token(hub: ThreadedHub, local: dict[str, str]) -> None:
    assert run_fleet_smi("nodes", "rename", "gpu01", "big-one", env=local).returncode == 0
    assert named(hub) == ["big-one"]
    assert run_fleet_smi("nodes", "label", "big-one", "rack=b2", "a=1", env=local).returncode == 0
    assert run_fleet_smi("nodes", "label", "big-one", "a=", env=local).returncode == 0
    assert hub.fleet().nodes[0].labels == {"rack": "b2"}
    done = run_fleet_smi("nodes", "remove", "big-one", env=local)
    assert (done.returncode, named(hub)) == (0, [])
    assert "to come back it must join again" in done.stdout


def test_a_self_signed_certificate_is_trusted_on_its_machine(tmp_path: Path) -> None:
    with ThreadedHub(tmp_path / "state", hub__tls="self-signed") as hub:
        env = {
            "HOME": str(tmp_path),
            "FLEET_SMI_HUB_STATE": str(hub.folder),
            "FLEET_SMI_HUB_LISTEN": hub.url.removeprefix("https://"),
            "FLEET_SMI_HUB_TLS": "self-signed",
        }
        done = run_fleet_smi("nodes", "remove", "nobody", env=env)
        assert_error_line(done, 2, "no node named nobody")


def test_a_viewer_is_refused(hub: ThreadedHub, local: dict[str, str]) -> None:
    env = local | {"FLEET_SMI_CLIENT_TOKEN": hub.token("viewer")}
    for arguments in (("remove", "gpu01"), ("rename", "gpu01", "x"), ("label", "gpu01", "a=b")):
        assert_error_line(
            run_fleet_smi("nodes", *arguments, env=env), 3, "only an admin may do this"
        )
    assert named(hub) == ["gpu01"]


def test_the_local_admin_token_is_sent_to_no_other_hub(
    hub: ThreadedHub, local: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in local.items():
        monkeypatch.setenv(name, value)
    for url, is_sent in (("http://hub.example:7070", False), (hub.url, True)):
        client = fleet_source.hub_client(argparse.Namespace(hub=url))
        assert (client._connection.token is not None) is is_sent


def test_nodes_of_the_same_name_are_selected_by_id(hub: ThreadedHub, local: dict[str, str]) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-x"), node_id="another-id"))
    done = run_fleet_smi("nodes", "remove", "gpu01", env=local)
    assert_error_line(done, 2, "2 nodes are named gpu01: give an id instead")
    assert "another-id" in done.stderr
    assert run_fleet_smi("nodes", "remove", "another-id", env=local).returncode == 0
    assert [node.node_id for node in hub.fleet().nodes] == ["id-of-gpu01"]


def test_nodes_of_the_same_name_are_selected_by_the_name_that_the_list_shows(
    hub: ThreadedHub, local: dict[str, str]
) -> None:
    hub.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-x"), node_id="another-id"))
    listed = run_fleet_smi("nodes", env=local | {"COLUMNS": "60"}).stdout
    assert "gpu01~another-" in listed
    assert "    id another-id\n" in listed
    assert run_fleet_smi("nodes", "remove", "gpu01~another-", env=local).returncode == 0
    assert [node.node_id for node in hub.fleet().nodes] == ["id-of-gpu01"]


def test_a_taken_name_is_refused(hub: ThreadedHub, local: dict[str, str]) -> None:
    hub.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-x")))
    done = run_fleet_smi("nodes", "rename", "gpu01", "gpu02", env=local)
    assert_error_line(done, 2, "the node id-of-gpu02 is named gpu02: choose another name")
    assert named(hub) == ["gpu01", "gpu02"]
    assert run_fleet_smi("nodes", "rename", "gpu01", "gpu01", env=local).returncode == 0


@pytest.mark.parametrize(
    "via, text",
    [
        ("ssh", "by ssh: remove gpu09 from hub.ssh, restart the hub and remove it again"),
        ("files", "by files: delete the file of gpu09 from the folder in hub.files, and end"),
        ("self", "by self: set hub.include_self to false, restart the hub"),
    ],
)
def test_of_a_polled_node_it_says_how_to_keep_it_away(
    hub: ThreadedHub, local: dict[str, str], via: str, text: str
) -> None:
    polled = snapshot_now("gpu09", gpu(0, uuid="GPU-x"))
    hub.deliver(Delivery(source=via, target="gpu09", result=polled, id_origin="target"))
    done = run_fleet_smi("nodes", "remove", "gpu09", env=local)
    assert "it comes back with its next report " + text in done.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("remove", "gpu99"), "no node named gpu99"),
        (("label", "gpu01", "rack"), "is not a label: give KEY=VALUE"),
        (("label", "gpu01", "=x"), "is not a label: give KEY=VALUE"),
        (("rename", "gpu01"), "name"),
    ],
)
def test_invalid_arguments_exit_with_2(
    hub: ThreadedHub, local: dict[str, str], arguments: tuple[str, ...], message: str
) -> None:
    assert_error_line(run_fleet_smi("nodes", *arguments, env=local), 2, message)


def test_the_list_shows_the_transport_of_each_node(hub: ThreadedHub, local: dict[str, str]) -> None:
    done = run_fleet_smi("nodes", "--hub", hub.url, env=local)
    assert "push" in done.stdout
    (node,) = run_json("nodes", "--hub", hub.url, env=local)["nodes"]
    assert (node["node_id"], node["via"]) == ("id-of-gpu01", "push")


def test_an_admin_closes_and_opens_what_is_named(hub: ThreadedHub, local: dict[str, str]) -> None:
    flags = ("--until", "2036-01-01", "--note", "new fan")
    done = run_fleet_smi("nodes", "close", "gpu01:0", *flags, env=local)
    who = user_name(os.geteuid())
    reason = f"closed by {who} until 2036-01-01: new fan"
    assert done.stdout == f"gpu01:0: {reason}; what runs there goes on\n", done.stderr
    (verdict,) = [gpu.verdict for node in hub.fleet().nodes for gpu in node.gpus]
    assert (verdict.state, verdict.reason) == ("leased", reason)
    listed = run_fleet_smi("nodes", env=local).stdout
    assert "CLOSED" in listed
    assert "new fan" in listed
    assert run_json("nodes", env=local)["closings"][0]["note"] == "new fan"
    assert run_fleet_smi("nodes", "close", "label:rack=3", env=local).returncode == 0
    assert run_fleet_smi("nodes", "open", "gpu01", env=local).stdout == "gpu01 is open again\n"
    again = run_fleet_smi("nodes", "open", "gpu01", env=local)
    assert_error_line(again, 2, "gpu01 is not closed; closed by label: label:rack=3")
    assert run_fleet_smi("nodes", "open", "label:rack=3", env=local).returncode == 0
    assert "CLOSED" not in run_fleet_smi("nodes", env=local).stdout


@pytest.mark.parametrize(
    "arguments, error",
    [
        (("nobody",), "no node named nobody"),
        (("gpu01:7",), "gpu01 has no GPU 7; it has gpu01:0"),
        (("label:rack",), "write it like label:rack=3"),
        (("gpu01", "--until", "yesterday"), "is not a point in time to come"),
        (("gpu01", "--until", "2020-01-01"), "is in the past"),
    ],
)
def test_what_cannot_be_closed_is_said(
    hub: ThreadedHub, local: dict[str, str], arguments: tuple[str, ...], error: str
) -> None:
    assert_error_line(run_fleet_smi("nodes", "close", *arguments, env=local), 2, error)
