"""`fleet-smi demo`: a simulated fleet that reports to a real hub over HTTP."""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

from fleet_smi.cli import output, run_hub
from fleet_smi.cli.program_name import program_name
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.server.hub_server import HubServer
    from fleet_smi.simulation.scenario import FleetScenario

HELP = "run a simulated fleet with a real hub, to try fleet-smi without a GPU"
EXAMPLES = """\
  fleet-smi demo                 12 nodes that report to a hub; open its address
  fleet-smi demo --once          print the table and exit
  fleet-smi demo --once -v       with the reason for each state
  fleet-smi demo --unless-gpus   `fleet-smi up` instead, if this machine has GPUs
"""
_PORTS = range(7070, 7080)
_SEED = 7  # fixed: every demo shows the same fleet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the demo."""
    add = parser.add_argument
    add("--once", action="store_true", help="print the table and exit")
    add("-o", "--overview", action="store_true", help="one row per node")
    add("-p", "--processes", action="store_true", help="list the processes under each GPU")
    add("-v", "--why", action="store_true", help="show the reason for each state")
    add("--json", action="store_true", help="print everything as JSON and exit")
    add("--listen", metavar="PORT", help="the hub's port (7070, or the next free one)")
    add("--unless-gpus", action="store_true", help="if this machine has GPUs, show it instead")
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run a hub and a simulated fleet until interrupted."""
    from fleet_smi.simulation.demo import demo_fleet

    if args.unless_gpus and _has_gpus():
        os.execv(sys.executable, [sys.executable, "-m", "fleet_smi", "up"])  # noqa: S606
    scenario = demo_fleet(seed=_SEED, start=time.time())
    with (
        tempfile.TemporaryDirectory(prefix="fleet-smi-demo-") as folder,
        _server(args.listen, folder) as server,
    ):
        run_hub.serve_until_signal(
            server,
            partial(_send_reports, args, server, scenario),
            partial(_print_table, args, server, scenario),
        )
    return 0


def _has_gpus() -> bool:
    from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

    return open_local_fleet(start_reader(), full=False).view().summary.gpus > 0


def _server(port: str | None, folder: str) -> "HubServer":
    """Open a hub on the port, or on the first free one, with its state in a temporary folder."""
    from fleet_smi import config
    from fleet_smi.server.hub_server import HubServer

    for candidate in [port] if port is not None else map(str, _PORTS):
        flags = {"hub.listen": candidate, "hub.state": folder}
        # An empty home: the user's own settings must not change the demo.
        settings = config.load({"HOME": folder}, flags=flags)
        try:
            return HubServer(settings.hub, (), settings.thresholds)
        except UsageError:
            # A port that was requested is never replaced by another.
            if port is not None or int(candidate) == _PORTS[-1]:
                raise
    raise AssertionError


async def _send_reports(
    args: argparse.Namespace, server: "HubServer", scenario: "FleetScenario"
) -> None:
    """Let every simulated node join the hub and report, past data first."""
    from fleet_smi.simulation.load_generator import LoadGenerator
    from fleet_smi.simulation.scenario import last_week

    while not server.hub.ready:
        await asyncio.sleep(0.01)
    token = server.credentials.tokens.add("join").secret
    # A table needs no plots of the last hour, and is printed sooner without their data.
    past = partial(last_week, hour_step=60.0) if _exits_after_table(args) else last_week
    await LoadGenerator(scenario, server.url, join_token=token, backfill=past).run()


async def _print_table(
    args: argparse.Namespace, server: "HubServer", scenario: "FleetScenario"
) -> None:
    """Print the table when all nodes have reported; then return, or run on for the hub's users."""
    fleet = server.hub.fleet
    if not _exits_after_table(args):
        print(f"fleet-smi demo: {server.url}; loading a week of history …", flush=True)
    while not _is_up_to_date(view := fleet.view(time.time()), scenario):
        await asyncio.sleep(0.05)
    sys.stdout.write(_text(args, view))
    sys.stdout.flush()
    if not _exits_after_table(args):
        program = program_name()
        print(
            "This fleet is simulated: none of it is real. It is running at\n"
            f"  {server.url}    and in another terminal: {program} --hub {server.url}\n"
            f"It has a week of history: {program} history --since 7d --hub {server.url}\n"
            "Press Ctrl-C to stop.",
            flush=True,
        )
        await asyncio.Event().wait()


def _is_up_to_date(view: "FleetView", scenario: "FleetScenario") -> bool:
    """Whether every node has reported, except those that are silent in the scenario by now."""
    nodes = range(len(scenario.nodes))
    # At the time of the view: the scenario silences some nodes as time passes.
    silent = sum(not scenario.is_reporting(index, view.taken_at) for index in nodes)
    counts = view.summary
    return counts.nodes == len(nodes) and counts.nodes_reporting >= counts.nodes - silent


def _exits_after_table(args: argparse.Namespace) -> bool:
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
