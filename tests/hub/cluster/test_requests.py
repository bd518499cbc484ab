"""Responses of one hub to another: rows of the history that are not stored yet arrive as sent."""

import msgspec
import pytest

from fleet_smi.errors import Unreachable
from fleet_smi.hub.cluster import requests
from fleet_smi.hub.history.series.layout import CURRENT_LAYOUT, FIRST_LAYOUT, RowLayout
from fleet_smi.hub.history.series.series_row import SeriesRow


@pytest.mark.parametrize("layout", [CURRENT_LAYOUT, FIRST_LAYOUT])
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_series_row_arrives_as_it_was_sent(layout: RowLayout, size: int) -> None:
    row = SeriesRow(
        grain_seconds=10, node_id="a", start=0, uuids=("b",), data=bytes(size), layout=layout
    )
    assert requests.decode_response(requests.encode([row]), list[SeriesRow]) == [row]


@pytest.mark.parametrize("layout", ["{}", "[]", "", 7, None, '{"node": [["x", "f9"]], "gpu": []}'])
def test_a_row_with_another_layout_is_of_another_version(layout: object) -> None:
    row = {"grain_seconds": 10, "node_id": "a", "start": 0, "uuids": [], "data": b"", "layout": 0}
    sent = msgspec.msgpack.encode([row | {"layout": layout}])
    with pytest.raises(Unreachable):
        requests.decode_response(sent, list[SeriesRow])
