"""Check the figures of a GPU against the ranges that a report accepts."""

from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu


def assert_in_range(gpu: Gpu) -> None:
    """Check that every figure was not measured or is in its range."""
    for field, (low, high) in RANGES.items():
        value = getattr(gpu, field, None)
        assert value is None or low <= value <= high, (field, value)
