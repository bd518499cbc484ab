"""`fleet-smi reserve`: book GPUs of a node for a time; list, change and cancel bookings."""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import Refused, Unmet, UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.client.reservations import BookingOverlap, ReservationClient
    from fleet_smi.model.reservation import ReservationInfo, ReservationList

HELP = "book GPUs of a node for a time (needs a hub); without --node, list what is booked"
EXAMPLES = """\
  fleet-smi reserve --node gpu03 -n 4 --from 'fri 18:00' --for 12h --note 'paper rerun'
  fleet-smi reserve --node gpu03 -n 8 --from tomorrow --until 'mon 09:00'
  fleet-smi reserve list                     what is booked from now on
  fleet-smi reserve edit 3f9a1c20 --for 24h  change a booking of yours
  fleet-smi reserve cancel 3f9a1c20          cancel it; one that has begun ends now
  fleet-smi reserve feed                     an address for your calendar program

times are in your own time zone: 'fri 18:00', 'tomorrow 09:00', 18:00, 2026-11-20T18:00, now, +2h

A booking keeps the last free GPUs of a node from others while it lasts. It touches nothing that
runs, and is released if you have neither a process nor a lease there after 30 minutes.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of a booking, and the actions on bookings."""
    parser.add_argument("--node", metavar="NAME", help="the node, by its name or id")
    _add_booking_arguments(parser)
    parser.add_argument("--user", metavar="NAME", help="for somebody else (admins only)")
    fleet_source.add_hub_argument(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="list what is booked")
    listing.add_argument("--node", metavar="NAME", help="only this node")
    listing.add_argument("--user", metavar="NAME", help="only the bookings of this person")
    listing.add_argument("--since", metavar="TIME", help="also what ended since then, like 7d")
    listing.add_argument("--all", action="store_true", help="also what was cancelled or released")
    listing.add_argument("--json", action="store_true", help="as JSON")
    edit = actions.add_parser("edit", help="change a booking of yours; give what is to change")
    cancel = actions.add_parser("cancel", help="cancel a booking of yours, or end it now")
    feed = actions.add_parser("feed", help="make an address that calendar programs subscribe to")
    feed.add_argument("--revoke", action="store_true", help="make the address invalid")
    for action in (edit, cancel):
        action.add_argument("id", metavar="ID", help="as `fleet-smi reserve list` shows it")
    edit.add_argument("--node", metavar="NAME", help="move it to this node")
    _add_booking_arguments(edit)
    for action in (listing, edit, cancel, feed):
        # No default: it would overwrite a --hub given before the action.
        action.add_argument(
            "--hub", metavar="URL", default=argparse.SUPPRESS, help="the hub (default: client.hub)"
        )


def _add_booking_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", "--count", type=int, metavar="N", help="how many GPUs (1)")
    add("--from", dest="start", metavar="TIME", help="when it starts (now)")
    add("--for", dest="length", metavar="TIME", help="how long it lasts, like 12h or 2d")
    add("--until", metavar="TIME", help="when it ends, instead of --for")
    add("--note", metavar="TEXT", help="what it is for; everybody can read it")
    add("--anyway", action="store_true", help="book even if it overlaps other bookings")


def run(args: argparse.Namespace) -> int:
    """Book, or do what the action says."""
    from fleet_smi.client.reservations import ReservationClient

    client = ReservationClient(_hub(args))
    if args.action == "cancel":
        client.cancel(args.id)
        print(f"cancelled {args.id}")
    elif args.action == "edit":
        _edit(client, args)
    elif args.action == "feed":
        _feed(client, args)
    elif args.action is None and args.node is not None:
        _book(client, args)
    elif args.action is None and any((args.start, args.length, args.until, args.count)):
        raise UsageError("give the node to book with --node NAME")
    else:
        _list(client, args)
    return 0


def _hub(args: argparse.Namespace) -> "HubClient":
    """Return a client that acts as this user; to look, any client of the hub will do."""
    from fleet_smi.acting import acting_client

    try:
        return acting_client(args.hub)
    except Refused:
        if args.action == "list" or (args.action is None and args.node is None):
            return fleet_source.hub_client(args)
        raise


