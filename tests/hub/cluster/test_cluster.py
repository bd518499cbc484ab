"""Several hubs as one fleet, with a real NATS and a real PostgreSQL server."""

import time
from functools import partial
from pathlib import Path

import msgspec

from fleet_smi.model.fleet import NodeView
from tests.builders import gpu
from tests.hub.cluster.agents import Agent
from tests.hub.cluster.conftest import StartHub
from tests.machines import wait_until
from tests.nats import Nats
from tests.server.routes.snapshots import snapshot_now
from tests.server.threaded_hub import ThreadedHub


def shown(hub: ThreadedHub, name: str) -> NodeView | None:
    """Return a node as a hub shows it."""
    return next((node for node in hub.fleet().nodes if node.name == name), None)


def is_live(hub: ThreadedHub, name: str) -> bool:
    """Return whether a hub shows a node with a judged GPU."""
    node = shown(hub, name)
    return node is not None and not node.silent and [g.verdict.state for g in node.gpus] == ["busy"]


def are_live(hub: ThreadedHub, *names: str) -> bool:
    """Return whether a hub shows these nodes, each with a judged GPU."""
    return all(is_live(hub, name) for name in names)


def has_names(hub: ThreadedHub, *names: str) -> bool:
    """Return whether a hub shows nodes of these names only."""
    return [node.name for node in hub.fleet().nodes] == list(names)


def page_names(hub: ThreadedHub) -> list[str]:
    """Return the names of the nodes that a hub sends in pages of one."""
    names, after = list[str](), ""
    while True:
        page = msgspec.json.decode(hub.request("GET", f"/api/v1/fleet?limit=1{after}").body)
        names += [node["name"] for node in page["nodes"]]
        if page["next"] is None:
            return names
        after = f"&after={page['next']}"


def owns(hub: ThreadedHub, agent: Agent) -> bool:
    """Return whether a hub may write the history of a node."""
    return agent.node_id in hub.server.hub.fleet.owned  # type: ignore[attr-defined]


def problem_kinds(hub: ThreadedHub) -> list[str]:
    """Return the kinds of the problems that a hub has."""
    body = hub.request("GET", "/api/v1/problems").body
    return [problem["kind"] for problem in msgspec.json.decode(body)["problems"]]


def in_the_way(hub: ThreadedHub, name: str) -> list[str]:
    """Return who uses GPUs of a node that somebody has booked, as a hub shows it."""
    node = shown(hub, name)
    bookings = () if node is None else node.bookings
    return [user for booking in bookings for user in booking.in_the_way]


def nodes_with_processes(hub: ThreadedHub, token: str) -> set[str]:
    """Return the ids of the nodes in the history that a process runs on."""
    body = hub.request("GET", "/api/v1/history/occupancies", token=token).body
    rows = msgspec.json.decode(body).get("rows", ())  # none before the history begins
    return {row["gpu"]["node_id"] for row in rows if row["occupancies"][-1]["end"] is None}


def test_every_hub_shows_answers_and_changes_the_nodes_of_all(
    tmp_path: Path, start_hub: StartHub
) -> None:
    one, two = start_hub("one"), start_hub("two")
    join, admin = one.token("join"), one.token("admin")
    with (
        Agent(tmp_path, "gpu01", [one.url], join),
        Agent(tmp_path, "gpu02", [two.url], join),
    ):
        for hub in (one, two):
            wait_until(partial(are_live, hub, "gpu01", "gpu02"))
            assert hub.fleet().summary.gpus == 2
        path = "/api/v1/nodes/id-of-gpu01"
        detail = msgspec.json.decode(two.request("GET", path, token=admin).body, type=NodeView)
        assert [process.user for process in detail.gpus[0].processes or ()] == ["alice"]
        # A name that is given at one hub is set at the owner, and shown by all.
        assert two.request_json("PATCH", path, {"name": "big"}, token=admin).status == 204
        for hub in (one, two):
            wait_until(partial(is_live, hub, "big"))
        # What is booked at one hub is shown by all, with who is in the way.
        booking = {"node": "big", "gpus": 1, "owner": "maria"}
        booking |= {"starts_at": time.time(), "ends_at": time.time() + 3600}
        made = two.request_json("POST", "/api/v1/reservations", booking, token=admin)
        assert made.status == 200, made
        for hub in (one, two):
            wait_until(lambda hub=hub: in_the_way(hub, "big") == ["alice"])  # type: ignore[misc]
        # Of the other hub's node too, whose process still runs.
        wait_until(lambda: {"id-of-gpu01", "id-of-gpu02"} == nodes_with_processes(two, admin))
    for hub in (one, two):
        wait_until(lambda hub=hub: all(node.silent for node in hub.fleet().nodes))  # type: ignore[misc]
        assert has_names(hub, "big", "gpu02")
    assert one.request("DELETE", "/api/v1/nodes/id-of-gpu02", token=admin).status == 204
    for hub in (one, two):
        wait_until(partial(has_names, hub, "big"))
    assert one.request("GET", "/api/v1/nodes/id-of-gpu02", token=admin).status == 404


