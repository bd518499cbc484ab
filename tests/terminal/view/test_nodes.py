"""The screen of `fleet-smi nodes`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.hub_problems import HubProblem, Problems, RefusedSender
from fleet_smi.model.node_summary import view_overview
from fleet_smi.model.snapshot import CollectorRun, Host
from fleet_smi.terminal.paint import Paint
from fleet_smi.terminal.view import nodes, status
from tests.golden import assert_matches_golden
from tests.terminal import samples
from tests.terminal.fleet_strategies import FLEET
from tests.terminal.samples import fleet
from tests.terminal.view.test_any_fleet import COLUMNS, SGR, assert_fits

GOLDEN = Path(__file__).parent / "golden"


def screen(view: FleetView, columns: int = 120, *, on: bool = False) -> str:
    return nodes.render(view_overview(view), Problems(), columns, Paint(enabled=on))


def reported(node: NodeView, via: str, **fields: object) -> NodeView:
    return replace(node, via=via, agent_version="0.3.0", **fields)


def farm() -> FleetView:
    """One node per transport, with every kind of problem."""
    never = NodeView(
        node_id="ssh:gpu09",
        name="gpu09",
        taken_at=None,
        age_seconds=None,
        silent=True,
        via="ssh",
        trouble="Permission denied (publickey): put the hub's key there",
    )
    return fleet(
        reported(samples.eight(), "push", labels={"rack": "a", "room": "2"}),
        reported(samples.mixed(), "pull", clock_skew_seconds=-600.0, missing_reports=3),
        replace(samples.silent(), via="files"),
        replace(samples.not_answering(), via="self"),
        never,
    )


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_the_nodes_match_the_golden_file(columns: int) -> None:
    assert_matches_golden(GOLDEN / f"nodes-{columns}.txt", screen(farm(), columns))


def test_the_coloured_nodes_match_the_golden_file() -> None:
    assert_matches_golden(GOLDEN / "nodes-120-coloured.txt", screen(farm(), on=True))


def test_an_empty_fleet_is_a_message() -> None:
    assert screen(fleet()).count("\n") == 1


@pytest.mark.parametrize("columns", [60, 160])
def test_names_are_always_shown_and_ids_if_they_fit(columns: int) -> None:
    text = screen(farm(), columns)
    assert all(node.name in text for node in farm().nodes)
    assert all(node.node_id in text for node in farm().nodes) == (columns == 160)


def test_every_problem_of_a_node_is_shown() -> None:
    failed = CollectorRun(name="nvidia", outcome="failed", seconds=0.1, detail="driver is away")
    odd = replace(
        samples.eight(),
        trouble="refused the token",
        clock_skew_seconds=600.0,
        missing_reports=1,
        runs=(failed,),
        host=Host(driver_version="590.48"),
    )
    text = screen(fleet(odd), 160)
    for message in (
        "refused the token",
        "its clock is 10 min behind",
        "1 report of its agent never arrived",
        "nvidia: driver is away",
        "590.48",
    ):
        assert message in text


@given(FLEET, COLUMNS, st.booleans())
def test_any_list_fits_its_columns(view: FleetView, columns: int, on: bool) -> None:
    assert_fits(SGR.sub("", screen(view, columns, on=on)), columns)


def test_limits_of_a_transport_are_shown_in_nodes_and_status() -> None:
    run = CollectorRun(name="nvgpu", outcome="ok", seconds=0.0, detail="does not report memory")
    node = replace(samples.eight(), via="nvgpu", runs=(run,))
    message = "read through nvgpu, which does not report memory"
    assert message in screen(fleet(node))
    assert message in status.render(fleet(node), 120, Paint(enabled=False))


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_nodes_of_the_same_name_are_distinguished(columns: int) -> None:
    first = replace(samples.eight(), node_id="nvgpu-box", name="box")
    second = replace(first, node_id="nvgpu-box@10.0.0.2:1080")
    for shown in (
        screen(fleet(first, second), columns),
        status.render(fleet(first, second), columns, Paint(enabled=False)),
    ):
        assert "box~nvgpu-bo " in shown
        assert "box~10.0.0.2:1080 " in shown


@pytest.mark.parametrize("columns", [60, 120])
def test_problems_of_the_hub_and_refused_senders_are_shown_with_their_remedy(columns: int) -> None:
    view = fleet(samples.eight())
    problem = HubProblem(
        kind="disk",
        message="the disk of the hub is full",
        detail="0 B are left",
        remedy="free some space",
        since=view.taken_at - 120.0,
    )
    sender = RefusedSender(
        address="10.0.0.7",
        node_id="id-of-gpu07",
        name="gpu07",
        reason="its credential was revoked",
        remedy="let it join again",
        attempts=3,
        last_at=view.taken_at - 5.0,
    )
    refused = sender, replace(sender, name=None, address="10.0.0.8", attempts=1)
    hub = Problems(problems=(problem,), refused=refused)
    text = nodes.render(view_overview(view), hub, columns, Paint(enabled=False))
    assert_fits(text, columns)
    flat = " ".join(text.split())
    assert flat.startswith("! for 2 min: the disk of the hub is full (0 B are left); free some")
    refusal = "its credential was revoked; let it join again"
    assert f"gpu07 (10.0.0.7), 3 attempts, the last 5 s ago {refusal}" in flat
    assert f"10.0.0.8, 1 attempt, the last 5 s ago {refusal}" in flat
