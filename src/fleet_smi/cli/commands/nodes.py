"""`fleet-smi nodes`: list the nodes of the fleet; rename, label, remove or close one."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, node_closings, output
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.model.closing import Closing
    from fleet_smi.model.hub_problems import NodesView, Problems
    from fleet_smi.model.node_summary import FleetOverview, NodeSummary

HELP = "list the nodes: when each was last seen, by which transport, and its problems"
EXAMPLES = """\
  fleet-smi nodes                          every node that has ever reported
  fleet-smi nodes remove gpu07             the only way for a node to leave the list
  fleet-smi nodes rename gpu07 big-one     change its name in this fleet
  fleet-smi nodes label gpu07 rack=b2      set a label; `rack=` removes it
  fleet-smi nodes close gpu04:1 --until fri --note 'new fan'   offer it no more until Friday
  fleet-smi nodes open gpu04:1             offer it again
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the list and the subcommands that change a node."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    fleet_source.add_fleet_arguments(parser, replay=True)
    output.add_colour_arguments(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    remove = actions.add_parser("remove", help="remove a node, its data and its credential")
    rename = actions.add_parser("rename", help="rename a node")
    label = actions.add_parser("label", help="set labels of a node")
    for action in (remove, rename, label):
        action.add_argument("node", help="its name, or its id if two nodes have that name")
        # No default: it would overwrite a --hub given before the subcommand.
        action.add_argument(
            "--hub", metavar="URL", default=argparse.SUPPRESS, help="the hub (default: client.hub)"
        )
    rename.add_argument("name", help="the new name; empty restores the node's own")
    label.add_argument("labels", nargs="+", metavar="KEY=VALUE")
    node_closings.add_parsers(actions)


def run(args: argparse.Namespace) -> int:
    """List the nodes, or change one of them."""
    if args.action is not None:
        if args.replay:
            raise UsageError(f"--replay: a captured machine cannot be changed ({args.action})")
        return _change(args)
    fleet = fleet_source.select_fleet(args, own_hub=True)
    if args.json:
        from fleet_smi.wire.json import to_json

        view = _nodes(fleet)
        document = {
            "nodes": view.nodes,
            "problems": view.problems,
            "refused": view.refused,
            "closings": _closings(fleet),
            "behind": _overview(fleet)[0].behind,
        }
        sys.stdout.write(to_json(document, pretty=True).decode() + "\n")
        fleet_source.require_answer(fleet)
        return 0
    from fleet_smi.terminal.paint import Paint
    from fleet_smi.terminal.view import nodes

    overview, problems = _overview(fleet)
    paint = Paint(enabled=output.use_colour(args))
    width, closings = output.output_columns(), _closings(fleet)
    sys.stdout.write(nodes.render(overview, problems, width, paint, closings))
    fleet_source.require_answer(fleet)
    return 0


def _nodes(fleet: fleet_source.FleetSource) -> "NodesView":
    if isinstance(fleet, fleet_source.HubFleet):
        return fleet.nodes()
    from fleet_smi.model.hub_problems import NodesView

    view = fleet.view()
    return NodesView(taken_at=view.taken_at, summary=view.summary, nodes=view.nodes)


def _overview(fleet: fleet_source.FleetSource) -> "tuple[FleetOverview, Problems]":
    if isinstance(fleet, fleet_source.HubFleet):
        return fleet.overview(), fleet.problems()
    from fleet_smi.model.hub_problems import Problems
    from fleet_smi.model.node_summary import view_overview

    return view_overview(fleet.view()), Problems()


def _closings(fleet: fleet_source.FleetSource) -> "tuple[Closing, ...]":
    return fleet.closings() if isinstance(fleet, fleet_source.HubFleet) else ()


def _change(args: argparse.Namespace) -> int:
    hub = fleet_source.hub_client(args)
    if args.action in ("close", "open"):
        return node_closings.change(args, hub, _find_node)
    node = _find_node(hub.overview(), args.node)
    if args.action == "remove":
        hub.remove(node.node_id)
        print(f"removed {node.name} ({node.node_id}); {_return(node)}")
    elif args.action == "rename":
        hub.label(node.node_id, name=args.name)
        print(f"renamed {node.name} to {args.name or 'its own name'}")
    else:
        hub.label(node.node_id, labels=_labels(args.labels))
        print(f"{node.name}: {' '.join(args.labels)}")
    return 0


def _return(node: "NodeSummary") -> str:
    """Return how a removed node comes back, or what keeps it away."""
    from fleet_smi.model.transports import detach_remedy

    if node.via in (None, "push"):
        return "to come back it must join again"
    remedy = detach_remedy(node.via or "", node.name)
    restart = "" if node.via == "files" else ", restart the hub and remove it again"
    return f"it comes back with its next report by {node.via}: {remedy}{restart}"


def _find_node(fleet: "FleetOverview", name: str) -> "NodeSummary":
    """Return the node with that name or id; raise `UsageError` if there is not exactly one."""
    from fleet_smi.model.node_names import make_names_unique

    # Also by the name with a suffix that the list shows where two have one name.
    shown = make_names_unique({node.node_id: node.name for node in fleet.nodes})
    matches = [
        node for node in fleet.nodes if name in (node.node_id, node.name, shown[node.node_id])
    ]
    if len(matches) > 1:
        ids = ", ".join(node.node_id for node in matches)
        raise UsageError(f"{len(matches)} nodes are named {name}: give an id instead: {ids}")
    if not matches:
        raise UsageError(f"no node named {name}: see `fleet-smi nodes`")
    return matches[0]


def _labels(arguments: list[str]) -> dict[str, str]:
    # At the first "=": values may contain more of them.
    pairs = [argument.partition("=") for argument in arguments]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise UsageError(f"{key!r} is not a label: give KEY=VALUE")
    return {key: value for key, _, value in pairs}
