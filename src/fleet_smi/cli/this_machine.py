"""This machine among the nodes of a fleet: found by its id, else by its name."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet_smi.model.fleet import FleetView, NodeView
    from fleet_smi.model.snapshot import Snapshot


def read_identity() -> "Snapshot":
    """Read the id and the name that an agent on this machine reports; no GPU is read."""
    from fleet_smi import config
    from fleet_smi.local import LocalFleet
    from fleet_smi.node.reader import Reader
    from fleet_smi.node.reader_process import fork_worker

    machine = LocalFleet(config.load(), Reader(fork_worker), subjects=("host",))
    try:
        return machine.snapshot()
    finally:
        machine.close()


def find_node(view: "FleetView", identity: "Snapshot") -> "NodeView | None":
    """Return the node that is the machine of this identity; `None` if none is, or several may be.

    By name, because older tools report no id.
    """
    by_id = [node for node in view.nodes if node.node_id == identity.node_id]
    by_name = [node for node in view.nodes if node.name == identity.name]
    found = by_id or by_name
    return found[0] if len(found) == 1 else None
