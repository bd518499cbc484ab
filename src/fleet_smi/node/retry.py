"""Retry with exponential back-off: how long an agent waits before it sends again."""

import random

from fleet_smi.errors import DeliveryError, Throttled, Unreachable

_MIN_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 30.0
_REFUSED_BACKOFF_SECONDS = 60.0
_MAX_THROTTLED_SECONDS = 600.0  # a hub that says more is wrong


def backoff_seconds(error: DeliveryError, failures: int) -> float:
    """A random wait up to the maximum: agents that lost one hub must not return together."""
    if isinstance(error, Throttled):
        # Not earlier than the hub says, and not all at the same moment.
        return min(error.retry_after_seconds, _MAX_THROTTLED_SECONDS) + random.random()  # noqa: S311
    return max_backoff_seconds(error, failures) * random.random()  # noqa: S311


def max_backoff_seconds(error: DeliveryError, failures: int) -> float:
    """The upper bound of the random wait (full jitter) after this many failures in a row."""
    if not isinstance(error, Unreachable):
        return _REFUSED_BACKOFF_SECONDS  # only a person can fix that
    # The exponent is bounded: 2.0 ** 1024 overflows, and a night without a hub has more failures.
    return min(_MAX_BACKOFF_SECONDS, _MIN_BACKOFF_SECONDS * 2.0 ** min(failures, 16))
