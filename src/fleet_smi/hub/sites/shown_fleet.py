"""The fleet that a hub shows: its own nodes, and those of the sites that it follows."""

from collections.abc import Iterable, Iterator
from heapq import merge

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.fleet.node_faults import NodeFaults
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.hub.sites.sites import Sites
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.node_names import NodePlace, node_place
from fleet_smi.model.views import NodeParts, split_node_view


class ShownFleet:
    """Reads as the own fleet does, with the nodes of all sites among its nodes."""

    def __init__(self, own: FleetState, sites: Sites) -> None:
        self._own = own
        self._sites = sites

    @property
    def faults(self) -> NodeFaults:
        """The faults of the own fleet, which a node of a site is recorded in, too."""
        return self._own.faults

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return self._own.node_count + self._sites.node_count

    def nodes(self, now: float) -> Iterator[NodeView]:
        """Yield every node sorted by name, each built when it is requested."""
        for parts in self.parts(now):
            yield self._own.views.build(parts)

    def parts(self, now: float, after: NodePlace | None = None) -> Iterator[NodeParts]:
        """Yield every node sorted by name, or those after a place, in parts."""
        theirs = sorted(map(split_node_view, self._sites.nodes(now)), key=_place)
        if after is not None:
            theirs = [parts for parts in theirs if _place(parts) > after]
        return merge(self._own.parts(now, after), theirs, key=_place)

    def places(self, now: float) -> list[NodePlace]:
        """Return the places of all nodes, in order."""
        theirs = [node_place(node.name, node.node_id) for node in self._sites.nodes(now)]
        return list(merge(self._own.places(now), sorted(theirs)))

    def node(self, node_id: str, now: float) -> NodeView | None:
        """Return one node at one moment; `None` when it is unknown."""
        return self._own.node(node_id, now) or self._sites.node(node_id, now)

    def live_node(self, node_id: str, now: float) -> LiveNode | None:
        """Return a node of the own fleet, for a comparison; `None` for any other."""
        return self._own.live_node(node_id, now)

    def select_live(self, node_ids: Iterable[str], now: float) -> list[NodeState | None]:
        """Return the nodes of which `live_node` is more than `None`."""
        return self._own.select_live(node_ids, now)

    def node_parts(self, node_id: str, now: float) -> NodeParts | None:
        """Return one node at one moment, in parts; `None` when it is unknown."""
        return self._own.node_parts(node_id, now) or self._sites.parts(node_id, now)


def _place(parts: NodeParts) -> NodePlace:
    return node_place(parts.node.name, parts.node.node_id)
