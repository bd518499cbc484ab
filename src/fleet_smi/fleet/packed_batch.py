"""Many packed reports read together: checked and decoded column by column, in a few steps of numpy.

The cost of a step hardly depends on how many reports there are.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fleet_smi.wire.limits import FIELD_RANGES
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

Numbers = NDArray[np.float64]
Positions = NDArray[np.intp]
Flags = NDArray[np.bool_]

_HEAD_WORDS = HEAD.size // 4
_HEAD_RANGE = np.arange(_HEAD_WORDS)
_COLUMN_COUNT = len(PACKED_COLUMNS)
_BITS = np.arange(_COLUMN_COUNT, dtype=np.uint32)
_HOST_MASK = (1 << RUNS_AT) - 1
_GPU_MASK = (1 << PROCESSES_AT) - (1 << GPUS_AT)
_MARK = PACKED_MARK | PACKED_VERSION << 8
_, _LATEST_TIME = FIELD_RANGES["taken_at"]
_, _LAST_SEQUENCE = FIELD_RANGES["sequence"]
_FACTORS = np.array([float(column.factor) for column in PACKED_COLUMNS])
_DIVISORS = np.array([float(column.divisor) for column in PACKED_COLUMNS])
_LOWS = np.array([float(column.low) for column in PACKED_COLUMNS])
_HIGHS = np.array([float(column.high) for column in PACKED_COLUMNS])
_WHOLE = np.array([column.is_whole for column in PACKED_COLUMNS])
_HIGHEST_CODES = np.minimum(_HIGHS * _DIVISORS // _FACTORS, NOT_MEASURED - 1).astype(np.uint32)


def can_be_packed(body: bytes) -> bool:
    """Return whether bytes may be read as a `PackedBatch`."""
    return len(body) >= HEAD.size and len(body) % 4 == 0


class PackedBatch:
    """The heads of packed reports, and where their columns are.

    What is not `valid` breaks the format or a limit; its other fields mean nothing. `sent` has a
    bit for each column that a report has.
    """

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._words = words = np.frombuffer(b"".join(bodies), "<u4")
        sizes = np.array([len(body) for body in bodies]) >> 2
        starts = sizes.cumsum() - sizes
        heads = words[starts[:, None] + _HEAD_RANGE]
        times = heads[:, 2:6].copy().view("<f8")
        self.sent_at, self.taken_at = times[:, 0], times[:, 1]
        numbers = heads[:, 12:18].astype(np.int64)
        self.sequence = numbers[:, 0] | numbers[:, 1] << 32
        self.base = self.sequence - numbers[:, 2]
        self.run = numbers[:, 3]
        narrow, wide = heads[:, 16], heads[:, 17]
        self.sent = numbers[:, 4] | numbers[:, 5]
        self.gpu_count = heads[:, 0] >> 16
        counts = self._counts(heads)
        is_narrow = (narrow[:, None] >> _BITS & 1).astype(np.bool_)
        is_wide = (wide[:, None] >> _BITS & 1).astype(np.bool_)
        widths = counts * (is_narrow + 2 * is_wide)
        ends = widths.cumsum(axis=1)
        hosts = self.sent & _HOST_MASK
        self.valid = valid = (
            (heads[:, 0] & 0xFFFF == _MARK)
            & (ends[:, -1] + _HEAD_WORDS == sizes)
            & (narrow & wide == 0)
            & (self.sent >> _COLUMN_COUNT == 0)
            & ((hosts == 0) | (hosts == _HOST_MASK))
            & (times >= 0.0).all(axis=1)
            & (times <= _LATEST_TIME).all(axis=1)
            & (self.sequence <= _LAST_SEQUENCE)
        )
        self._narrow, self._wide = is_narrow & valid[:, None], is_wide & valid[:, None]
        self._starts, self._counts_of, self._widths = starts, counts, widths
        self._offsets = (starts + _HEAD_WORDS)[:, None] + ends - widths
        self._check_narrow()
        self._check_wide()

    @staticmethod
    def _counts(heads: NDArray[np.uint32]) -> NDArray[np.int64]:
        counts = np.ones((len(heads), _COLUMN_COUNT), np.int64)
        counts[:, RUNS_AT] = heads[:, 1] >> 16 & 0xFF
        counts[:, GPUS_AT:PROCESSES_AT] = (heads[:, 0] >> 16)[:, None]
        counts[:, PROCESSES_AT:] = (heads[:, 1] & 0xFFFF)[:, None]
        return counts

    def has_gpus(self, count: int) -> Flags:
        """Return which reports have columns of this number of GPUs, or none of GPUs."""
        has_gpus: Flags = (self.gpu_count == count) | (self.sent & _GPU_MASK == 0)
        return has_gpus

    def byte_ranges(self, position: int) -> tuple[list[int], list[int]]:
        """Return where a column begins and ends in each report; nowhere if it is not there."""
        begins = 4 * (self._offsets[:, position] - self._starts)
        return begins.tolist(), (begins + 4 * self._widths[:, position]).tolist()

    def write(self, target: Numbers, positions: Positions, per_column: int) -> None:
        """Write the columns at these positions that were sent into `target[report, :, column]`.

        Each has `per_column` values; NaN is not measured.
        """
        reports, columns = self._narrow[:, positions].nonzero()
        chosen = positions[columns]
        starts = self._offsets[reports, chosen][:, None]
        codes = self._words[starts + np.arange(per_column)]
        values = codes * _FACTORS[chosen][:, None] / _DIVISORS[chosen][:, None]
        values[codes == NOT_MEASURED] = np.nan
        target[reports, :, columns] = values
        reports, columns = self._wide[:, positions].nonzero()
        if len(reports):
            starts = self._offsets[reports, positions[columns]][:, None]
            pairs = self._words[starts + np.arange(2 * per_column)]
            target[reports, :, columns] = pairs.view("<f8")

    def _check_narrow(self) -> None:
        """Compare the greatest number of each column with its limit."""
        count = len(self._starts)
        is_part = np.ones((count, _COLUMN_COUNT + 1), np.bool_)
        is_part[:, 1:] = self._counts_of > 0
        is_part[:, 1:] &= self._narrow | self._wide
        starts, highest = np.empty(is_part.shape, np.intp), np.empty(is_part.shape, np.uint32)
        starts[:, 0], starts[:, 1:] = self._starts, self._offsets
        # Neither the head, which is the part before the first column, nor wide columns have one.
        highest[:, 0], highest[:, 1:] = (
            NOT_MEASURED,
            np.where(self._narrow, _HIGHEST_CODES, NOT_MEASURED),
        )
        measured = np.where(self._words == NOT_MEASURED, 0, self._words)
        is_beyond = np.maximum.reduceat(measured, starts[is_part]) > highest[is_part]
        if is_beyond.any():
            self.valid[is_part.nonzero()[0][is_beyond]] = False

    def _check_wide(self) -> None:
        reports, columns = self._wide.nonzero()
        if not len(reports):
            return
        counts = self._counts_of[reports, columns]
        values = self._words[_ranges(self._offsets[reports, columns], 2 * counts)].view("<f8")
        low, high = np.repeat(_LOWS[columns], counts), np.repeat(_HIGHS[columns], counts)
        is_fraction = np.repeat(_WHOLE[columns], counts) & (values != np.floor(values))
        is_fine = np.isnan(values) | ((low <= values) & (values <= high) & ~is_fraction)
        if not is_fine.all():
            self.valid[np.repeat(reports, counts)[~is_fine]] = False


def _ranges(starts: Positions, counts: NDArray[np.int64]) -> Positions:
    """Return consecutive numbers from each start, `counts` of each."""
    before = counts.cumsum() - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())
