"""Row layout: the names, order and encoding of the figures in a packed series row.

The layout is stored with the rows, so that rows written with other figures stay readable: each
row is decoded by its own layout. New rows have `CURRENT_LAYOUT`, derived from the figure registry.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from fleet_smi.model.figures import (
    RECORDED_GPU_FIGURES,
    RECORDED_NODE_FIGURES,
    FigureSpec,
)
from fleet_smi.model.units import GIB

VALUES_PER_FIGURE = 3
"""The minimum, the mean and the maximum."""
Encoding = Literal["f2", "f4", "mean"]
"""Little-endian floats of two bytes, exact to one part in 2,000, or of four; or only the mean, of
two bytes."""
ENCODING_BYTES: dict[Encoding, int] = {
    "f2": 2 * VALUES_PER_FIGURE,
    "f4": 4 * VALUES_PER_FIGURE,
    "mean": 2,
}
MAX_F2 = 65_504.0
SECONDS_BYTES = 4
"""Each row begins with the known seconds, as a float."""


class FigureColumn(NamedTuple):
    """One figure of a layout."""

    name: str
    encoding: Encoding = "f2"


class RowLayout:
    """The figures of a node, then those of each GPU; compared by identity.

    A packed row has its known seconds, then the values of all two-byte figures, then those of
    all four-byte figures: first every minimum, then every mean, then every maximum. The figures
    with a mean alone come last.
    """

    __slots__ = ("_gpu_bytes", "_node_bytes", "gpu", "node")

    def __init__(self, node: tuple[FigureColumn, ...], gpu: tuple[FigureColumn, ...]) -> None:
        self.node, self.gpu = node, gpu
        self._node_bytes = SECONDS_BYTES + _columns_bytes(node)
        self._gpu_bytes = _columns_bytes(gpu)

    def columns(self, gpu_count: int) -> Iterator[tuple[int | None, FigureColumn]]:
        """All columns in order, each with the position of its GPU, or `None` for the node."""
        yield from ((None, column) for column in self.node)
        for index in range(gpu_count):
            yield from ((index, column) for column in self.gpu)

    def packed_size(self, gpu_count: int) -> int:
        """The bytes of a packed row with this number of GPUs."""
        return self._node_bytes + self._gpu_bytes * gpu_count


def series_name(figure: FigureSpec) -> str:
    """The name of a figure in the series: a counter is recorded as its growth per second."""
    if figure.history == "throttled":
        return "throttled_percent"
    return f"{figure.field}_per_second" if figure.history == "counter" else figure.field


def encode_layout(layout: RowLayout) -> str:
    """The layout as JSON, as stored in the database."""
    return msgspec.json.encode({"node": layout.node, "gpu": layout.gpu}).decode()


def decode_layout(text: str) -> RowLayout:
    """The layout in this JSON; the same text always gives the same object."""
    layout = _INTERNED.get(text)
    if layout is None:
        decoded = _decoder.decode(text)
        layout = _INTERNED[text] = RowLayout(decoded["node"], decoded["gpu"])
    return layout


def _columns_bytes(columns: tuple[FigureColumn, ...]) -> int:
    return sum(ENCODING_BYTES[column.encoding] for column in columns)


def _current_column(figure: FigureSpec) -> FigureColumn:
    # No counter grows by more than `MAX_F2` per second: the only one counts joules.
    if figure.history != "gauge":
        return FigureColumn(series_name(figure), "mean")
    fits = max(map(abs, figure.valid_range)) <= MAX_F2
    return FigureColumn(series_name(figure), "f2" if fits else "f4")


_decoder = msgspec.json.Decoder(dict[str, tuple[FigureColumn, ...]])
CURRENT_LAYOUT = RowLayout(
    tuple([_current_column(figure) for figure in RECORDED_NODE_FIGURES]),
    tuple([_current_column(figure) for figure in RECORDED_GPU_FIGURES]),
)
FIRST_LAYOUT = RowLayout(
    (FigureColumn("cpu_percent"), FigureColumn("memory_percent")),
    (
        FigureColumn("busy_percent"),
        FigureColumn("memory_used_gibibytes"),
        FigureColumn("power_watts"),
        FigureColumn("temperature_celsius"),
        FigureColumn("sm_clock_mhz"),
    ),
)
"""The layout of all rows from before layouts were stored."""
RENAMED_FIGURES = {"memory_used_gibibytes": ("memory_used_bytes", float(GIB))}
"""Figures that had another name and unit: today's name, and the factor to its unit."""
# Layouts are compared by identity, so there must be one object for each text.
_INTERNED: dict[str, RowLayout] = {
    encode_layout(layout): layout for layout in (CURRENT_LAYOUT, FIRST_LAYOUT)
}

NODE_COLUMNS = tuple([column.name for column in CURRENT_LAYOUT.node])
GPU_COLUMNS = tuple([column.name for column in CURRENT_LAYOUT.gpu])
"""The names of the figures of a node and of each GPU, in the order of samples and arrays."""
BUSY_INDEX, POWER_INDEX = GPU_COLUMNS.index("busy_percent"), GPU_COLUMNS.index("power_watts")


def figure_count(gpu_count: int) -> int:
    """The number of figures of a node with this number of GPUs."""
    return len(NODE_COLUMNS) + len(GPU_COLUMNS) * gpu_count


def gpu_offset(gpu_index: int) -> int:
    """The column in which the figures of a GPU begin, by its position."""
    return len(NODE_COLUMNS) + len(GPU_COLUMNS) * gpu_index
