"""Flapping: use of a GPU that seems to end and comes back, again and again.

Noise must not free a GPU that is in use now and then. A process that ends is no noise: it frees its
GPU immediately, unless processes come and go all the time.
"""

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.model.verdict.thresholds import Thresholds

# How much each state says that a GPU is in use. A held GPU is in use no less than a busy one.
_USE: dict[State, int] = {
    "free": 0,
    "leased": 1,
    "unknown": 1,
    "ghost": 2,
    "held": 3,
    "busy": 3,
    "broken": 4,
}
# Of the idle window: processes that come back later than this do not flap.
_RETURN_FRACTION = 0.1


class Returns(Struct, frozen=True, gc=False):
    """The longest time after which the use of a GPU came back, and when it last did.

    Counted is what came back within the idle window.
    """

    away_seconds: float = 0.0
    last_at: float = 0.0


NO_RETURNS = Returns()


def is_less_used(state: State, than: State) -> bool:
    """Return whether a state says less than another that a GPU is in use."""
    return _USE[state] < _USE[than]


def add_return(returns: Returns, away_from: float, at: float, thresholds: Thresholds) -> Returns:
    """Add that use came back at `at`, which seemed to have ended at `away_from`."""
    away_seconds = at - away_from
    if away_seconds >= thresholds.idle_window_seconds:
        return returns
    return Returns(max(away_seconds, returns.away_seconds), at)


def forget_returns(returns: Returns, at: float, thresholds: Thresholds) -> Returns:
    """Return the returns that still count at `at`: none after a window without any."""
    expired = at - returns.last_at >= thresholds.idle_window_seconds
    return NO_RETURNS if expired else returns


def hold_seconds(returns: Returns, thresholds: Thresholds, *, ended: bool) -> float:
    """Return for how long a GPU must seem less used before it is called so.

    `ended` says whether its use ended with a process.
    """
    if returns is NO_RETURNS or not returns.away_seconds:
        return 0.0
    if not ended:
        return thresholds.idle_window_seconds
    is_soon = returns.away_seconds <= _RETURN_FRACTION * thresholds.idle_window_seconds
    return 2 * returns.away_seconds if is_soon else 0.0


def shift_returns(returns: Returns, seconds: float) -> Returns:
    """Return these with their time moved, because the receiver's clock was set."""
    return (
        returns
        if returns is NO_RETURNS
        else Returns(returns.away_seconds, returns.last_at + seconds)
    )
