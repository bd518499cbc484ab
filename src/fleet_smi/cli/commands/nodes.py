"""`fleet-smi nodes`: the machines of the fleet; an administrator names and removes them."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView, NodeView

HELP = "the machines of the fleet: how each is heard, and what is odd about it"
EXAMPLES = """\
  fleet-smi nodes                          every machine that was ever heard
  fleet-smi nodes remove gpu07             forget one (only this makes a node leave)
  fleet-smi nodes rename gpu07 big-one     what it is called in this fleet
  fleet-smi nodes label gpu07 rack=b2      labels of its own; `rack=` takes one away
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the list, and what can be done to a node."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    fleet_source.add_fleet_arguments(parser)
    output.add_colour_arguments(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    remove = actions.add_parser("remove", help="forget a node, its data and its credential")
    rename = actions.add_parser("rename", help="call a node something else")
    label = actions.add_parser("label", help="give a node labels")
    for action in (remove, rename, label):
        action.add_argument("node", help="its name, or its id where two have one name")
        # Not given here must not undo it before the deed.
        action.add_argument("--hub", metavar="URL", default=argparse.SUPPRESS, help="of this hub")
    rename.add_argument("name", help="its new name; empty gives its own back")
    label.add_argument("labels", nargs="+", metavar="KEY=VALUE")


def run(args: argparse.Namespace) -> int:
    """List the nodes, or do something to one of them."""
    if args.action is not None:
        return _change(args)
    view = fleet_source.select_fleet(args).view()
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json({"nodes": view.nodes}, pretty=True).decode() + "\n")
        return 0
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import nodes

    sys.stdout.write(
        nodes.render(view, output.output_columns(), Paint(enabled=output.use_colour(args)))
    )
    return 0


def _change(args: argparse.Namespace) -> int:
    hub = fleet_source.hub_client(args)
    node = _meant(hub.fleet(), args.node)
    if args.action == "remove":
        hub.remove(node.node_id)
        print(f"{node.name} ({node.node_id}) is forgotten; it must join again to come back")
    elif args.action == "rename":
        hub.label(node.node_id, name=args.name)
        print(f"{node.name} is called {args.name or 'by its own name'} now")
    else:
        hub.label(node.node_id, labels=_labels(args.labels))
        print(f"{node.name}: {' '.join(args.labels)}")
    return 0


def _meant(view: "FleetView", name: str) -> "NodeView":
    found = [node for node in view.nodes if name in (node.node_id, node.name)]
    if len(found) > 1:
        ids = ", ".join(node.node_id for node in found)
        raise UsageError(f"{len(found)} nodes are called {name}: give one's id: {ids}")
    if not found:
        raise UsageError(f"no node is called {name}: `fleet-smi nodes` lists them")
    return found[0]


def _labels(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise UsageError(f"{key!r} is no label: give KEY=VALUE")
    return {key: value for key, _, value in pairs}
