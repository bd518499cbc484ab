"""The thresholds of verdicts, with defaults that suit most labs."""

from msgspec import Struct

from fleet_smi.model.units import GIB


class Thresholds(Struct, frozen=True, kw_only=True):
    """Where a verdict turns from one state to another."""

    free_memory_fraction: float = 0.10
    """A GPU may be free while less than this share of its memory is used …"""

    free_memory_bytes: int = GIB
    """… and less than this: the smaller of the two counts."""

    idle_percent: float = 2.0
    """Under this utilisation a GPU is idle."""

    display_percent: float = 10.0
    """Under this utilisation a GPU with little memory used may still be free (a display)."""

    noise_percent: float = 5.0
    """Under this, single samples are noise: the mean over the window decides whether it works."""

    display_memory_fraction: float = 0.25
    """Known desktop programs may use this share of the memory of a free GPU …"""

    display_memory_bytes: int = 4 * GIB
    """… and no more than this."""

    idle_window_seconds: float = 600.0
    """Seconds of idleness after which a process only holds its GPU."""

    idle_power_fraction: float = 0.25
    """Under this share of its power limit a GPU draws about what it draws when idle."""

    load_policy_percent: float = 5.0
    """Under this utilisation the policy `load` may offer a GPU …"""

    load_policy_memory_percent: float = 2.0
    """… and up to this share of time in which its memory is read or written."""

    silent_after_intervals: int = 3
    """Missed reports before a node counts as silent."""

    hole_seconds: float = 120.0
    """A gap between samples longer than this, and than three intervals, restarts the window."""

    settle_samples: int = 3
    """Samples in a row that must disagree before noise around a threshold changes a state …"""

    settle_seconds: float = 60.0
    """… or for how long, where samples are rare."""

    def memory_ceiling(self, total_bytes: int | None) -> float:
        """Return the memory in bytes that may be in use on a free GPU."""
        return _lesser(self.free_memory_bytes, self.free_memory_fraction, total_bytes)

    def display_ceiling(self, total_bytes: int | None) -> float:
        """Return the memory in bytes that a desktop may use on a free GPU."""
        ceiling = _lesser(self.display_memory_bytes, self.display_memory_fraction, total_bytes)
        return max(ceiling, self.memory_ceiling(total_bytes))


def _lesser(maximum: int, fraction: float, total_bytes: int | None) -> float:
    if total_bytes is None or total_bytes * fraction >= maximum:
        return maximum
    return total_bytes * fraction


DEFAULT_THRESHOLDS = Thresholds()
