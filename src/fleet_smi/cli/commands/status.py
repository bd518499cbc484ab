"""`fleet-smi status`, the default command: the GPUs as a table, JSON or CSV."""

import argparse
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.cli.formats import STATUS_FORMATS, STATUS_STYLES, load_format
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from fleet_smi.fleet.polled import ShowPartial
    from fleet_smi.model.filter import Filter
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.node_summary import FleetOverview
    from fleet_smi.model.view_options import ViewOptions

HELP = "which GPUs are free, who has the rest, and are they really using them?"
EXAMPLES = """\
  fleet-smi                      one row per GPU
  fleet-smi -p                   with every process
  fleet-smi -v                   with the reason for each state
  fleet-smi -i 2                 refresh every 2 seconds
  fleet-smi --state free,held    only GPUs in these states
  fleet-smi --filter 'free mem>40G model:A100'    same syntax as the page's search box
  fleet-smi -u alice --json      alice's GPUs, as JSON
  fleet-smi --at 'yesterday 03:12'    at a time in the past, from a hub's history
  fleet-smi --ssh gpu01,gpu02    other machines, with nothing installed there
  fleet-smi --dir /nfs/gpu-status    reports that agents write to a shared folder
  fleet-smi --format '{free}/{total}'    one line of numbers, for a prompt or tmux
"""
_MAX_PENDING = 5
_SORTS = ("index", "attention", "state", "util", "memory", "temperature", "power", "user")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the table."""
    add = parser.add_argument
    add("-p", "--processes", action="store_true", help="list the processes under each GPU")
    add("-v", "--why", action="store_true", help="show the reason for each state")
    add("-o", "--overview", action="store_true", help="one row per node")
    add("-u", "--user", metavar="USER", help="only GPUs with processes of this user")
    add("-n", "--node", metavar="REGEX", help="only nodes whose name matches")
    add("--state", metavar="STATE[,STATE]", help="only GPUs in these states")
    add("--filter", metavar="TEXT", help="only matching GPUs, like 'free model:A100 mem>40G'")
    add("--sort", choices=_SORTS, default="index", help="order of the GPUs within a node (index)")
    add("-i", "--interval", type=float, metavar="SECONDS", help="refresh every N seconds")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything, as JSON")
    form.add_argument("--csv", action="store_true", help="as CSV, one row per GPU")
    others = "".join([f"; or {name}: print like it" for name in STATUS_FORMATS])
    text = f"one line, like '{{free}}/{{total}}'{others}"
    form.add_argument("--format", metavar="TEXT", help=text)
    if STATUS_STYLES:
        form.add_argument("--style", choices=STATUS_STYLES, help="a boxed table like cluster-smi's")
    # The flag exists only while a style is registered, but `run` always reads it.
    parser.set_defaults(style=None)
    fleet_source.add_at_argument(parser)
    fleet_source.add_fleet_arguments(parser, replay=True)
    output.add_colour_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the fleet, once or every interval."""
    if args.interval is not None and not 0.1 <= args.interval <= 86400:
        raise UsageError(f"-i {args.interval:g}: must be 0.1 to 86400 seconds")
    if args.interval is not None and args.at is not None:
        raise UsageError("-i and --at cannot be combined: the past does not change")
    if args.format is not None and args.format not in STATUS_FORMATS:
        return _print_line(args)
    is_interactive = not (args.json or args.csv)
    on_screen = is_interactive and output.is_screen()
    # On a screen the rest of the machine is shown while a driver is slow.
    fleet = fleet_source.select_fleet(args, full=args.json, own_hub=True, patient=not on_screen)
    options = view_options(args)
    if args.interval is None:
        _print_once(args, fleet, options, on_screen=on_screen)
        fleet_source.require_answer(fleet)
        return 0
    # Over ssh one slow host must not delay the others: they are polled in the background.
    with _polling(fleet) if on_screen and args.ssh else nullcontext():
        output.repeat(
            args.interval,
            lambda: _text(args, _fetch(args, fleet, options, args.interval)),
            interactive=is_interactive,
        )
    return 0


def _print_line(args: argparse.Namespace) -> int:
    """Print one line of numbers, as `--format` says."""
    if "{" not in args.format:
        known = ", ".join([*STATUS_FORMATS, "or a text with fields like '{free}/{total}'"])
        raise UsageError(f"--format {args.format}: give {known}")
    from fleet_smi.cli import status_line

    return status_line.run(args)


