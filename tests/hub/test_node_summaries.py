"""Rows of the overview are the same as if each had been made from a full view."""

import pytest

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.node_summaries import NodeSummaries, summarize_rows
from fleet_smi.model.node_summary import NodeSummary, summarize_node
from fleet_smi.model.views import summarize_parts
from tests.builders import NOON, gpu, snapshot
from tests.hub.twin_fleets import all_twins


def test_random_reports_give_the_rows_of_full_views() -> None:
    queries = made = 0
    for twins in all_twins():
        summaries = NodeSummaries(twins.fleet)
        for now, case in twins.moments():
            assert_same_rows(summaries, twins.reference, now, case)
            queries += 1
        made += twins.fleet.parts_made
    print(f"{queries} queries, {made} of them made from their parts")
    assert made < 0.8 * queries


def assert_same_rows(
    summaries: NodeSummaries, reference: FleetState, now: float, case: str
) -> None:
    parts = list(reference.parts(now))
    counted = list(summaries.rows(now))
    assert summarize_rows(counted) == summarize_parts(parts), case
    for (row, _), each in zip(counted, parts, strict=True):
        expected = summarize_node(each, now)
        for field in NodeSummary.__struct_fields__:
            value = getattr(expected, field)
            # Sums are the same up to rounding: GPUs are added in another order.
            is_sum = field in ("busy_percent", "memory_percent")
            same = pytest.approx(value) if is_sum else value
            assert getattr(row, field) == same, f"{case}: {field}"


def test_rows_are_sorted_and_a_removed_node_has_none() -> None:
    fleet = FleetState()
    summaries = NodeSummaries(fleet)

    def names() -> list[str]:
        return [row.name for row, _ in summaries.rows(NOON)]

    assert names() == []
    for name in ("gpu10", "gpu9", "gpu1"):
        fleet.apply(snapshot(gpu(), node=name), NOON)
    assert names() == names() == ["gpu1", "gpu9", "gpu10"]
    fleet.remove("id-of-gpu9")
    assert names() == ["gpu1", "gpu10"]
    assert set(summaries._known) == {"id-of-gpu1", "id-of-gpu10"}
