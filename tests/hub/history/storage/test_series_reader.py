"""Stored series rows are read by the layout that is stored with them."""

import numpy as np
from msgspec.structs import replace

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.layout import FigureColumn, RowLayout
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.inserts import write_batch
from fleet_smi.hub.history.storage.store import HistoryStore
from tests.hub.history.batches import DAY, UUIDS, series_row

FEWER = RowLayout((FigureColumn("cpu_percent"),), (FigureColumn("busy_percent"),))
OTHER = RowLayout(
    (FigureColumn("cpu_percent"), FigureColumn("disk_percent")),
    (FigureColumn("power_watts", "f4"), FigureColumn("busy_percent"), FigureColumn("noise")),
)


def packed(layout: RowLayout, **figures: float) -> bytes:
    """A row of both GPUs in another layout: known seconds, two-byte, then four-byte figures."""
    data = np.array([10.0], "<f4").tobytes()
    for encoding in ("f2", "f4"):
        names = [
            column.name for _, column in layout.columns(len(UUIDS)) if column.encoding == encoding
        ]
        data += np.array([[figures[name] for name in names]] * 3, f"<{encoding}").tobytes()
    return data


def test_a_database_with_fewer_and_with_other_figures_is_read(store: HistoryStore) -> None:
    fewer = packed(FEWER, cpu_percent=1.0, busy_percent=10.0)
    other = packed(
        OTHER, cpu_percent=2.0, disk_percent=80.0, busy_percent=20.0, power_watts=250.5, noise=3.0
    )
    rows = [
        replace(series_row(DAY), layout=FEWER, data=fewer),
        replace(series_row(DAY + 10), layout=OTHER, data=other),
        series_row(DAY + 20, busy=30.0),
    ]
    with store.write_transaction() as connection:
        write_batch(connection, IdCache(), WriteBatch(series=rows))
    queries = HistoryQueries(store)
    found = queries.series("id-1", DAY, DAY + 30)
    assert found.node["cpu_percent"].mean == [1.0, 2.0, 30.0]
    for uuid in UUIDS:
        gpu = {name: figure.mean for name, figure in found.gpus[uuid].items()}
        assert gpu["busy_percent"] == [10.0, 20.0, 30.0]
        assert gpu["power_watts"] == [None, 250.5, 30.0]
        assert gpu["memory_used_bytes"] == [None, None, 30.0]
        assert "noise" not in gpu
    (row,) = queries.series_at(DAY + 15)
    assert row.data == other
