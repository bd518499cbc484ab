"""Routes of the fleet: which node each route leads to, as far as is known."""

from collections.abc import Callable, Mapping, Sequence

from fleet_smi.fleet.node_state import NodeState
from fleet_smi.fleet.via import Via


class Routes:
    """The node of every route; `remove` removes a node, and `mark_dirty` marks it as changed."""

    def __init__(
        self,
        nodes: Mapping[str, NodeState],
        remove: Callable[[str], bool],
        mark_dirty: Callable[[str], None],
    ) -> None:
        self._nodes = nodes
        self._remove = remove
        self._mark_dirty = mark_dirty
        self._node_ids: dict[Via, str] = {}
        self._joined: list[str] = []

    def node_id(self, via: Via) -> str | None:
        """Return the id of the node that a route leads to, if that is known."""
        return self._node_ids.get(via)

    def node(self, via: Via) -> NodeState | None:
        """Return the node that a route leads to, if that is known."""
        return self._nodes.get(self._node_ids.get(via, ""))

    def add(self, via: Via, node: NodeState) -> None:
        """Add a route to a node."""
        node.vias.add(via)
        self._node_ids[via] = node.node_id

    def forget(self, node: NodeState) -> None:
        """Drop the routes of a node that is removed."""
        for via in node.vias:
            if self._node_ids.get(via) == node.node_id:
                del self._node_ids[via]

    def restore(self, node: NodeState) -> None:
        """Add the routes of a node from its checkpoint, which may be from before one moved."""
        for via in list(node.vias):
            other = self.node(via)
            if other is not None and other is not node:
                # A route belongs to the node that reported last.
                older = min(other, node, key=lambda each: each.at)
                older.vias.discard(via)
                if older is node:
                    continue
            self._node_ids[via] = node.node_id

    def attach(self, via: Via, node: NodeState) -> None:
        """Attach a route to the node that reported by it, and clear its failure."""
        other = self.node(via)
        if other is not None and other is not node:
            # The target was listed under a placeholder until its node was known.
            if other.snapshot is None:
                self._remove(other.node_id)
            else:
                # The address leads to another machine now; the old one stays listed as silent.
                other.vias.discard(via)
                other.failures.pop(via, None)
                self._mark_dirty(other.node_id)
        self.add(via, node)
        node.via = via
        if node.failures.pop(via, None) is not None:
            self._mark_dirty(node.node_id)

    def join(self, via: Via, full: NodeState, node_id: str) -> None:
        """Make a route of an older tool one of the node that an agent on the machine reports.

        `node_id` is what the tool was listed under, if it came first.
        """
        is_new = self._node_ids.get(via) != full.node_id
        if is_new:
            for former in {node_id, via.placeholder_id} & self._nodes.keys():
                full.adopt_labels(self._nodes[former])
                self._remove(former)
                self._joined.append(former)
            self.add(via, full)
        if full.failures.pop(via, None) is not None or is_new:
            self._mark_dirty(full.node_id)

    def take_joined(self) -> Sequence[str]:
        """Return and clear the ids of nodes that turned out to be a route of another node."""
        if not self._joined:
            return ()
        joined, self._joined = self._joined, []
        return joined
