"""SQL of the ribbon: the mean of each column."""

from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.history import RibbonPoint
from tests.hub.history.batches import (
    DAY,
)
from tests.hub.history.written_history import queries_over


def test_a_ribbon_has_the_mean_of_each_column_that_has_data(
    store: HistoryStore,
) -> None:
    moments = [
        RibbonPoint(at=DAY + 60.0 * n, nodes=2, nodes_reporting=n % 3, gpus={"free": float(n)})
        for n in (0, 1, 2, 6, 7)
    ]
    found = queries_over(store, WriteBatch(moments=moments)).ribbon(DAY, DAY + 480.0, 4)
    assert [each.at - DAY for each in found.moments] == [0.0, 120.0, 360.0]
    assert [each.gpus["free"] for each in found.moments] == [0.5, 2.0, 6.5]
    assert {each.gpus["busy"] for each in found.moments} == {0.0}
    assert found.gaps == ()
    assert queries_over(store).oldest_time() == DAY
