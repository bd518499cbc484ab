"""Many packed reports read together: checked and decoded column by column, in a few steps of numpy.

The cost of a step hardly depends on how many reports there are.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleet_smi.hub.packed_layouts import HEAD_WORDS, LayoutTable, PackedLayout
from fleet_smi.wire.limits import FIELD_RANGES
from fleet_smi.wire.packed_layout import NOT_MEASURED, PACKED_COLUMNS

Numbers = NDArray[np.float64]
Positions = NDArray[np.intp]
Flags = NDArray[np.bool_]

_HEAD_RANGE = np.arange(HEAD_WORDS)
_, _LATEST_TIME = FIELD_RANGES["taken_at"]
_, _LAST_SEQUENCE = FIELD_RANGES["sequence"]
_LOWS = np.array([float(column.low) for column in PACKED_COLUMNS])
_HIGHS = np.array([float(column.high) for column in PACKED_COLUMNS])
_WHOLE = np.array([column.is_whole for column in PACKED_COLUMNS])


class ReadColumns:
    """Some columns of reports, one after the other, of which each has a number of values."""

    def __init__(self, positions: Sequence[int], counts: Sequence[int]) -> None:
        self.begins = np.cumsum([0, *counts])
        chosen = [PACKED_COLUMNS[position] for position in positions]
        self.factors = np.repeat([float(column.factor) for column in chosen], counts)
        self.divisors = np.repeat([float(column.divisor) for column in chosen], counts)


class PackedBatch:
    """The heads of packed reports, and where their columns are.

    Each body has the size of its layout. What is not `valid` breaks a limit; its other fields mean
    nothing. `sent` has a bit for each column that a report has.
    """

    def __init__(
        self, bodies: Sequence[bytes], layouts: Sequence[PackedLayout], table: LayoutTable
    ) -> None:
        self._words = words = np.frombuffer(b"".join(bodies), "<u4")
        self._rows = rows = np.array([layout.row for layout in layouts])
        self._table = table
        sizes = table.sizes[rows]
        self._ends = ends = sizes.cumsum()
        self._starts = starts = ends - sizes
        heads = words[starts[:, None] + _HEAD_RANGE]
        times = heads[:, 2:6].copy().view("<f8")
        self.sent_at, self.taken_at = times[:, 0], times[:, 1]
        self.sequence: NDArray[np.int64] = heads[:, 12:14].copy().view("<i8")[:, 0]
        self.base = self.sequence - heads[:, 14]
        self.run = heads[:, 15]
        self.sent = table.sent[rows]
        self.valid: Flags = ((times >= 0.0) & (times <= _LATEST_TIME)).all(axis=1)
        self.valid &= (self.sequence >= 0) & (self.sequence <= _LAST_SEQUENCE)
        self._check(layouts)

    def read(self, columns: ReadColumns, before: Numbers) -> Numbers:
        """Return the values of the table's columns, those `before` where they were not sent.

        Both have a row for each report; NaN is not measured.
        """
        table, rows = self._table, self._rows
        at = table.at[rows] + self._starts[:, None]
        codes = self._words[at]
        values = codes * columns.factors / columns.divisors
        values[codes == NOT_MEASURED] = np.nan
        values = np.where(table.has_narrow[rows], values, before)
        reports, wide = table.has_wide[rows].nonzero()
        begins, ends = columns.begins[wide], columns.begins[wide + 1]
        for size in np.unique(ends - begins).tolist():
            chosen = ends - begins == size
            own = reports[chosen, None], begins[chosen, None] + np.arange(size)
            pairs = at[own][..., None] + np.arange(2)
            values[own] = self._words[pairs].view("<f8")[..., 0]
        return values

    def _check(self, layouts: Sequence[PackedLayout]) -> None:
        """Compare each number with its limit; what is not measured is 0 here, as it overflows."""
        limits = np.concatenate([layout.limits for layout in layouts])
        is_beyond = self._words + np.uint32(1) > limits
        has_integers = any(layout.has_wide_integers for layout in set(layouts))
        if has_integers or is_beyond.any():
            # Of wide numbers only some are really beyond.
            is_beyond[self._check_wide(layouts)] = False
            found = is_beyond.nonzero()[0]
            self.valid[np.searchsorted(self._ends, found, side="right")] = False

    def _check_wide(self, layouts: Sequence[PackedLayout]) -> Positions:
        """Compare wide numbers with their limits; return where their second words are."""
        counts = self._table.wide_counts[self._rows]
        at = np.concatenate([layout.wide_at for layout in layouts])
        columns = np.concatenate([layout.wide_columns for layout in layouts])
        reports = np.repeat(np.arange(len(counts)), counts)
        at += self._starts[reports]
        values = self._words[at[:, None] + np.arange(2)].view("<f8")[:, 0]
        is_fine = (values >= _LOWS[columns]) & (values <= _HIGHS[columns])
        is_fine &= ~_WHOLE[columns] | (values == np.floor(values))
        is_fine |= values != values
        self.valid[reports[~is_fine]] = False
        second_words: Positions = at + 1
        return second_words
