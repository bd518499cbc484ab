"""`fleet-smi like cluster-smi`: cluster-smi's table of 2019, for any fleet."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.table import TableOptions
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.view_options import ViewOptions

HELP = "the table of cluster-smi: refreshed every 3 seconds on a terminal, printed once to a pipe"
EXAMPLES = """\
  fleet-smi like cluster-smi -p -t
  fleet-smi like cluster-smi -n 'gpu0[1-4]' -u alice
  fleet-smi like cluster-smi --here          as cluster-smi-local does
  fleet-smi like cluster-smi | cat           once
  fleet-smi like cluster-smi -i 1            refreshed every second
  fleet-smi like cluster-smi -html -p        one HTML table
"""
_REFRESH_SECONDS = 3.0
_DRIVER_ERROR = "cluster-smi: Failed initializing NVML"
# Go accepts t and f too. Here -pt would then mean -p=t, and the -t would be lost.
_TRUE, _FALSE = ("1", "true", "TRUE", "True"), ("0", "false", "FALSE", "False")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags in Go's style: -p, --p and -p=true are the same."""
    _add_switch(parser, "p", "one row per process")
    _add_switch(parser, "t", "when each node last reported")
    _add_switch(parser, "e", "with -p: whole command lines, cut to 55 characters")
    _add_switch(parser, "d", "fan, temperature and power")
    _add_switch(parser, "color", "free GPUs green, your own rows yellow (on a terminal)")
    _add_switch(parser, "html", "one HTML table, once")
    add = parser.add_argument
    add("-i", "--i", type=float, metavar="SECONDS", help="refresh every N seconds, also to a pipe")
    add("-n", "--n", metavar="REGEX", default=".", help="only nodes whose name matches")
    add("-u", "--u", metavar="USER", default="", help="only GPUs of this user")


def _add_switch(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add a flag with an optional value: `True` if given alone, `None` if not given."""
    parser.add_argument(
        f"-{name}",
        f"--{name}",
        nargs="?",
        const=True,
        type=_parse_switch,
        metavar="BOOL",
        help=text,
    )


def run(args: argparse.Namespace) -> int:
    """Print the table once to a pipe, or refresh it on a terminal."""
    if args.i is not None and args.html:
        raise UsageError("-html prints one table: it cannot be combined with -i")
    if args.i is not None and not 0.1 <= args.i <= 86400:
        raise UsageError(f"-i {args.i:g}: must be 0.1 to 86400 seconds")
    view_options, table_options = _view_options(args), _table_options(args)
    fleet = fleet_source.select_fleet(args)

    def text(view: "FleetView") -> str:
        from fleet_smi.compat.cluster_smi import table

        fleet_source.require_driver(view, _DRIVER_ERROR, is_local=fleet.is_local)
        render = table.render_page if args.html else table.render
        return render(view_options.apply(view), table_options)

    # Repeated into a pipe, the table would never end: only if that is requested.
    if args.html or (args.i is None and not sys.stdout.isatty()):
        sys.stdout.write(text(fleet.view()))
        return 0
    seconds = _REFRESH_SECONDS if args.i is None else args.i
    output.repeat(seconds, lambda: text(fleet.view(seconds)), interactive=True)
    return 0


def _view_options(args: argparse.Namespace) -> "ViewOptions":
    from fleet_smi.model.view_options import ViewOptions, parse_node_pattern

    return ViewOptions(node=parse_node_pattern(args.n), user=args.u or None)


def _table_options(args: argparse.Namespace) -> "TableOptions":
    from fleet_smi.compat.cluster_smi.table import TableOptions

    colour = argparse.Namespace(color=args.color is True, no_color=args.color is False)
    return TableOptions(
        processes=bool(args.p),
        last_seen=bool(args.t),
        full_commands=bool(args.e),
        details=bool(args.d),
        # A page is coloured as a terminal is; the pipe that it is written to says nothing.
        colour=args.color is not False if args.html else output.use_colour(colour),
        highlighted_user=_user_name(),
    )


def _user_name() -> str | None:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a uid that has no name
        return None


def _parse_switch(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither true nor false; each flag has its own dash"
        )
    return text in _TRUE
