"""One packed row of a node's time series, and the key that identifies a GPU in the history."""

from msgspec import Struct

from fleet_smi.hub.history.series.layout import CURRENT_LAYOUT, RowLayout

GpuKey = tuple[str, str]
"""A node id and a UUID: a GPU that moves to another node has a separate history there."""


class SeriesRow(Struct, frozen=True, kw_only=True, gc=False):
    """The figures of one node and these GPUs over time, packed by `codec.py`.

    `data` holds one or several consecutive grains in this `layout`; the first begins at `start`.
    """

    grain_seconds: int
    node_id: str
    start: int
    uuids: tuple[str, ...]
    data: bytes
    layout: RowLayout = CURRENT_LAYOUT
