"""`fleet-smi queue`: who waits for GPUs, in which order, and why; cancel a request."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import Refused

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient

HELP = "show who waits for GPUs in the hub's queue: place, request, why, and until when"
EXAMPLES = """\
  fleet-smi queue                        everybody's place, and why they wait
  fleet-smi queue cancel 3f9a02bc        leave the queue; an admin may cancel any request
  fleet-smi queue priority 3f9a02bc high     an admin: before all others
"""
_BANDS = ("high", "normal", "low")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the list and the actions on one request."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    fleet_source.add_hub_argument(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    cancel = actions.add_parser("cancel", help="remove a request of yours from the queue")
    priority = actions.add_parser("priority", help="set the priority of a request (admin)")
    for action in (cancel, priority):
        action.add_argument("id", help="its ID in `fleet-smi queue`")
        # No default: it would overwrite a --hub given before the subcommand.
        action.add_argument(
            "--hub", metavar="URL", default=argparse.SUPPRESS, help="the hub (default: client.hub)"
        )
    priority.add_argument("band", choices=_BANDS, help="high goes first, low goes last")


def _client(args: argparse.Namespace) -> "HubClient":
    """Return a client of this person; to look, any that may see the fleet."""
    from fleet_smi.acting import acting_client

    try:
        return acting_client(args.hub)
    except Refused:
        if args.action is not None:
            raise
        return fleet_source.hub_client(args)


def run(args: argparse.Namespace) -> int:
    """Print the queue, or act on one request."""
    client = _client(args)
    if args.action == "cancel":
        client.cancel_request(args.id)
        return 0
    if args.action == "priority":
        client.keep_request(args.id, band=args.band)
        return 0
    view = client.queue()
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json(view, pretty=True).decode() + "\n")
        return 0
    from fleet_smi.terminal.view import queue

    sys.stdout.write(queue.render(view, output.output_columns()))
    return 0
