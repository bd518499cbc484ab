"""A place in the queue of a hub, and waiting there for what is offered to it."""

import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from fleet_smi.client.hub import HubClient
from fleet_smi.errors import DeliveryError, FleetError, NotFound, Refused, Throttled, Unmet
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.queue.entries import QueueRequest
from fleet_smi.model.queue.view import QueueRow
from fleet_smi.terminal.view.queue import describe_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet_smi.node.leasing import Leased, LeaseTaker

_POLL_SECONDS, _POLL_SECONDS_PER_PLACE = 2.0, 0.25
_RETRY_SECONDS = 10.0
_MAX_UUIDS = 512
_CANCELLED_SECONDS = 30.0
_RESTART_SECONDS = 20.0
# For so long the hub keeps what was taken from others, until it sees it in use.
_SETTLE_SECONDS, _FINISH_TIMEOUT_SECONDS = 40.0, 1.0
_LEAVE_TIMEOUT_SECONDS = 3.0


def run_request(
    wanted: GpuRequest,
    taker: "LeaseTaker",
    *,
    max_hours: float | None = None,
    note: str | None = None,
    ignore_bookings: bool = False,
) -> QueueRequest:
    """Return the request for GPUs of this machine that a taker of leases can take."""
    return QueueRequest(
        count=wanted.count,
        min_free_bytes=wanted.min_free_bytes,
        model=wanted.model,
        vendor=wanted.vendor,
        uuids=tuple(sorted(taker.possible_uuids()))[:_MAX_UUIDS],
        max_hours=max_hours,
        note=note,
        kind="run",
        ignore_bookings=ignore_bookings,
    )


class Cancelled(FleetError):
    """Somebody has removed the request from the queue: this user, or an admin."""


class QueuePlace:
    """The place of this process in the queue; it is lost if the process is killed."""

    def __init__(self, client: HubClient, request: QueueRequest) -> None:
        self._client = client
        self._request = request
        self._id: str | None = None
        self._last = ""
        self._heard_at = 0.0
        self._taken: str | None = None

    def poll(self) -> QueueRow:
        """Join, or say that the request is still wanted; return its row.

        Raise `Cancelled` if somebody has removed the request, `Unmet` if too many wait already.
        """
        if self._id is not None:
            try:
                row = self._client.keep_request(self._id)
            except NotFound:
                # Dropped, if the hub could not be reached for a minute.
                self._id = None
                if time.monotonic() - self._heard_at < _CANCELLED_SECONDS:
                    raise Cancelled(
                        "the request was cancelled: it is in the queue no more"
                    ) from None
            else:
                self._heard_at = time.monotonic()
                return row
        row = self._client.join_queue(self._request)
        self._id, self._heard_at = row.id, time.monotonic()
        return row

    def was_heard_within(self, seconds: float) -> bool:
        """Whether the hub has answered about this request in so many seconds."""
        return self._id is not None and time.monotonic() - self._heard_at < seconds

    def answer(self, *, taken: bool) -> None:
        """Answer an offer; what the hub says to that changes nothing here."""
        if self._id is None:
            return
        try:
            self._client.keep_request(self._id, **{"taken" if taken else "declined": True})
        except FleetError:
            return
        if taken:
            self._taken, self._heard_at = self._id, time.monotonic()
            self._id = None

    def give_back(self, *, unreachable: bool) -> None:
        """Say that what was taken could not be used; the request waits on, in its place."""
        taken, self._taken = self._taken or self._id, None
        if taken is None:
            return
        # Unless the hub says that it has ended, it is asked about as before.
        self._id, self._heard_at = taken, -_CANCELLED_SECONDS
        try:
            self._client.keep_request(taken, declined=True, unreachable=unreachable)
        except NotFound:
            self._id = None
        except FleetError:
            return
        else:
            self._heard_at = time.monotonic()

    def finish(self) -> None:
        """Say that what was taken is given back: the hub may not have seen so short a job."""
        if self._taken is not None and time.monotonic() - self._heard_at < _SETTLE_SECONDS:
            self._client.limit_wait(_FINISH_TIMEOUT_SECONDS)
            with suppress(FleetError):
                self._client.cancel_request(self._taken)
            self._client.close()
        self._taken = None

    def leave(self, *, tell: bool = True) -> None:
        """Leave the queue; a hub that cannot be reached drops the request after a minute."""
        if self._id is not None and tell:
            self._client.limit_wait(_LEAVE_TIMEOUT_SECONDS)
            with suppress(FleetError):
                self._client.cancel_request(self._id)
        self._id = None
        self._client.close()

    def news(self, row: QueueRow) -> str | None:
        """Return what to say about a row; `None` where nothing but an estimate has changed."""
        key = f"{row.place} {row.why}"
        if key == self._last:
            return None
        self._last = key
        return describe_place(row, time.time())


