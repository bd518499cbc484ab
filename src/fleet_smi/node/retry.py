"""Retry with exponential back-off: how long an agent waits before it sends again."""

import random

from fleet_smi.errors import DeliveryError, Throttled, Unreachable

_MIN_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 30.0
_MAX_REFUSED_SECONDS = 60.0
_MAX_THROTTLED_SECONDS = 600.0  # a hub that says more is wrong


def backoff_seconds(error: DeliveryError, failures: int) -> float:
    """A random wait up to the maximum: agents that lost one hub must not return together."""
    if isinstance(error, Throttled):
        # Not earlier than the hub says, and not all at the same moment.
        return min(error.retry_after_seconds, _MAX_THROTTLED_SECONDS) + random.random()  # noqa: S311
    return max_backoff_seconds(error, failures) * random.random()  # noqa: S311


def max_backoff_seconds(error: DeliveryError, failures: int) -> float:
    """The upper bound of the random wait (full jitter) after this many failures in a row."""
    # A refusal often needs a person, so its waits grow longer. The first are short all the same: a
    # hub of a cluster may not know yet the credential that another one issued a moment ago.
    bound = _MAX_BACKOFF_SECONDS if isinstance(error, Unreachable) else _MAX_REFUSED_SECONDS
    # The exponent is bounded: 2.0 ** 1024 overflows, and a night without a hub has more failures.
    return min(bound, _MIN_BACKOFF_SECONDS * 2.0 ** min(failures, 16))
