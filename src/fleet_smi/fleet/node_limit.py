"""Limits of how many nodes there may be: of one node id, and of the whole fleet."""

from collections.abc import Iterable

from fleet_smi.errors import Refused
from fleet_smi.fleet.machines import Machine
from fleet_smi.fleet.via import Via

MAX_NODES = 20_000
"""Of the whole fleet; the setting `hub.nodes_most` of a hub."""
# Diskless machines of one image may be hundreds; a node that invents boots must not fill memory.
_MAX_MACHINES = 1_000
# Clones join with credentials of their own: a few have one that was copied with the machine.
_MAX_MACHINES_PER_CREDENTIAL = 16
# Of one polled target: a machine has another id each time it is reinstalled.
_MAX_IDS_PER_TARGET = 16


def check_id_count(machines: Iterable[Machine], target: Via) -> None:
    """Raise `Refused` if one more node id would exceed the limit of ids of one polled target."""
    count = sum(machine.owner == target for machine in machines)
    if count >= _MAX_IDS_PER_TARGET:
        raise Refused(
            f"has reported {count} node ids: its machine-id seems to change with every boot. Make "
            "it permanent, and remove the nodes that are gone with `fleet-smi nodes remove`",
            target.target,
        )


def check_machine_count(count: int, node: str, *, has_credential: bool) -> None:
    """Raise `Refused` if one more machine would exceed the limit of machines with one node id."""
    if has_credential and count >= _MAX_MACHINES_PER_CREDENTIAL:
        raise Refused(
            f"more than {_MAX_MACHINES_PER_CREDENTIAL} machines report with one credential: remove "
            "it from their agent.state, and let each join by itself",
            node,
        )
    if count >= _MAX_MACHINES:
        raise Refused(f"more than {_MAX_MACHINES} machines report this id", node)


def too_many_nodes(limit: int, node: str) -> Refused:
    """The refusal of a new node by a fleet that is full."""
    return Refused(
        f"this hub has its limit of {limit} nodes: remove some that are gone, or raise "
        "hub.nodes_most",
        node,
    )
