"""`fleet-smi demo`: a simulated fleet over the real wire, for those who have no GPU at hand."""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

from fleet_smi.cli import output, run_hub
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.server.hub_server import HubServer
    from fleet_smi.simulation.scenario import FleetScenario

HELP = "a simulated fleet and a real hub, to see what fleet-smi looks like without a GPU"
EXAMPLES = """\
  fleet-smi demo                 12 machines that report to a hub; open its address
  fleet-smi demo --once          show their table and end
  fleet-smi demo --once -v       with the reason of each state
  fleet-smi demo --unless-gpus   `fleet-smi up` instead, if this machine has GPUs
"""
_PORTS = range(7070, 7080)
_SEED = 7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the demo."""
    add = parser.add_argument
    add("--once", action="store_true", help="show the table and end")
    add("-o", "--overview", action="store_true", help="one line a node")
    add("-p", "--processes", action="store_true", help="one line a process under each GPU")
    add("-v", "--why", action="store_true", help="the reason of each state")
    add("--json", action="store_true", help="all that is known, as JSON; and end")
    add("--listen", metavar="PORT", help="the hub's port on this machine (7070, or the next free)")
    add("--unless-gpus", action="store_true", help="show this machine instead if it has GPUs")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run a hub with a fleet that does not exist, until told to end."""
    from fleet_smi.simulation.demo import demo_fleet

    if args.unless_gpus and _has_gpus():
        os.execv(sys.executable, [sys.executable, "-m", "fleet_smi", "up"])  # noqa: S606
    story = demo_fleet(seed=_SEED, start=time.time())
    with (
        tempfile.TemporaryDirectory(prefix="fleet-smi-demo-") as folder,
        _server(args.listen, folder) as server,
    ):
        run_hub.serve_until_signal(
            server, partial(_tell, args, server, story), partial(_show, args, server, story)
        )
    return 0


def _has_gpus() -> bool:
    from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

    return open_local_fleet(start_reader(), full=False).view().summary.gpus > 0


def _server(port: str | None, folder: str) -> "HubServer":
    """A hub of its own on this machine: nothing of it stays, and no settings change it."""
    from fleet_smi import config
    from fleet_smi.server.hub_server import HubServer

    for each in [port] if port is not None else map(str, _PORTS):
        flags = {"hub.listen": each, "hub.state": folder}
        settings = config.load({"HOME": folder}, flags=flags)
        try:
            return HubServer(settings.hub, (), settings.thresholds)
        except UsageError:
            if port is not None or int(each) == _PORTS[-1]:
                raise
    raise AssertionError


async def _tell(args: argparse.Namespace, server: "HubServer", story: "FleetScenario") -> None:
    """Let every simulated machine join and report, as real ones do."""
    from fleet_smi.simulation.load_generator import LoadGenerator
    from fleet_smi.simulation.scenario import last_hour, last_week

    while not server.hub.ready:
        await asyncio.sleep(0.01)
    token = server.credentials.tokens.add("join").secret
    past = last_hour if _is_one_look(args) else last_week
    await LoadGenerator(story, server.url, join_token=token, backfill=past).run()


async def _show(args: argparse.Namespace, server: "HubServer", story: "FleetScenario") -> None:
    """Show the table once everybody has reported; go on only if nobody wants to end here."""
    fleet = server.hub.fleet
    if not _is_one_look(args):
        print(f"fleet-smi demo: {server.url}, once a week of its past is told …", flush=True)
    while not _is_up_to_date(view := fleet.view(time.time()), story):
        await asyncio.sleep(0.05)
    sys.stdout.write(_text(args, view))
    sys.stdout.flush()
    if not _is_one_look(args):
        print(
            "A simulated fleet: none of this is real. It goes on at\n"
            f"  {server.url}    and in another terminal: fleet-smi --hub {server.url}\n"
            f"It has a past of a week: fleet-smi history --since 7d --hub {server.url}\n"
            "Ctrl-C ends it.",
            flush=True,
        )
        await asyncio.Event().wait()


def _is_up_to_date(view: "FleetView", story: "FleetScenario") -> bool:
    """Whether all have told of the past, but for whoever has fallen silent by now."""
    silent = sum(not story.is_reporting(index, view.taken_at) for index in range(len(story.nodes)))
    counts = view.summary
    return counts.nodes == len(story.nodes) and counts.nodes_reporting >= counts.nodes - silent


def _is_one_look(args: argparse.Namespace) -> bool:
    """Whether it ends with its first table: nobody then asks for more of the past."""
    return bool(args.once or args.json)


def _text(args: argparse.Namespace, view: "FleetView") -> str:
    if args.json:
        from fleet_smi.wire.json import fleet_json

        return fleet_json(view, pretty=True).decode() + "\n"
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import overview, status

    paint = Paint(enabled=output.use_colour(args))
    if args.overview:
        return overview.render(view, output.output_columns(), paint)
    return status.render(
        view, output.output_columns(), paint, processes=args.processes, show_reasons=args.why
    )