class Deadline:
    """The end of a wait; without one it is never over."""

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """How many seconds are left, at least 0; `None` without an end."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    def pause(self, seconds: float, reason: str) -> None:
        """Sleep so long, or until the end; raise `Unmet` if that has come."""
        left = self.left
        if left is not None and left <= 0:
            raise Unmet(reason)
        time.sleep(seconds if left is None else min(seconds, left))


def take_offered(
    place: QueuePlace, taker: "LeaseTaker", deadline: Deadline, show: "Callable[[str], None]"
) -> "Leased":
    """Wait until the hub offers something that can be taken; raise `Unmet` at the deadline."""
    while True:
        try:
            row = place.poll()
        except Unmet as error:  # too many of this person wait already
            show(str(error))
            deadline.pause(_RETRY_SECONDS, str(error))
            continue
        except Throttled as error:  # many at once; the agent answers a few at a time
            deadline.pause(error.retry_after_seconds * (0.5 + random.random()), str(error))  # noqa: S311
            continue
        except DeliveryError as error:
            # A hub that is restarted still has the place of this request.
            if not place.was_heard_within(_RESTART_SECONDS):
                raise
            deadline.pause(_POLL_SECONDS, str(error))
            continue
        reason = describe_place(row, time.time())
        if row.offer is not None:
            leased = taker.attempt(frozenset(row.offer.uuids))
            place.answer(taken=leased is not None)
            if leased is not None:
                return leased
            reason = taker.reason
            show(reason)
        elif (news := place.news(row)) is not None:
            show(news)
        deadline.pause(_poll_seconds(row), reason)


def wait_for_offer(
    place: QueuePlace,
    timeout_seconds: float | None,
    show: "Callable[[str], None]",
    *,
    has_answered: bool = False,
) -> QueueRow:
    """Wait in the queue until something is offered; raise `Unmet` at the timeout.

    A hub that has answered once and then does not is asked again and again.
    """
    deadline, failures = Deadline(timeout_seconds), 0
    while True:
        pause = _RETRY_SECONDS
        try:
            row = place.poll()
        except Unmet as error:
            reason = str(error)
            show(reason)
        except Refused:
            raise
        except DeliveryError as error:
            if not has_answered and not isinstance(error, Throttled):
                raise
            failures += 1
            pause = min(pause, _POLL_SECONDS * failures)
            reason = f"{error}; trying again"
            show(reason)
        else:
            has_answered, failures, pause = True, 0, _poll_seconds(row)
            if row.offer is not None:
                place.answer(taken=True)
                return row
            reason = describe_place(row, time.time())
            if (news := place.news(row)) is not None:
                show(news)
        deadline.pause(pause, reason)


def _poll_seconds(row: QueueRow) -> float:
    """How soon to ask again: who stands far behind is not offered anything in a moment."""
    return min(_RETRY_SECONDS, _POLL_SECONDS + _POLL_SECONDS_PER_PLACE * (row.place or 0))
