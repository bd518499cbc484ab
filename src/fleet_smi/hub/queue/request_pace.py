"""How often people, and the agents that vouch for people, may send requests to the queue."""

import time
from collections.abc import Callable

from fleet_smi.errors import Unmet
from fleet_smi.model.token_bucket import TokenBucket


class RequestPace:
    """Limits the requests and changes of each person and node: each is planned at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._people = TokenBucket(burst=60, refill_seconds=1.0)
        # An agent may vouch for any number of people whom it has made up.
        self._nodes = TokenBucket(burst=300, refill_seconds=0.2)

    def require_calm(self, person: str, via: str | None) -> None:
        """Raise `Unmet` if a person, or the node that vouches for them, sends too much."""
        now = self._clock()
        wait = self._people.acquire(person, now)
        if via is not None:
            wait = max(wait, self._nodes.acquire(via, now))
        if wait > 0:
            raise Unmet("too many requests in a short time: try again in some seconds")
