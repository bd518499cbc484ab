"""Which agents are older than their hub."""

import pytest

from fleet_smi.model.agent_versions import is_behind, mark_behind
from fleet_smi.model.node_summary import FleetOverview, NodeSummary, view_overview
from tests.terminal.samples import fleet


@pytest.mark.parametrize(
    ("agent", "hub", "expected"),
    [
        ("0.1.0", "0.2.0", True),
        ("0.9.0", "0.10.0", True),
        ("0.2.0", "0.2.0", False),
        ("0.3.0", "0.2.0", False),
        ("1.2", "1.2.1", True),
        ("1.2.0rc1", "1.2.0", False),
        (None, "0.2.0", False),
        ("unknown", "0.2.0", False),
        ("9" * 400, "0.2.0", False),
    ],
)
def test_an_agent_is_behind_if_its_release_is_older(
    agent: str | None, hub: str, expected: bool
) -> None:
    assert is_behind(agent, hub) is expected


def test_the_nodes_that_are_behind_are_named_and_those_of_other_sites_are_not() -> None:
    versions = {"a": "0.1.0", "b": "0.2.0", "c": None}
    nodes = [
        NodeSummary(node_id=name, name=name, agent_version=version)
        for name, version in versions.items()
    ]
    elsewhere = NodeSummary(node_id="d", name="d", agent_version="0.1.0", site="berlin")
    empty = view_overview(fleet())
    overview = FleetOverview(
        taken_at=empty.taken_at, summary=empty.summary, nodes=(*nodes, elsewhere)
    )
    marked = mark_behind(overview, "0.2.0")
    assert (marked.hub_version, marked.behind) == ("0.2.0", ("a",))
