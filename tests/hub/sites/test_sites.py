"""A hub that shows the fleet of another one: two real hubs, over their real streams."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import FleetError, UsageError
from fleet_smi.hub.sites import sites as sites_module
from fleet_smi.model.fleet import NodeView
from tests.builders import gpu, instance, process
from tests.cli.program import run_fleet_smi
from tests.machines import wait_until
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites_module, "_GRACE_SECONDS", 0.2)


@pytest.fixture
def berlin(tmp_path: Path) -> Iterator[ThreadedHub]:
    """The hub of another site: alice on one of two GPUs, and a GPU in MIG mode."""
    with ThreadedHub(tmp_path / "berlin") as hub:
        alice = process(command="python train.py --secret-plan")
        parts = (instance(1), instance(2, processes=(process(7, "bob"),)))
        hub.join_and_report(
            snapshot_now(
                "gpu01",
                gpu(0, processes=(alice,), busy_percent=97.0, memory_used_bytes=40 << 30),
                gpu(1),
                gpu(2, mig_mode=True, instances=parts),
                labels={"rack": "b"},
            )
        )
        yield hub


def follow(tmp_path: Path, site: ThreadedHub, token: str | None = None) -> ThreadedHub:
    sites = {"berlin": site.url}
    return ThreadedHub(tmp_path / "home", hub__sites=sites, hub__site_token=token)


def nodes(hub: ThreadedHub) -> dict[str, NodeView]:
    return {node.name: node for node in hub.fleet().nodes}


def when_shown(hub: ThreadedHub, name: str, check: Callable[[NodeView], bool]) -> NodeView:
    wait_until(lambda: name in nodes(hub) and check(nodes(hub)[name]), seconds=60)
    return nodes(hub)[name]


def test_the_nodes_of_a_site_are_in_every_view(tmp_path: Path, berlin: ThreadedHub) -> None:
    env = {"HOME": str(tmp_path)}
    with follow(tmp_path, berlin, berlin.token("viewer")) as home:
        home.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-home")))
        shown = when_shown(home, "berlin/gpu01", lambda node: len(node.gpus) == 3)
        there = berlin.fleet().nodes[0]
        assert [one.verdict.state for one in shown.gpus] == [
            one.verdict.state for one in there.gpus
        ]
        assert (shown.site, shown.labels, shown.silent) == ("berlin", {"rack": "b"}, False)
        assert [one.user for one in shown.gpus[0].processes or ()] == ["alice"]
        assert shown.gpus[0].busy_percent == 97.0
        assert [part.verdict.state for part in shown.gpus[2].instances] == ["free", "busy"]
        assert "secret-plan" not in str(nodes(home))
        for command in (("-o",), ("free", "-v"), ("--csv",)):
            done = run_fleet_smi(*command, "--hub", home.url, env=env)
            assert "berlin/gpu01" in done.stdout, command
        only = run_fleet_smi("--filter", "site:berlin", "--hub", home.url, env=env).stdout
        assert "berlin/gpu01" in only
        assert "1 of 4 GPUs do not match" in only
        offered = run_fleet_smi("free", "--hub", home.url, env=env).stdout.strip().split(",")
        assert {"gpu01:0", "berlin_gpu01:1"} <= set(offered)
        metrics = home.request("GET", "/metrics").body.decode()
        assert 'node="berlin/gpu01",node_id="berlin/id-of-gpu01",site="berlin"' in metrics
        for path in ("/", "/?overview=true", "/api/v1/nodes", "/api/v1/people?user=alice"):
            assert "berlin/gpu01" in home.request("GET", path).body.decode(), path


def test_a_change_at_the_site_is_shown_and_the_node_is_read_only(
    tmp_path: Path, berlin: ThreadedHub
) -> None:
    with follow(tmp_path, berlin, berlin.token("viewer")) as home:
        when_shown(home, "berlin/gpu01", lambda node: bool(node.gpus))
        token = berlin.join("id-of-new", "new")
        berlin.report(snapshot_now("new", gpu(0, uuid="GPU-new"), node_id="id-of-new"), token=token)
        when_shown(home, "berlin/new", lambda node: bool(node.gpus))
        with closing(HubClient(home.url, token=home.token("admin"))) as admin:
            for refused in (
                lambda: admin.remove("berlin/id-of-new"),
                lambda: admin.label("berlin/id-of-new", name="mine"),
                lambda: admin.series("berlin/id-of-new", "1h"),
            ):
                with pytest.raises(UsageError, match=berlin.url):
                    refused()
        with closing(HubClient(berlin.url, token=berlin.token("admin"))) as admin:
            admin.remove("id-of-new")
        wait_until(lambda: "berlin/new" not in nodes(home), seconds=60)


def test_two_hubs_that_show_each_other_do_not_echo(tmp_path: Path, berlin: ThreadedHub) -> None:
    with follow(tmp_path, berlin) as home:
        home.join_and_report(snapshot_now("gpu01", gpu(0, uuid="GPU-home")))
        sites = {"home": home.url}
        with ThreadedHub(tmp_path / "third", hub__sites=sites) as third:
            when_shown(home, "berlin/gpu01", lambda node: bool(node.gpus))
            when_shown(third, "home/gpu01", lambda node: bool(node.gpus))
            assert list(nodes(third)) == ["home/gpu01"]


@pytest.mark.usefixtures("short_grace")
def test_a_site_that_does_not_answer_is_silent_with_the_reason_until_it_is_back(
    tmp_path: Path, berlin: ThreadedHub
) -> None:
    with follow(tmp_path, berlin) as home:
        when_shown(home, "berlin/gpu01", lambda node: not node.silent)
        port = int(berlin.url.rpartition(":")[2])
        berlin.stop()
        gone = when_shown(home, "berlin/gpu01", lambda node: node.silent)
        assert "site berlin does not answer" in (gone.trouble or "")
        assert {one.verdict.state for one in gone.gpus} == {"unknown"}
        assert (
            "berlin"
            not in run_fleet_smi("free", "--hub", home.url, env={"HOME": str(tmp_path)}).stdout
        )
        with ThreadedHub(berlin.folder, hub__listen=f"127.0.0.1:{port}"):
            when_shown(home, "berlin/gpu01", lambda node: not node.silent and not node.trouble)


@pytest.mark.parametrize("token", [None, "fsmi_viewer_unknown"])
def test_a_site_that_was_never_reached_is_one_row_that_says_why(
    tmp_path: Path, berlin: ThreadedHub, token: str | None
) -> None:
    if token is None:
        berlin.stop()
    with follow(tmp_path, berlin, token) as home:
        reason = "connection refused" if token is None else "401"
        row = when_shown(home, "berlin/", lambda node: reason in (node.trouble or ""))
        assert (row.silent, row.gpus) == (True, ())


def test_a_site_with_too_many_nodes_is_not_shown(tmp_path: Path, berlin: ThreadedHub) -> None:
    berlin.join_and_report(snapshot_now("gpu02", gpu(0, uuid="GPU-2")))
    sites = {"berlin": berlin.url}
    with ThreadedHub(tmp_path / "home", hub__sites=sites, hub__nodes_most=1) as home:
        when_shown(home, "berlin/", lambda node: "more than 1 nodes" in (node.trouble or ""))


def test_a_token_of_an_unknown_site_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("berlin fsmi_viewer_x\nparis fsmi_viewer_y\n")
    file.chmod(0o600)
    with pytest.raises(FleetError, match="paris is not in hub"):
        ThreadedHub(
            tmp_path / "home",
            hub__sites={"berlin": "http://127.0.0.1:1"},
            hub__site_tokens_file=str(file),
        )
