"""The turn of `fleet-smi run` on this machine in the queue of the hub.

A hub that is away stops nobody: `run` then waits on this machine alone.
"""

import argparse
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.cli.acting import acting_client
from fleet_smi.cli.lease_keeper import say
from fleet_smi.errors import DeliveryError, Unmet, Unreachable, UsageError
from fleet_smi.queue_place import Deadline, QueuePlace, run_request, take_offered

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet_smi.cli.job_session import JobOptions
    from fleet_smi.node.leasing import Leased, LeaseOptions, LeaseTaker

_HUB_TIMEOUT_SECONDS = 5.0
_RETURN_SECONDS = 5.0


class Turn(NamedTuple):
    """Leased GPUs, and a callback for when they are released."""

    leased: "Leased"
    finish: "Callable[[], None]" = lambda: None


def take_in_turn(
    args: argparse.Namespace,
    taker: "LeaseTaker",
    wanted: "LeaseOptions",
    options: "JobOptions",
    show: "Callable[[str], None]",
) -> Turn:
    """Wait in the queue of the hub and take what it offers; without it, on this machine alone.

    A hub that comes back is joined again. Raise `Unmet` at the timeout.
    """
    deadline = Deadline(options.timeout_seconds)
    request = run_request(
        wanted.request,
        taker,
        max_hours=options.max_hours,
        note=options.note,
        ignore_bookings=options.ignore_bookings,
    )
    place = None
    try:
        client = acting_client(args)
        client.limit_wait(_HUB_TIMEOUT_SECONDS)
        place = QueuePlace(client, request)
        leased = _take(place, taker, deadline, show)
    except (DeliveryError, UsageError) as error:
        # A hub that does not know this machine, or which person we are, will not later either.
        say(f"not in the queue of the hub, waiting on this machine alone: {error}")
        if place is not None:
            place.leave(tell=False)
        return Turn(taker.wait(deadline.left, show))
    except BaseException:
        if place is not None:
            place.leave()
        raise
    finally:
        taker.leave()
    place.leave()
    return Turn(leased, place.finish)


def _take(
    place: QueuePlace, taker: "LeaseTaker", deadline: Deadline, show: "Callable[[str], None]"
) -> "Leased":
    """Take what the hub offers; while it is away, what is free here."""
    while True:
        try:
            return take_offered(place, taker, deadline, show)
        except Unreachable as error:
            say(f"not in the queue of the hub, waiting on this machine alone: {error}")
        leased = taker.wait(deadline.left, show, is_over=_Return(place))
        if leased is not None:
            return leased
        say("the hub is back: waiting in its queue again")


class _Return:
    """Whether a hub that was away answers again; asked now and then."""

    def __init__(self, place: QueuePlace) -> None:
        self._place = place
        self._next = time.monotonic() + _RETURN_SECONDS

    def __call__(self) -> bool:
        if time.monotonic() < self._next:
            return False
        try:
            self._place.poll()
        except (Unreachable, Unmet):
            # Counted from the end: a hub that does not answer takes its time.
            self._next = time.monotonic() + _RETURN_SECONDS * (0.8 + 0.4 * random.random())  # noqa: S311
            return False
        return True
