"""The turn of a taker of leases on this machine: in the queue of the hub, where there is one.

`fleet-smi run`, `fleet-smi free --hold` and `fleet_smi.lease` use it: the queue leaves to their
owner the GPUs that are booked. A hub that is away stops nobody: they then wait on this machine
alone.
"""

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.acting import acting_client, may_have_hub
from fleet_smi.errors import DeliveryError, Unmet, Unreachable, UsageError

if TYPE_CHECKING:
    from fleet_smi.config import Settings
    from fleet_smi.model.candidates import GpuRequest
    from fleet_smi.node.leasing import Leased, LeaseTaker
    from fleet_smi.queue_place import Deadline, QueuePlace

_HUB_TIMEOUT_SECONDS = 5.0
_RETURN_SECONDS = 5.0


class Turn(NamedTuple):
    """Leased GPUs, and a callback for when they are released."""

    leased: "Leased"
    finish: Callable[[], None] = lambda: None


class TurnOptions(NamedTuple):
    """Timeout, details of the request for the queue, and the hub, if one is named."""

    timeout_seconds: float | None
    max_hours: float | None = None
    note: str | None = None
    ignore_bookings: bool = False
    hub: str | None = None


class Messages(NamedTuple):
    """Where to say what is waited for (`show`), and that the hub is away or back (`warn`)."""

    show: Callable[[str], None]
    warn: Callable[[str], None]


def take_in_turn(
    settings: "Settings",
    taker: "LeaseTaker",
    wanted: "GpuRequest",
    options: TurnOptions,
    messages: Messages,
) -> Turn:
    """Wait in the queue of the hub and take what it offers; without it, on this machine alone.

    A hub that comes back is joined again. Raise `Unmet` at the timeout.
    """
    if not may_have_hub(settings, options.hub):
        return Turn(taker.wait(options.timeout_seconds, messages.show))
    # Imported only then: without a hub, a short job is not to wait for it.
    from fleet_smi.queue_place import Deadline, QueuePlace, run_request

    deadline = Deadline(options.timeout_seconds)
    request = run_request(
        wanted,
        taker,
        max_hours=options.max_hours,
        note=options.note,
        ignore_bookings=options.ignore_bookings,
    )
    place = None
    try:
        client = acting_client(options.hub)
        client.limit_wait(_HUB_TIMEOUT_SECONDS)
        place = QueuePlace(client, request)
        leased = _take(place, taker, deadline, messages)
    except (DeliveryError, UsageError) as error:
        # A hub that does not know this machine, or which person we are, will not later either.
        messages.warn(f"not in the queue of the hub, waiting on this machine alone: {error}")
        if place is not None:
            place.leave(tell=False)
        return Turn(taker.wait(deadline.left, messages.show))
    except BaseException:
        if place is not None:
            place.leave()
        raise
    finally:
        taker.leave()
    place.leave()
    return Turn(leased, place.finish)


def _take(
    place: "QueuePlace", taker: "LeaseTaker", deadline: "Deadline", messages: Messages
) -> "Leased":
    """Take what the hub offers; while it is away, what is free here."""
    from fleet_smi.queue_place import take_offered

    while True:
        try:
            return take_offered(place, taker, deadline, messages.show)
        except Unreachable as error:
            messages.warn(f"not in the queue of the hub, waiting on this machine alone: {error}")
        leased = taker.wait(deadline.left, messages.show, is_over=_Return(place))
        if leased is not None:
            return leased
        messages.warn("the hub is back: waiting in its queue again")


class _Return:
    """Whether a hub that was away answers again; asked now and then."""

    def __init__(self, place: "QueuePlace") -> None:
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
