"""`fleet-smi like cluster-smi`: its table of 2019, over any fleet."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.table import TableOptions
    from fleet_smi.model.fleet import FleetView
    from fleet_smi.model.view_options import ViewOptions

HELP = "the table of cluster-smi: again every 3 seconds on a terminal, once when piped"
EXAMPLES = """\
  fleet-smi like cluster-smi -p -t
  fleet-smi like cluster-smi -n 'gpu0[1-4]' -u alice
  fleet-smi like cluster-smi --here          as cluster-smi-local does
  fleet-smi like cluster-smi | cat           once
"""
_TICK_SECONDS = 3.0
# Go takes a lone t or f too. Here -pt would then be -p=t, and its -t unheard.
_TRUE, _FALSE = ("1", "true", "TRUE", "True"), ("0", "false", "FALSE", "False")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags, as Go writes them: -p, --p and -p=true are one."""
    _add_switch(parser, "p", "one row a process")
    _add_switch(parser, "t", "when each node was last heard of")
    _add_switch(parser, "e", "with -p: whole command lines, cut to 55 characters")
    _add_switch(parser, "d", "fan, temperature and power")
    _add_switch(parser, "color", "free GPUs green, your own rows yellow (on a terminal)")
    add = parser.add_argument
    add("-n", "--n", metavar="REGEX", default=".", help="nodes whose name has a match")
    add("-u", "--u", metavar="USER", default="", help="only what this user has")


def _add_switch(parser: argparse.ArgumentParser, name: str, words: str) -> None:
    """True where it is named, or as it says; `None` where it is not named."""
    parser.add_argument(
        f"-{name}", f"--{name}", nargs="?", const=True, type=_switch, metavar="BOOL", help=words
    )


def run(args: argparse.Namespace) -> int:
    """Show the table: once when piped, else again and again."""
    arrangement, wanted = _arrangement(args), _wanted(args)
    fleet = fleet_source.select_fleet(args)
    if not sys.stdout.isatty():
        sys.stdout.write(_text(fleet.view(), arrangement, wanted))
        return 0
    output.repeat(
        _TICK_SECONDS,
        lambda: _text(fleet.view(_TICK_SECONDS), arrangement, wanted),
        interactive=True,
    )
    return 0


def _text(view: "FleetView", arrangement: "ViewOptions", wanted: "TableOptions") -> str:
    from fleet_smi.compat.cluster_smi import table

    return table.render(arrangement.apply(view), wanted)


def _arrangement(args: argparse.Namespace) -> "ViewOptions":
    from fleet_smi.model.view_options import ViewOptions, parse_node_pattern

    return ViewOptions(node=parse_node_pattern(args.n), user=args.u or None)


def _wanted(args: argparse.Namespace) -> "TableOptions":
    from fleet_smi.compat.cluster_smi.table import TableOptions

    colour = argparse.Namespace(color=args.color is True, no_color=args.color is False)
    return TableOptions(
        processes=bool(args.p),
        last_seen=bool(args.t),
        full_commands=bool(args.e),
        details=bool(args.d),
        colour=output.use_colour(colour),
        highlighted_user=_own_name(),
    )


def _own_name() -> str | None:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's made-up user
        return None


def _switch(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither true nor false; each flag has its own dash"
        )
    return text in _TRUE