def _print_once(
    args: argparse.Namespace,
    fleet: fleet_source.FleetSource,
    options: "ViewOptions",
    *,
    on_screen: bool,
) -> None:
    """Print the fleet; on a terminal, also what has answered while the rest is awaited."""
    if not on_screen:
        sys.stdout.write(_text(args, _fetch(args, fleet, options)))
        return
    screen = output.PartialScreen()

    def show_partial(view: "FleetView", pending: "Sequence[str]") -> None:
        names = ", ".join(pending[:_MAX_PENDING]) + (" …" if len(pending) > _MAX_PENDING else "")
        line = f"waiting for {names}"[: output.output_columns()]
        screen.draw(_text(args, options.apply(view)), line)

    shown = _fetch(args, fleet, options, show_partial=show_partial)
    screen.finish(_text(args, shown))


def _fetch(
    args: argparse.Namespace,
    fleet: fleet_source.FleetSource,
    options: "ViewOptions",
    interval_seconds: float | None = None,
    show_partial: "ShowPartial | None" = None,
) -> "FleetView | FleetOverview":
    """Return what is to be shown; a hub selects it itself, and counts it for an overview."""
    if not isinstance(fleet, fleet_source.HubFleet):
        return options.apply(fleet.view(interval_seconds, show_partial))
    from fleet_smi.cli.hub_filters import hub_filters

    filters, rest = hub_filters(args)
    # An expression that only this command can match needs the names of all nodes.
    if args.overview and not (args.json or args.csv or args.format or args.style):
        return rest.apply_to_overview(fleet.overview(**filters))
    return rest.apply(fleet.selected(**filters))


def _polling(fleet: fleet_source.FleetSource) -> "AbstractContextManager[None]":
    from fleet_smi.fleet.polled import PolledFleet

    return fleet.polling() if isinstance(fleet, PolledFleet) else nullcontext()


def view_options(args: argparse.Namespace) -> "ViewOptions":
    """Return the filters and the order that the flags say."""
    from fleet_smi.model.view_options import ViewOptions, parse_node_pattern, parse_states

    return ViewOptions(
        user=args.user,
        node=parse_node_pattern(args.node) if args.node else None,
        states=parse_states(args.state) if args.state is not None else None,
        filter=_filter(args.filter) if args.filter is not None else None,
        sort=args.sort,
    )


def _filter(text: str) -> "Filter":
    from fleet_smi.model.filter import parse_filter

    try:
        return parse_filter(text)
    except UsageError as error:
        raise UsageError(f"--filter: {error}") from None


def _text(args: argparse.Namespace, shown: "FleetView | FleetOverview") -> str:
    from fleet_smi.model.fleet import FleetView

    if not isinstance(shown, FleetView):
        return _overview(args, shown) + _hidden_gpus_line(shown)
    if args.csv:
        from fleet_smi.wire.fleet_csv import fleet_csv

        return fleet_csv(shown)
    if args.json:
        from fleet_smi.wire.json import fleet_json

        # With -i, one document per line (JSON Lines); once, indented.
        return fleet_json(shown, pretty=args.interval is None).decode() + "\n"
    return _screen(args, shown) + _hidden_gpus_line(shown)


def _screen(args: argparse.Namespace, shown: "FleetView") -> str:
    module = STATUS_FORMATS.get(args.format) or STATUS_STYLES.get(args.style)
    if module is not None:
        text: str = load_format(module).render_status(shown, colour=output.use_colour(args))
        return text
    if args.overview:
        return _overview(args, shown)
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import status

    paint = Paint(enabled=output.use_colour(args))
    return output.history_banner(args, shown, paint) + status.render(
        shown, output.output_columns(), paint, processes=args.processes, show_reasons=args.why
    )


def _overview(args: argparse.Namespace, shown: "FleetView | FleetOverview") -> str:
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import overview

    paint = Paint(enabled=output.use_colour(args))
    banner = output.history_banner(args, shown, paint)
    return banner + overview.render(shown, output.output_columns(), paint)


def _hidden_gpus_line(shown: "FleetView | FleetOverview") -> str:
    """Return a line about the GPUs that the filter hides; empty if there are none."""
    hidden = shown.summary.gpus - shown.gpu_count
    if hidden <= 0:
        return ""
    return f"({hidden} of {shown.summary.gpus} GPUs do not match and are not shown)\n"
