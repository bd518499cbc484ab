"""`fleet-smi nodes close` and `open`: keep new work from a node, a GPU or a label."""

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.client.hub import HubClient
    from fleet_smi.model.closing import Closing
    from fleet_smi.model.fleet import NodeView
    from fleet_smi.model.node_summary import FleetOverview, NodeSummary

_LABEL = "label:"
_FindNode = Callable[["FleetOverview", str], "NodeSummary"]


def add_parsers(actions: Any) -> None:
    """Add the two subcommands."""
    close = actions.add_parser(
        "close", help="stop offering a node, a GPU or the nodes with a label"
    )
    again = actions.add_parser("open", help="offer it again")
    for action in (close, again):
        action.add_argument("target", metavar="NODE[:GPU]|label:KEY=VALUE", help="what")
        action.add_argument(
            "--hub", metavar="URL", default=argparse.SUPPRESS, help="the hub (default: client.hub)"
        )
    close.add_argument("--until", metavar="TIME", help="when it opens by itself: fri, 18:00, +2h")
    close.add_argument("--note", metavar="TEXT", default="", help="why, shown to everybody")


def change(args: argparse.Namespace, hub: "HubClient", find_node: _FindNode) -> int:
    """Close or open what is named."""
    name, fields = _target(args.target, hub, find_node)
    if args.action == "open":
        return _open(name, fields, hub)
    from fleet_smi.model.closing import describe_closing
    from fleet_smi.model.moment import parse_upcoming

    now = time.time()
    until = None if args.until is None else parse_upcoming(args.until, now)
    closing = hub.close_to_new_work(**fields, until=until, note=args.note)
    print(f"{name}: {describe_closing(closing, now)}; what runs there goes on")
    return 0


def _open(name: str, fields: dict[str, str], hub: "HubClient") -> int:
    """Open what is named; with a node also its GPUs that were closed one by one."""
    closings = hub.closings()
    found = [closing for closing in closings if _is_meant(closing, fields)]
    if not found:
        labels = [closing.label for closing in closings if closing.label is not None]
        hint = f"; closed by label: {', '.join(f'{_LABEL}{label}' for label in labels)}"
        raise UsageError(f"{name} is not closed{hint if labels else ''}")
    for closing in found:
        hub.open_again(closing.id)
    print(f"{name} is open again")
    return 0


def _is_meant(closing: "Closing", fields: dict[str, str]) -> bool:
    if "label" in fields:
        return closing.label == fields["label"]
    is_node = closing.node_id == fields["node_id"]
    return is_node and ("uuid" not in fields or closing.uuid == fields["uuid"])


def _target(text: str, hub: "HubClient", find_node: _FindNode) -> tuple[str, dict[str, str]]:
    """Return the name of what is meant, and the fields by which the hub knows it."""
    if text.startswith(_LABEL):
        label = text.removeprefix(_LABEL)
        key, equals, value = label.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{text!r} is not a label: write it like label:rack=3")
        return text, {"label": label}
    overview = hub.overview()
    try:
        return text, {"node_id": find_node(overview, text).node_id}
    except UsageError:
        # A node may have a colon in its name: only then is what follows a GPU.
        name, _, device = text.partition(":")
        if not device:
            raise
    node = hub.node(find_node(overview, name).node_id)
    return text, {"node_id": node.node_id, "uuid": _uuid(node, device)}


def _uuid(node: "NodeView", device: str) -> str:
    from fleet_smi.model.candidates import device_label

    uuids: dict[str, str] = {}
    for gpu in node.gpus:
        uuids[device_label(node.name, gpu.index, None)] = gpu.uuid
        for part, instance in enumerate(gpu.instances):
            uuids[device_label(node.name, gpu.index, part)] = instance.uuid
    uuid = uuids.get(f"{node.name}:{device}", device if device in uuids.values() else None)
    if uuid is None:
        raise UsageError(f"{node.name} has no GPU {device}; it has {', '.join(uuids) or 'none'}")
    return uuid
