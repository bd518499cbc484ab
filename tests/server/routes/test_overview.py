"""What a hub selects, counts and offers equals what a client does with the whole fleet."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from fleet_smi import __version__
from fleet_smi.client.hub import HubClient
from fleet_smi.fleet.delivery import Delivery
from fleet_smi.model.agent_versions import mark_behind
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.filter import parse_filter
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.node_summary import FleetOverview, view_overview
from fleet_smi.model.select import find_offer
from fleet_smi.model.view_options import ViewOptions, parse_node_pattern, parse_states
from fleet_smi.server import fleet_pages
from tests.cli.program import run_fleet_smi
from tests.client.scripted_server import ScriptedServer, http_response
from tests.random_fleet import random_snapshot
from tests.server.threaded_hub import ThreadedHub, error_code

NODES = 25


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedHub]:
    """A hub with nodes at random, of which several have one name."""
    chance = Random(14)
    with ThreadedHub(tmp_path_factory.mktemp("hub")) as running:
        for number in range(NODES):
            taken = random_snapshot(chance, number, taken_at=time.time())
            taken = replace(taken, interval_seconds=3600.0)
            running.deliver(Delivery(source="push", target=taken.node_id, result=taken))
        yield running


@pytest.fixture
def client(hub: ThreadedHub) -> Iterator[HubClient]:
    with closing(HubClient(hub.url)) as opened:
        yield opened


def without_times(overview: FleetOverview) -> FleetOverview:
    # Each answer is of its own moment, from which the time of a report is computed.
    nodes = tuple(replace(node, reported_at=None) for node in overview.nodes)
    # Only a hub knows which agents are older than itself.
    return replace(overview, taken_at=0.0, nodes=nodes, hub_version=None, behind=())


def without_ages(view: FleetView) -> FleetView:
    nodes = tuple(replace(node, age_seconds=None) for node in view.nodes)
    return replace(view, taken_at=0.0, nodes=nodes)


@pytest.mark.parametrize(
    "filters, options",
    [
        ({}, ViewOptions()),
        ({"state": "free,held"}, ViewOptions(states=parse_states("free,held"))),
        ({"user": "alice", "sort": "memory"}, ViewOptions(user="alice", sort="memory")),
        ({"node": "*[12]*"}, ViewOptions(node=parse_node_pattern("[12]"))),
        ({"filter": "free mem>20G"}, ViewOptions(filter=parse_filter("free mem>20G"))),
    ],
)
def test_a_hub_selects_and_counts_as_a_client_does(
    client: HubClient, filters: dict[str, str], options: ViewOptions
) -> None:
    expected = options.apply(client.fleet())
    assert without_ages(client.fleet(**filters)) == without_ages(expected)
    counted = mark_behind(view_overview(expected), __version__)
    assert without_times(client.overview(**filters)) == without_times(counted)


@pytest.mark.parametrize(
    "request_for", [GpuRequest(), GpuRequest(count=2, model="A100"), GpuRequest(count=99)]
)
def test_offers_name_what_a_client_would_choose(client: HubClient, request_for: GpuRequest) -> None:
    expected = find_offer(client.fleet(), request_for)
    short, full = client.offers(request_for), client.offers(request_for, explain=True)
    assert [one.label for one in short.offered] == [one.label for one in expected.offered]
    assert [one.verdict for one in full.offered] == [one.verdict for one in expected.offered]
    assert (short.refused, short.unmet) == ((), expected.unmet)
    assert [one.uuid for one in full.refused] == [one.uuid for one in expected.refused]
    assert client.free(request_for).offered == expected.offered


def test_pages_of_any_size_make_up_the_fleet(
    hub: ThreadedHub, client: HubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = without_ages(client.fleet())
    assert len(whole.nodes) == NODES
    for size in (1, 7, NODES, NODES + 1):
        monkeypatch.setattr("fleet_smi.client.hub._PAGE_NODES", size)
        assert without_ages(client.fleet()) == whole
    monkeypatch.setattr(fleet_pages, "_MAX_PAGE_BYTES", 1)
    assert without_ages(client.fleet()) == whole
    for query in ("after=x", "after=WzFd", "limit=0", "limit=1001"):
        assert error_code(hub.request("GET", f"/api/v1/fleet?{query}")) in (
            "bad_query",
            "bad_request",
        )


def test_a_large_fleet_is_sent_as_it_is_encoded(
    hub: ThreadedHub, client: HubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = without_ages(client.fleet())
    for module in ("fleet", "nodes"):
        monkeypatch.setattr(f"fleet_smi.server.routes.{module}.MAX_CACHED_NODES", 1)
    monkeypatch.setattr(fleet_pages, "_STREAM_PAGE_NODES", 10)
    older = client._get("/api/v1/fleet", FleetView)  # as a client without pages does
    assert without_ages(older) == whole
    listed = hub.request("GET", "/api/v1/nodes", Accept_Encoding="identity")
    assert listed.headers["transfer-encoding"] == "chunked"
    assert [b'"refused":[]' in listed.body, listed.body.count(b'"node_id"')] == [True, NODES]


def test_an_acknowledged_report_is_in_the_next_answer(hub: ThreadedHub, client: HubClient) -> None:
    token = hub.join("id-new", "new")
    for sequence in range(1, 6):
        taken = random_snapshot(Random(sequence), 99, sequence, time.time())
        sent = replace(taken, node_id="id-new", name=f"new{sequence}", interval_seconds=3600.0)
        assert hub.report(sent, token=token).status == 200
        assert f"new{sequence}" in [node.name for node in client.overview().nodes]
    client_of_admin = HubClient(hub.url, token=hub.token("admin"))
    with closing(client_of_admin):
        client_of_admin.remove("id-new")


def test_an_older_hub_without_these_endpoints_is_still_served(tmp_path: Path) -> None:
    fleet = (
        b'{"taken_at":1.0,"summary":{"gpus":0,"free":0,"leased":0,"busy":0,"held":0,"ghost":0,'
        b'"broken":0,"unknown":0,"nodes":1,"nodes_reporting":1},"nodes":[{"node_id":"a",'
        b'"name":"old-node","taken_at":1.0,"age_seconds":0.5}]}'
    )
    missing = http_response(b'{"error":{"code":"not_found","message":"no"}}', "404 Not Found")
    unknown = b'{"error":{"code":"bad_query","message":"Object contains unknown field `limit`"}}'
    no_pages = http_response(unknown, "400 Bad Request")
    with ScriptedServer([missing, no_pages, http_response(fleet)]) as peer:
        done = run_fleet_smi("-o", "--hub", peer.url, env={"HOME": str(tmp_path)})
    assert "old-node" in done.stdout


@pytest.mark.parametrize("flags", [("-n", "gpu[12]$"), ("-n", "(gpu1|gpu2)$")])
def test_a_name_is_matched_by_the_hub_or_else_by_the_command(
    hub: ThreadedHub, tmp_path: Path, flags: tuple[str, str]
) -> None:
    done = run_fleet_smi("-o", *flags, "--hub", hub.url, env={"HOME": str(tmp_path)})
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("gpu")]
    assert set(rows) == {"gpu1", "gpu2"}
    assert "GPUs do not match" in done.stdout