def test_an_agent_that_loses_its_hub_goes_on_at_another_which_owns_it_then(
    tmp_path: Path, start_hub: StartHub
) -> None:
    one, two = start_hub("one"), start_hub("two")
    with Agent(tmp_path, "gpu01", [one.url, two.url], one.token("join")) as agent:
        wait_until(lambda: owns(one, agent) or owns(two, agent))
        first, second = (one, two) if owns(one, agent) else (two, one)
        for hub in (one, two):
            wait_until(partial(is_live, hub, "gpu01"))
        since = (shown(second, "gpu01") or agent).gpus[0].verdict.since  # type: ignore[union-attr]
        first.stop()
        wait_until(lambda: owns(second, agent))
        sequence = agent.sequence
        wait_until(
            lambda: (node := shown(second, "gpu01")) is not None and node.sequence > sequence
        )
        node = shown(second, "gpu01")
        assert node is not None
        assert (node.silent, node.missing_reports) == (False, 0)
        # It continues what the other hub has judged.
        assert abs(node.gpus[0].verdict.since - since) < 0.1
        # The hub that took over is not sent full reports for long.
        compact = agent.session.compact_reports
        wait_until(lambda: agent.session.compact_reports > compact + 2)
        node = shown(second, "gpu01")
        assert node is not None
        assert (node.sequence > sequence, node.missing_reports) == (True, 0)


def test_a_hub_shows_sites_beside_the_nodes_of_all_hubs(
    tmp_path: Path, start_hub: StartHub
) -> None:
    with ThreadedHub(tmp_path / "away") as away:
        away.join_and_report(snapshot_now("far", gpu(0)))
        sites = {"hub__sites": {"away": away.url}, "hub__site_token": away.token("viewer")}
        one, two = start_hub("one"), start_hub("two", **sites)
        join = one.token("join")
        with (
            Agent(tmp_path, "gpu01", [one.url], join) as first,
            Agent(tmp_path, "gpu02", [two.url], join) as second,
        ):
            wait_until(lambda: owns(one, first) and owns(two, second))
            wait_until(partial(has_names, two, "away/far", "gpu01", "gpu02"))
            wait_until(partial(has_names, one, "gpu01", "gpu02"))
            assert page_names(two) == ["away/far", "gpu01", "gpu02"]
            assert two.request("GET", "/api/v1/nodes/away%2Fid-of-far").status == 200
            # Each hub sends on what it owns, such as to a long-term store.
            assert one.server.hub.fleet.node_ids == (first.node_id,)
            assert two.server.hub.fleet.node_ids == (second.node_id,)


def test_without_nats_each_hub_shows_what_it_hears_and_says_so(
    tmp_path: Path, start_hub: StartHub, nats: Nats
) -> None:
    one, two = start_hub("one"), start_hub("two")
    join = one.token("join")
    with (
        Agent(tmp_path, "gpu01", [one.url], join),
        Agent(tmp_path, "gpu02", [two.url], join),
    ):
        for hub in (one, two):
            wait_until(partial(are_live, hub, "gpu01", "gpu02"))
        nats.kill()
        wait_until(lambda: "cluster" in problem_kinds(one))
        wait_until(lambda: (node := shown(one, "gpu02")) is not None and node.silent)
        assert is_live(one, "gpu01")
        assert is_live(two, "gpu02")
        nats.start()
        for hub in (one, two):
            wait_until(partial(are_live, hub, "gpu01", "gpu02"))
            wait_until(lambda hub=hub: problem_kinds(hub) == [])  # type: ignore[misc]


def test_credentials_that_one_hub_changes_hold_at_all(tmp_path: Path, start_hub: StartHub) -> None:
    one, two = start_hub("one"), start_hub("two")
    viewer = one.server.credentials.issue_token("viewer")
    wait_until(lambda: two.server.credentials.identify_token(viewer.secret) is not None)
    version = one.server.credentials.version
    two.server.credentials.revoke_token(viewer.id)
    wait_until(lambda: one.server.credentials.identify_token(viewer.secret) is None)
    # What was authorized before is not any more, without reading its token again.
    wait_until(lambda: one.server.credentials.version > version)
