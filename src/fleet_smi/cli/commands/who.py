"""`fleet-smi who`: users and the GPUs they hold."""

import argparse
import sys

from fleet_smi.cli import fleet_source, output

HELP = "show who uses GPUs: how many, how much memory, since when, how many of them idle"
EXAMPLES = """\
  fleet-smi who                  all users
  fleet-smi who alice            alice's GPUs and processes
  fleet-smi who --json           as JSON
  fleet-smi who --at -2h         two hours ago (needs a hub)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the user and the output flags."""
    parser.add_argument("user", nargs="?", help="only this user, with every process")
    parser.add_argument("--json", action="store_true", help="as JSON")
    fleet_source.add_at_argument(parser)
    fleet_source.add_fleet_arguments(parser, replay=True)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print who holds what."""
    fleet = fleet_source.select_fleet(args, own_hub=True)
    if isinstance(fleet, fleet_source.HubFleet):
        people = fleet.people(args.user)
    else:
        from fleet_smi.model.people import view_people

        people = view_people(fleet.view(), args.user)
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json(people, pretty=True).decode() + "\n")
        fleet_source.require_answer(fleet)
        return 0
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import who

    paint = Paint(enabled=output.use_colour(args))
    banner = output.history_banner(args, people, paint)
    past = args.at is not None
    text = who.render(people, output.output_columns(), paint, user=args.user, historical=past)
    sys.stdout.write(banner + text)
    fleet_source.require_answer(fleet)
    return 0
