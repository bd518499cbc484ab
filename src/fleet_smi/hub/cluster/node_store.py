"""The node store of a cluster: each hub saves the nodes that it owns, and all can read them."""

from collections.abc import Collection

from sqlalchemy import Connection

from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.cluster.ownership import Ownership
from fleet_smi.hub.cluster.state_database import SharedState
from fleet_smi.hub.node_store import NodeStore, UnreadableCallback, ignore_unreadable


class SharedNodeStore(NodeStore[NodeCheckpoint]):
    """The nodes of all hubs; this one writes its own."""

    def __init__(self, state: SharedState, ownership: Ownership, hub: str) -> None:
        self._ownership = ownership
        self._hub = hub
        self.others: list[tuple[str, NodeCheckpoint]] = []
        """The nodes that other hubs own, each with its owner, as they were loaded."""
        super().__init__(state.engine, NodeCheckpoint)

    def load(self, on_unreadable: UnreadableCallback = ignore_unreadable) -> list[NodeCheckpoint]:
        """The nodes that this hub owns; those of others are in `others` then."""
        owners = self._ownership.owners()
        found = super().load(on_unreadable)
        self.others = [
            (owner, node) for node in found if (owner := owners.get(node.node_id, "")) != self._hub
        ]
        return [node for node in found if owners.get(node.node_id) == self._hub]

    def _owned(self, connection: Connection, node_ids: Collection[str]) -> Collection[str]:
        return self._ownership.lock_owned(connection, node_ids)
