"""The turn of `fleet-smi run` on this machine in the queue of the hub.

A hub that is away stops nobody: `run` then waits on this machine alone.
"""

import argparse
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.cli.acting import acting_client
from fleet_smi.cli.lease_keeper import say
from fleet_smi.errors import DeliveryError, UsageError
from fleet_smi.queue_place import Deadline, QueuePlace, run_request, take_offered

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet_smi.cli.job_session import JobOptions
    from fleet_smi.node.leasing import Leased, LeaseOptions, LeaseTaker

_HUB_TIMEOUT_SECONDS = 5.0


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

    Raise `Unmet` at the timeout.
    """
    deadline = Deadline(options.timeout_seconds)
    request = run_request(wanted.request, taker, max_hours=options.max_hours, note=options.note)
    place = None
    try:
        client = acting_client(args)
        client.limit_wait(_HUB_TIMEOUT_SECONDS)
        place = QueuePlace(client, request)
        leased = take_offered(place, taker, deadline, show)
    except (DeliveryError, UsageError) as error:
        # Also a hub that does not know this machine, or which person we are.
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
