"""What the hub learned later is in the ribbon all the same."""

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
HEARD = (
    Presence(node_id="one", start=400.0, end=None),
    Presence(node_id="one", start=0.0, end=200.0, certain=False),
    Presence(node_id="two", start=100.0, end=500.0),
)


def moment(at: float) -> RibbonPoint:
    return RibbonPoint(at=at, nodes=1, nodes_reporting=1, gpus={})


def test_only_what_was_not_noted_is_missing() -> None:
    noted = [moment(100.0), moment(300.0)]
    assert missing_starts(noted, 0.0, 500.0, 100.0) == [0.0, 200.0, 400.0]


def test_parts_are_told_as_the_ledger_has_their_middle() -> None:
    found = [GpuPeriods(gpu=GPU, periods=PERIODS), GpuPeriods(gpu=PART, periods=PERIODS)]
    told = list(backfill_points([0.0, 100.0, 200.0, 400.0, 900.0], 100.0, found, HEARD))
    assert [each.at for each in told] == [0.0, 100.0, 200.0, 400.0, 900.0]
    assert [(each.nodes_reporting, each.nodes) for each in told] == [
        (1, 1), (2, 2), (1, 2), (2, 2), (1, 2),
    ]  # fmt: skip
    states = [{state for state, count in each.gpus.items() if count} for each in told]
    assert states == [{"free"}, {"busy"}, set(), {"held"}, {"held"}]


def test_where_nobody_was_heard_there_is_nothing_to_tell() -> None:
    assert list(backfill_points([600.0], 100.0, [], HEARD[1:])) == []
