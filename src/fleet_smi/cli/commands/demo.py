"""`fleet-smi demo`: a simulated machine, for those who have no GPU at hand."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from fleet_smi.cli import output

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView

HELP = "a simulated machine, to see what fleet-smi looks like without a GPU"
EXAMPLES = """\
  fleet-smi demo                 eight GPUs: free, busy, held, a ghost, a broken one, MIG
  fleet-smi demo -p              with their processes
  fleet-smi demo --unless-gpus   this machine's own GPUs, if it has any
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the demo."""
    add = parser.add_argument
    add("-p", "--processes", action="store_true", help="one line a process under each GPU")
    add("-v", "--why", action="store_true", help="the reason of each state")
    add("--json", action="store_true", help="all that is known, as JSON")
    add("--unless-gpus", action="store_true", help="show this machine instead if it has GPUs")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show the simulated machine and say that it is one."""
    from fleet_smi.hub.fleet import Fleet
    from fleet_smi.node import demo

    view = _own_machine() if args.unless_gpus else None
    simulated = view is None
    if view is None:
        now, fleet = time.time(), Fleet()
        for snapshot in demo.past_and_present(now):
            fleet.apply(snapshot, snapshot.taken_at)
        view = fleet.view(now)
    if args.json:
        from fleet_smi.wire.listing import fleet_json

        sys.stdout.write(fleet_json(view, pretty=True).decode() + "\n")
        return 0
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import status

    paint = Paint(on=output.takes_colour(args))
    if simulated:
        print("A simulated machine: none of this is real. `fleet-smi` shows your own.\n")
    sys.stdout.write(
        status.render(view, output.columns(), paint, processes=args.processes, why=args.why)
    )
    return 0


def _own_machine() -> "FleetView | None":
    from fleet_smi.cli.machine import begin, this_machine

    view = this_machine(begin(), full=False).look()
    return view if view.summary.gpus else None
