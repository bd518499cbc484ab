"""`fleet-smi join`: hosts, patterns and errors, before any host is contacted."""

import os
from pathlib import Path

import pytest

from fleet_smi.cli.join_hosts import JoinPlan, select_hosts
from fleet_smi.errors import UsageError
from fleet_smi.model.node_summary import FleetOverview, NodeSummary, view_overview
from tests.cli.program import assert_error_line, run_fleet_smi
from tests.server.threaded_hub import ThreadedHub
from tests.terminal.samples import fleet


def known(*names: str) -> FleetOverview:
    empty = view_overview(fleet())
    nodes = tuple(NodeSummary(node_id=name, name=name) for name in names)
    return FleetOverview(taken_at=empty.taken_at, summary=empty.summary, nodes=nodes)


def test_patterns_match_the_ssh_config_and_the_nodes_of_the_hub(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host lab-1 lab-2 desk\nHost *\n  User x\n")
    nodes = known("lab-2", "lab-3", "gpu01")
    hosts = select_hosts(["lab-*,alice@gpu01:2222", "gpu0?"], nodes, str(config))
    assert hosts == ["lab-1", "lab-2", "lab-3", "alice@gpu01:2222", "gpu01"]
    with pytest.raises(UsageError, match="matches 'x\\*'"):
        select_hosts(["x*"], nodes, str(config))
    for evil in ("-oProxyCommand=x", "a;b", "$(id)"):
        with pytest.raises(UsageError, match="is not a host"):
            select_hosts([evil], nodes, str(config))


def test_the_script_for_a_host_has_its_token_in_no_argument() -> None:
    plan = JoinPlan(
        script=b"#!/bin/sh\necho {braces} $(id)\n",
        url="https://gpuhub:7070",
        fingerprint="sha256:ab",
        token="fsmi_join_x; id",
        is_insecure=False,
        is_dry_run=True,
        ssh_config=None,
        timeout_seconds=1.0,
    )
    text = plan.remote_script().decode()
    assert "echo {braces} $(id)\n" in text
    # `echo` is a part of the shell; nothing else has the token.
    (line,) = [line for line in text.splitlines() if "fsmi_join_x" in line]
    run = '$as sh "$folder/install" https://gpuhub:7070 --fingerprint sha256:ab --dry-run'
    assert line == f"echo 'fsmi_join_x; id' | {run}"


def test_what_cannot_work_is_said_before_any_host_is_contacted(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    nowhere = env | {"FLEET_SMI_HUB_STATE": str(tmp_path / "none")}
    assert_error_line(run_fleet_smi("join", "gpu01", env=nowhere), 2, "no hub given")
    assert_error_line(run_fleet_smi("join", env=nowhere), 2, "missing HOST")
    with ThreadedHub(tmp_path / "hub") as hub:
        env["FLEET_SMI_HUB_STATE"] = str(tmp_path / "hub")
        loopback = run_fleet_smi("join", "gpu01", env=env)
        assert loopback.returncode == 2
        assert "no other machine reaches this hub" in loopback.stderr
        viewer = env | {"FLEET_SMI_CLIENT_TOKEN": hub.token("viewer")}
        refused = run_fleet_smi("join", "gpu01", "--hub", hub.url, env=viewer)
        assert_error_line(refused, 3, "only an admin may do this")
        tokens = hub.server.credentials.tokens.list_all()
    # A token that was made for it is revoked.
    assert [token.revoked_at is None for token in tokens if token.role == "join"] == [False]
