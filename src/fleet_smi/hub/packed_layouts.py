"""Layouts of packed reports: where the columns are, and which limits their numbers have.

Nearly all reports of a fleet have one of a few layouts, which depend only on the counts and masks
of their heads. What follows from these is computed once, so that a report costs a look-up.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_smi.model.snapshot_figures import PROCESS_FIELDS
from fleet_smi.wire.packed import column_counts
from fleet_smi.wire.packed_layout import (
    GPUS_AT,
    HEAD,
    NOT_MEASURED,
    PACKED_COLUMNS,
    PACKED_MARK,
    PACKED_VERSION,
    PROCESSES_AT,
    RUNS_AT,
)

HEAD_WORDS = HEAD.size // 4
_COLUMN_COUNT = len(PACKED_COLUMNS)
_HOST_MASK = (1 << RUNS_AT) - 1
_GPU_MASK = (1 << PROCESSES_AT) - (1 << GPUS_AT)
_PROCESS_MASK = (1 << _COLUMN_COUNT) - (1 << PROCESSES_AT)
_MARK = PACKED_MARK | PACKED_VERSION << 8
_HIGHEST_CODES = [
    min(int(column.high * column.divisor // column.factor), NOT_MEASURED - 1)
    for column in PACKED_COLUMNS
]
# What the summary of a GPU's processes depends on.
_USES = [PROCESSES_AT + PROCESS_FIELDS.index(field) for field in ("gpu_memory_bytes", "condition")]
# A hostile node can make up any number of them.
_MAX_LAYOUTS = 1024


def layout_key(body: bytes) -> bytes:
    """Return what the layout of a packed report depends on: its counts and masks."""
    return body[:8] + body[64:72]


class PackedLayout:
    """The layout of some packed reports, which is at `row` of its table.

    `sent` has a bit for each column that they have. `process_count` and `run_count` are `None`
    where no column has as many values. `limits` has for each word one more than its highest code;
    of wide numbers, whose second word has the leading digits, less than what may be beyond.
    `wide_at` is where these are, and `wide_columns` of which columns they are; some
    `has_wide_integers`, which cannot be compared by a word. `uses` are the ranges of bytes that the
    summary of a GPU's processes depends on.
    """

    __slots__ = (
        "has_wide_integers",
        "limits",
        "process_count",
        "row",
        "run_count",
        "sent",
        "size",
        "uses",
        "wide_at",
        "wide_columns",
    )

    def __init__(self, row: int, counts: tuple[int, int, int], narrow: int, wide: int) -> None:
        self.row, self.sent = row, narrow | wide
        _, processes, runs = counts
        self.process_count = processes if self.sent & _PROCESS_MASK else None
        self.run_count = runs if self.sent >> RUNS_AT & 1 else None
        at, limits = HEAD_WORDS, [NOT_MEASURED] * HEAD_WORDS
        self.uses: list[slice] = []
        wide_at, wide_columns = list[int](), list[int]()
        for position, count in enumerate(column_counts(*counts)):
            words = count * ((narrow >> position & 1) + 2 * (wide >> position & 1))
            if wide >> position & 1:
                wide_at += range(at, at + words, 2)
                wide_columns += [position] * count
                limits += [NOT_MEASURED, _highest_word(position)] * count
            else:
                limits += [_HIGHEST_CODES[position] + 1] * words
            if words and position in _USES:
                self.uses.append(slice(4 * at, 4 * (at + words)))
            at += words
        self.size = 4 * at
        self.limits = np.array(limits, np.uint32)
        self.has_wide_integers = any(PACKED_COLUMNS[each].is_whole for each in wide_columns)
        self.wide_at, self.wide_columns = (
            np.array(wide_at, np.intp),
            np.array(wide_columns, np.intp),
        )


def _highest_word(position: int) -> int:
    """Return the second word of the highest number of a wide column; 0 if its lowest is not 0."""
    column = PACKED_COLUMNS[position]
    return int.from_bytes(struct.pack("<d", column.high)[4:], "little") if column.low == 0 else 0


class LayoutTable:
    """A cache of report layouts, for nodes of one number of GPUs.

    `sizes` are in words. `read` are the columns of the host and of GPUs that are looked at;
    `at[row]` is where the values of each are, column by column, and `has_narrow` and `has_wide`
    say whether and how it was sent.
    """

    def __init__(self, gpu_count: int, read: Sequence[int]) -> None:
        self._gpu_count = gpu_count
        self._read = read
        counts = column_counts(gpu_count, 0, 0)
        self._sizes_read = [counts[position] for position in read]
        self._clear()

    def _clear(self) -> None:
        self._by_key: dict[bytes, PackedLayout | None] = {}
        self._count = 0
        self.sizes = np.zeros(0, np.intp)
        self.sent = np.zeros(0, np.int64)
        self.at = np.zeros((0, sum(self._sizes_read)), np.intp)
        self.has_narrow = np.zeros((0, sum(self._sizes_read)), np.bool_)
        self.has_wide = np.zeros((0, len(self._read)), np.bool_)
        self.wide_counts = np.zeros(0, np.intp)

    def prepare(self) -> None:
        """Make room for the layouts of a batch, which must not be mixed with older ones."""
        if len(self._by_key) > _MAX_LAYOUTS:
            self._clear()

    def find(self, key: bytes) -> PackedLayout | None:
        """Return the layout by its key; `None` for one that such a node cannot have."""
        try:
            return self._by_key[key]
        except KeyError:
            layout = self._by_key[key] = self._add(key)
            return layout

    def _add(self, key: bytes) -> PackedLayout | None:
        first, second, narrow, wide = np.frombuffer(key, "<u4").tolist()
        sent, hosts = narrow | wide, (narrow | wide) & _HOST_MASK
        counts = first >> 16, second & 0xFFFF, second >> 16 & 0xFF
        if (
            first & 0xFFFF != _MARK
            or narrow & wide
            or sent >> _COLUMN_COUNT
            or hosts not in (0, _HOST_MASK)
            or (sent & _GPU_MASK and counts[0] != self._gpu_count)
        ):
            return None
        layout = PackedLayout(self._count, counts, narrow, wide)
        if self._count == len(self.sizes):
            self._grow(max(16, 2 * self._count))
        self._fill(layout, counts, narrow, wide)
        self._count += 1
        return layout

    def _grow(self, size: int) -> None:
        self.sizes, self.sent = enlarged(self.sizes, size), enlarged(self.sent, size)
        self.at, self.has_narrow = enlarged(self.at, size), enlarged(self.has_narrow, size)
        self.has_wide = enlarged(self.has_wide, size)
        self.wide_counts = enlarged(self.wide_counts, size)

    def _fill(
        self, layout: PackedLayout, counts: tuple[int, int, int], narrow: int, wide: int
    ) -> None:
        row, starts, at = layout.row, list[int](), HEAD_WORDS
        for position, count in enumerate(column_counts(*counts)):
            starts.append(at)
            at += count * ((narrow >> position & 1) + 2 * (wide >> position & 1))
        self.sizes[row], self.sent[row] = layout.size // 4, layout.sent
        self.wide_counts[row] = len(layout.wide_at)
        begin = 0
        for number, (position, count) in enumerate(zip(self._read, self._sizes_read, strict=True)):
            own, step = slice(begin, begin + count), 1 + (wide >> position & 1)
            is_narrow = bool(narrow >> position & 1)
            self.has_narrow[row, own] = is_narrow
            self.has_wide[row, number] = wide >> position & 1
            # What was not sent is read from the head, and not used.
            is_sent = is_narrow or step == 2
            self.at[row, own] = starts[position] + step * np.arange(count) if is_sent else 0
            begin += count


def enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy with room for more."""
    new = np.zeros((size, *array.shape[1:]), array.dtype)
    new[: len(array)] = array
    return new
