"""Ribbon points that were not recorded are backfilled from the ledger."""

from fleet_smi.hub.history.queries.backfill import backfill_points, missing_starts
from fleet_smi.hub.history.recording.rows import Presence
from fleet_smi.model.history import GpuOfNode, GpuPeriods, Period, RibbonPoint

GPU = GpuOfNode(uuid="GPU-1", node_id="one", node="gpu01", index=0)
PART = GpuOfNode(uuid="MIG-1", node_id="one", node="gpu01", index=0, parent="GPU-1")
PERIODS = (
    Period(start=0.0, end=100.0, state="free", reason=""),
    Period(start=100.0, end=200.0, state="busy", reason=""),
    Period(start=400.0, end=None, state="held", reason=""),
)
PRESENCE = (
    Presence(node_id="one", start=400.0, end=None),
    Presence(node_id="one", start=0.0, end=200.0, certain=False),
    Presence(node_id="two", start=100.0, end=500.0),
)


def moment(at: float) -> RibbonPoint:
    return RibbonPoint(at=at, nodes=1, nodes_reporting=1, gpus={})


def test_columns_without_a_point_are_missing() -> None:
    noted = [moment(100.0), moment(300.0)]
    assert missing_starts(noted, 0.0, 500.0, 100.0) == [0.0, 200.0, 400.0]


def test_a_backfilled_point_is_the_ledger_in_the_middle_of_its_column() -> None:
    found = [GpuPeriods(gpu=GPU, periods=PERIODS), GpuPeriods(gpu=PART, periods=PERIODS)]
    points = list(backfill_points([0.0, 100.0, 200.0, 400.0, 900.0], 100.0, found, PRESENCE))
    assert [each.at for each in points] == [0.0, 100.0, 200.0, 400.0, 900.0]
    assert [(each.nodes_reporting, each.nodes) for each in points] == [
        (1, 1), (2, 2), (1, 2), (2, 2), (1, 2),
    ]  # fmt: skip
    states = [{state for state, count in each.gpus.items() if count} for each in points]
    assert states == [{"free"}, {"busy"}, set(), {"held"}, {"held"}]


def test_columns_without_a_reporting_node_are_not_backfilled() -> None:
    assert list(backfill_points([600.0], 100.0, [], PRESENCE[1:])) == []
