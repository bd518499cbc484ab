"""Work budget of reports: how much processor time of the hub one node's credential may use.

A node that sends too many reports, or reports that are costly to decode, must not slow down the
others: it is answered with 429 and the time to wait. Its agent buffers what it could not send.
"""

import math
from collections.abc import Callable, Sequence

from fleet_smi.hub.credentials import Identity
from fleet_smi.model.token_bucket import TokenBucket
from fleet_smi.server.http_error import HttpError

# What a report of this size costs at least; what it really took is charged when that is known.
_SECONDS_PER_REPORT = 0.002
_SECONDS_PER_BYTE = 1 / (16 << 20)
# Writing a row of the history, which another thread does later.
_SECONDS_PER_ROW = 0.0002
# Of the budget this part comes back every second: of 10 s, a fifth of one processor.
_REFILL_PER_SECOND = 0.02
_MAX_KEYS = 1 << 15  # more than a hub has nodes


class ReportBudget:
    """A token bucket per credential, counted in seconds of work; `burst_seconds` fill it."""

    def __init__(self, burst_seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        # One token is the work of one second.
        refill_seconds = 1 / (_REFILL_PER_SECOND * burst_seconds)
        self._buckets = TokenBucket(
            burst=burst_seconds, refill_seconds=refill_seconds, max_keys=_MAX_KEYS
        )

    def admit(self, identity: Identity, body_bytes: int) -> HttpError | None:
        """Charge a report for its size; return the error 429 if the budget is used up."""
        # Now, and not when it has arrived: it may come over many connections at once.
        return self._spend(identity, _minimum_seconds(body_bytes))

    def admit_all(self, charges: Sequence[tuple[str | None, int]]) -> dict[int, HttpError]:
        """Like `admit`, for token ids with sizes of reports; return the errors by position."""
        work = [(key, _SECONDS_PER_REPORT + size * _SECONDS_PER_BYTE) for key, size in charges]
        refused = self._buckets.overdraw_all(work, self._clock())
        return {number: _too_much_work(seconds) for number, seconds in refused.items()}

    def charge(self, identity: Identity, more_bytes: int) -> HttpError | None:
        """Charge an admitted report for bytes that were not announced; return the error 429."""
        return self._spend(identity, more_bytes * _SECONDS_PER_BYTE) if more_bytes else None

    def _spend(self, identity: Identity, work_seconds: float) -> HttpError | None:
        # Without a credential there is nothing to count by: a hub that is open to everybody has
        # chosen to trust them.
        if identity.token_id is None:
            return None
        wait_seconds = self._buckets.overdraw(identity.token_id, work_seconds, self._clock())
        return _too_much_work(wait_seconds) if wait_seconds else None

    def check(
        self, identity: Identity, body_bytes: int, work_seconds: float, recorded_rows: int
    ) -> HttpError | None:
        """Return the error 429 if a report that is half applied has used up the budget."""
        excess = _excess_seconds(body_bytes, work_seconds, recorded_rows)
        if excess <= 0 or identity.token_id is None:
            return None
        wait_seconds = self._buckets.seconds_until(identity.token_id, excess, self._clock())
        return _too_much_work(wait_seconds) if wait_seconds else None

    def settle(
        self, identity: Identity, body_bytes: int, work_seconds: float, recorded_rows: int = 0
    ) -> None:
        """Charge an admitted report for what it took beyond what its size costs.

        That is time on the event loop, and rows that the history has to write for it.
        """
        excess = _excess_seconds(body_bytes, work_seconds, recorded_rows)
        if excess > 0 and identity.token_id is not None:
            self._buckets.spend(identity.token_id, excess, self._clock())


def _minimum_seconds(body_bytes: int) -> float:
    return _SECONDS_PER_REPORT + body_bytes * _SECONDS_PER_BYTE


def _excess_seconds(body_bytes: int, work_seconds: float, recorded_rows: int) -> float:
    return work_seconds + recorded_rows * _SECONDS_PER_ROW - _minimum_seconds(body_bytes)


def _too_much_work(wait_seconds: float) -> HttpError:
    return HttpError(
        429,
        "too_much_work",
        "the reports of this node take too much of the hub's time: wait and send them again",
        math.ceil(wait_seconds),
    )
