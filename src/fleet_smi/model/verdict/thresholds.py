"""The numbers a judgement turns on, with defaults that suit most labs."""

from msgspec import Struct

from fleet_smi.model.units import GIB


class Thresholds(Struct, frozen=True, kw_only=True):
    """Where a judgement turns; each is a setting."""

    free_memory_fraction: float = 0.10
    """A GPU may be free while less than this share of its memory is used …"""

    free_memory_bytes: int = GIB
    """… and less than this: the lesser of the two counts."""

    idle_percent: float = 2.0
    """Under this utilisation a GPU does nothing."""

    display_percent: float = 10.0
    """Under this utilisation a GPU with little memory used may still be free (a display)."""

    idle_window_seconds: float = 600.0
    """A process that did nothing for so long only holds its GPU."""

    idle_power_fraction: float = 0.25
    """Under this share of its power limit a GPU draws about what it draws when idle."""

    silent_after_intervals: int = 3
    """A node is silent after so many missed reports."""

    hole_seconds: float = 120.0
    """A gap longer than this (and than three intervals) breaks every run of samples."""

    settle_samples: int = 3
    """A state that only noise could have changed must disagree so often before it changes."""

    def memory_ceiling(self, total_bytes: int | None) -> float:
        """The memory that may be used on a GPU that is still free."""
        most = self.free_memory_bytes
        if total_bytes is None or total_bytes * self.free_memory_fraction >= most:
            return most
        return total_bytes * self.free_memory_fraction


DEFAULT_THRESHOLDS = Thresholds()
