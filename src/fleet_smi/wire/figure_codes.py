"""Texts of a snapshot that move like figures, as the numbers that a compact report has for them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

from fleet_smi.model.snapshot import Condition
from fleet_smi.model.snapshot_figures import GPU_FIELDS, PROCESS_FIELDS, Column
from fleet_smi.model.throttle_reasons import THROTTLE_REASONS, throttle_bits, throttle_reasons


class NoCode(Exception):
    """A text that has no number: the snapshot is sent in full."""


class FigureCode(NamedTuple):
    """How the texts of one column are written as numbers, from 0 to `highest`."""

    encode: Callable[[Any], int | None]
    decode: Callable[[int], Any]
    highest: int

    def encode_column(self, column: Column) -> Column:
        """Return the numbers of these texts; raise `NoCode`."""
        numbers = [None if text is None else self.encode(text) for text in column]
        if numbers.count(None) != column.count(None):
            raise NoCode
        return tuple(numbers)

    def decode_column(self, column: Column) -> Column:
        """Return the texts of these numbers."""
        return tuple([None if number is None else self.decode(number) for number in column])


def _listed(texts: Sequence[str]) -> FigureCode:
    numbers = {text: number for number, text in enumerate(texts)}
    return FigureCode(numbers.get, texts.__getitem__, len(texts) - 1)


_STATES = _listed([f"P{number}" for number in range(16)])
_THROTTLE = FigureCode(throttle_bits, throttle_reasons, (1 << len(THROTTLE_REASONS)) - 1)
_CONDITIONS = _listed(get_args(Condition))

GPU_CODES = {
    GPU_FIELDS.index("performance_state"): _STATES,
    GPU_FIELDS.index("throttle_reasons"): _THROTTLE,
}
PROCESS_CODES = {PROCESS_FIELDS.index("condition"): _CONDITIONS}
"""The columns that hold texts, by their position."""