def _list(client: "ReservationClient", args: argparse.Namespace) -> None:
    since, everything = getattr(args, "since", None), getattr(args, "all", False)
    if since is not None:
        from fleet_smi.model.moment import parse_since

        since = f"{parse_since(since, time.time()):.0f}"
    found = client.list(
        node=args.node,
        owner=args.user,
        since=since,
        cancelled="true" if everything else None,
    )
    if getattr(args, "json", False):
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json(found, pretty=True).decode() + "\n")
        return
    from fleet_smi.terminal.view import reservations

    sys.stdout.write(reservations.render(found, output.output_columns()))


def _book(client: "ReservationClient", args: argparse.Namespace) -> None:
    from fleet_smi.model.moment import parse_upcoming

    count = 1 if args.count is None else args.count
    if count < 1:
        raise UsageError(f"-n {count}: must be 1 or more")
    now = time.time()
    start = parse_upcoming(args.start or "now", now)
    end = _end(args, start)
    if end is None:
        raise UsageError("how long? give --for 12h, or --until TIME")
    _send(
        lambda: client.add(
            node=args.node,
            gpus=count,
            starts_at=start,
            ends_at=end,
            note=args.note,
            owner=args.user,
            force=args.anyway or None,
        ),
        count,
    )


def _edit(client: "ReservationClient", args: argparse.Namespace) -> None:
    from fleet_smi.model.moment import parse_upcoming

    before = _find(client.list(), args.id)
    start = None if args.start is None else parse_upcoming(args.start, time.time())
    begins = before.starts_at if start is None else start
    end = _end(args, begins)
    if start is not None and end is None:
        end = start + before.ends_at - before.starts_at  # it is moved, and lasts as long
    _send(
        lambda: client.edit(
            args.id,
            node=args.node,
            gpus=args.count,
            starts_at=start,
            ends_at=end,
            note=args.note,
            force=args.anyway or None,
        ),
        args.count or before.gpus,
    )


def _feed(client: "ReservationClient", args: argparse.Namespace) -> None:
    if args.revoke:
        client.remove_feed()
        print("the address of your calendar is no longer valid")
        return
    address = client.create_feed()
    message = "add this address to your calendar program; an earlier one is no longer valid, and "
    print(f"{message}everybody who has it can read all bookings:", file=sys.stderr)
    print(address)


def _end(args: argparse.Namespace, start: float) -> float | None:
    if args.length is not None and args.until is not None:
        raise UsageError("give --for or --until, not both")
    if args.length is not None:
        from fleet_smi.model.moment import parse_length

        return start + parse_length(args.length)
    if args.until is not None:
        from fleet_smi.model.moment import parse_upcoming

        # From the start on: "--from fri --until mon" is the Monday after that Friday.
        return parse_upcoming(args.until, start)
    return None


def _send(book: Any, wanted: int) -> None:
    """Make or change a booking and print it; raise `Unmet` where it does not fit."""
    from fleet_smi.client.reservations import BookingOverlap

    try:
        one: ReservationInfo = book()
    except BookingOverlap as overlap:
        raise _unmet(overlap, wanted) from None
    from fleet_smi.terminal.view import reservations
    from fleet_smi.terminal.view.formatting import to_local_time

    when = reservations.format_range(one.starts_at, one.ends_at, time.time(), to_local_time)
    gpus = "1 GPU" if one.gpus == 1 else f"{one.gpus} GPUs"
    print(f"{one.id}  {gpus} of {one.node} for {one.owner}, {when}")
    for line in reservations.in_the_way_lines(one):
        print(line)


def _unmet(overlap: "BookingOverlap", wanted: int) -> Unmet:
    from fleet_smi.terminal.view.reservations import conflict_lines

    # The lines on their own, the error in one line as everywhere.
    for line in conflict_lines(overlap.check, wanted, time.time()):
        print(line, file=sys.stderr)
    return Unmet(f"not booked: {overlap}; book it nevertheless with --anyway")


def _find(found: "ReservationList", reservation_id: str) -> "ReservationInfo":
    for one in found.reservations:
        if one.id == reservation_id:
            return one
    raise UsageError(f"no booking has the id {reservation_id}: see `fleet-smi reserve list`")
