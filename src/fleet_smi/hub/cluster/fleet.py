"""The fleet of a hub in a cluster: its own nodes, and those of other hubs in brief."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from math import inf

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.fleet.node_state import NodeState, restore_node
from fleet_smi.hub.cluster.remote_node import RemoteNode
from fleet_smi.model.fleet import NodeView, State
from fleet_smi.model.node_names import NodePlace
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import NodeParts, build_node_view, split_node_view
from fleet_smi.wire.cluster import BriefNode, NodeUpdate


class ClusterFleet(FleetState):
    """A fleet that shows each node once, by the hub that heard from it last.

    `owned` are the nodes whose history and checkpoints this hub may write, with their epochs. It
    also hears nodes that it does not own yet: they are shown where no other hub shows them better.
    """

    def __init__(self, thresholds: Thresholds, identities: NodeIdentities, max_nodes: int) -> None:
        super().__init__(thresholds, identities, max_nodes)
        self.owned: dict[str, int] = {}
        self._remote: dict[str, RemoteNode] = {}
        self._remote_dirty: set[str] = set()
        self._unpublished: set[str] = set()
        self.unheard: frozenset[str] = frozenset()
        """The hubs that were heard once, and are not now."""

    def apply_brief(self, hub: str, brief: BriefNode, now: float) -> RemoteNode | None:
        """Show a node as another hub does, unless what is shown is newer; return its record."""
        view = brief.view
        at = -inf if view.age_seconds is None else now - view.age_seconds
        before = self._remote.get(view.node_id)
        if before is None and self.node_count >= self.max_nodes and view.node_id not in self._nodes:
            return None  # each hub refuses more than these; it is not one of them that sends this
        if before is not None and before.hub != hub:
            is_stale = before.is_silent(now) or before.hub in self.unheard
            is_older = at <= before.at and before.hub not in self.unheard
            # A hub that does not own it shows it only where its owner does not.
            if is_older or (brief.epoch is None and not is_stale):
                return None
        node = self._remote[view.node_id] = RemoteNode(hub, view, at, self.thresholds)
        node.is_unheard = hub in self.unheard
        self._mark_remote_dirty(view.node_id)
        return node

    def apply_update(self, node: RemoteNode, update: NodeUpdate, now: float) -> bool:
        """Apply new figures to a node; return false if they do not fit it."""
        if self._remote.get(node.node_id) is not node:
            return True  # another hub shows it now
        if not node.update(update, now):
            return False
        self._mark_remote_dirty(node.node_id)
        return True

    def list_remote(self, checkpoint: NodeCheckpoint, hub: str) -> None:
        """List a node of another hub as it was saved last, until that hub sends it."""
        node_id = checkpoint.node_id
        parts = restore_node(checkpoint, self.thresholds).parts(checkpoint.at, self.thresholds)
        self._remote[node_id] = RemoteNode(
            hub, build_node_view(parts), checkpoint.at, self.thresholds
        )
        self._mark_remote_dirty(node_id)

    def adopt(self, checkpoint: NodeCheckpoint, hub: str, now: float) -> None:
        """Continue a node that this hub owns now from its checkpoint.

        What is shown of it stays until reports that continue the checkpoint are newer.
        """
        node_id = checkpoint.node_id
        self._keep_shown(node_id, hub, now)
        if node_id in self._nodes:
            super().remove(node_id)
        self.restore(checkpoint)

    def release(self, node_id: str, hub: str, now: float) -> None:
        """Stop recording a node that another hub owns now; show it as it was last."""
        self._keep_shown(node_id, hub, now)
        self.owned.pop(node_id, None)
        if node_id in self._nodes:
            super().remove(node_id)
        self._dirty.discard(node_id)
        self._mark_remote_dirty(node_id)

    def remove_remote(self, node_id: str) -> None:
        """Remove a node of another hub, which has removed it."""
        if self._remote.pop(node_id, None) is not None:
            self._mark_remote_dirty(node_id)

    def remove(self, node_id: str) -> bool:
        """Remove a node, of this hub or of another."""
        had_remote = self._remote.pop(node_id, None) is not None
        return super().remove(node_id) or had_remote

    def hub_of(self, node_id: str) -> str | None:
        """Return the hub that shows a node; `None` if it is this one, or none does."""
        remote = self._remote.get(node_id)
        return None if remote is None or node_id in self.owned else remote.hub

    def is_live_elsewhere(self, node_id: str, now: float) -> bool:
        """Return whether another hub hears a node now."""
        remote = self._remote.get(node_id)
        return remote is not None and not remote.is_silent(now)

    def remote_ids(self) -> list[str]:
        """Return the ids of the nodes that other hubs show."""
        return list(self._remote)

    def set_unheard(self, hubs: Collection[str]) -> None:
        """Mark the nodes of hubs that are not heard; they show it once they are silent."""
        unheard = frozenset(hubs)
        if unheard == self.unheard:
            return
        self.unheard = unheard
        for node in self._remote.values():
            is_unheard = node.hub in unheard
            if node.is_unheard != is_unheard:
                node.is_unheard = is_unheard
                self._mark_remote_dirty(node.node_id)

    def count_by_hub(self) -> dict[str, int]:
        """Return how many nodes each other hub shows."""
        counts: dict[str, int] = {}
        for node in self._remote.values():
            if node.node_id not in self.owned:
                counts[node.hub] = counts.get(node.hub, 0) + 1
        return counts

    def take_dirty(self) -> set[str]:
        """Return and clear the ids of own nodes that changed; the other hubs are sent them too."""
        dirty = super().take_dirty()
        self._unpublished |= dirty
        return dirty

    def take_unpublished(self) -> set[str]:
        """Return and clear the ids of own nodes that the other hubs are to be sent."""
        unpublished, self._unpublished = self._unpublished, set()
        return unpublished

    def take_remote_dirty(self) -> set[str]:
        """Return and clear the ids of nodes of other hubs that changed."""
        dirty, self._remote_dirty = self._remote_dirty, set()
        return dirty

    def drop_outdated(self) -> None:
        """Forget what other hubs showed of nodes that this hub owns and hears."""
        for node_id in self._remote.keys() & self._nodes.keys() & self.owned.keys():
            if self._nodes[node_id].at >= self._remote[node_id].at:
                del self._remote[node_id]

    def own_parts(self, node_id: str, now: float) -> NodeParts | None:
        """Return a node that this hub hears, in parts; `None` for any other."""
        return super().node_parts(node_id, now)

    def node_parts(self, node_id: str, now: float) -> NodeParts | None:
        """Return one node at one moment, in parts; `None` when it is unknown."""
        remote = self._shown_remote(node_id, now)
        if remote is None:
            return super().node_parts(node_id, now)
        return split_node_view(remote.view(now, self.delay_seconds))

    def live_node(self, node_id: str, now: float) -> LiveNode | None:
        """Return a node that this hub shows by its own reports; `None` for any other."""
        shown = self._shown_remote(node_id, now)
        return super().live_node(node_id, now) if shown is None else None

    def select_live(self, node_ids: Iterable[str], now: float) -> list[NodeState | None]:
        """Return the nodes of which `live_node` is more than `None`."""
        return [
            None if node is None or self._shown_remote(node.node_id, now) is not None else node
            for node in super().select_live(node_ids, now)
        ]

    def node(self, node_id: str, now: float) -> NodeView | None:
        """Return one node at one moment; `None` when it is unknown."""
        remote = self._shown_remote(node_id, now)
        if remote is None:
            return super().node(node_id, now)
        return remote.view(now, self.delay_seconds)

    def nodes(self, now: float) -> Iterator[NodeView]:
        """Yield every node sorted by name, each built when it is requested."""
        for _, node_id in self.places(now):
            view = self.node(node_id, now)
            if view is not None:
                yield view

    def parts(self, now: float, after: NodePlace | None = None) -> Iterator[NodeParts]:
        """Yield every node sorted by name, or those after a place, in parts."""
        places = self.places(now)
        first = 0 if after is None else bisect_right(places, after)
        for _, node_id in places[first:]:
            parts = self.node_parts(node_id, now)
            if parts is not None:
                yield parts

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The ids of the nodes that this hub owns: those of others are theirs to send on."""
        return tuple([node_id for node_id in self._nodes if node_id in self.owned])

    @property
    def node_count(self) -> int:
        """The number of nodes, of all hubs."""
        return len(self._nodes.keys() | self._remote.keys())

    def nodes_named(self, name: str) -> list[str]:
        """Return the ids of the nodes that are shown under this name."""
        others = [node_id for node_id, node in self._remote.items() if node.name == name]
        return list(dict.fromkeys([*super().nodes_named(name), *others]))

    def device_keys(self) -> set[tuple[str, str]]:
        """Return the node id and UUID of every GPU and instance that is shown."""
        others = {
            (node_id, uuid)
            for node_id, node in self._remote.items()
            if node_id not in self._nodes
            for uuid in node.uuids
        }
        return super().device_keys() | others

    def states(self, now: float) -> tuple[list[State], int, int]:
        """Return the state of every GPU, the number of nodes, and how many of them report."""
        states: list[State] = []
        parts = [self.node_parts(node_id, now) for node_id in self._nodes.keys() | self._remote]
        present = [each for each in parts if each is not None]
        for each in present:
            states += [verdict.state for _, verdict in each.gpus]
        return states, len(present), sum([not each.node.silent for each in present])

    def tick(self, now: float, delay_seconds: float = 0.0) -> None:
        """Mark the nodes that have become silent since the last tick as changed."""
        super().tick(now, delay_seconds)
        for node in self._remote.values():
            if node.wake_at < now - delay_seconds:
                node.wake_at = inf  # once per silence: the next message sets it again
                self._mark_remote_dirty(node.node_id)

    def shift_times(self, seconds: float) -> None:
        """Move all times by the seconds by which the hub's clock was set."""
        super().shift_times(seconds)
        for node in self._remote.values():
            node.shift(seconds)

    def places(self, now: float) -> list[NodePlace]:
        """Return the places of all nodes, in order."""
        shown: list[NodeState | RemoteNode] = [
            self._shown_remote(node_id, now) or own for node_id, own in self._nodes.items()
        ]
        shown += [node for node_id, node in self._remote.items() if node_id not in self._nodes]
        return sorted([node.sort_key for node in shown])

    def _shown_remote(self, node_id: str, now: float) -> RemoteNode | None:
        """Return what another hub shows of a node, where that is better than our own."""
        remote, own = self._remote.get(node_id), self._nodes.get(node_id)
        if remote is None or own is None:
            return remote
        if node_id not in self.owned and own.sample is not None:
            # Judged without its past: only where nothing else is known.
            return None if remote.is_silent(now) and own.at > remote.at else remote
        return remote if remote.at > own.at else None

    def _keep_shown(self, node_id: str, hub: str, now: float) -> None:
        """Keep what is shown of our own state of a node, before that is replaced."""
        own, remote = self._nodes.get(node_id), self._shown_remote(node_id, now)
        if own is None or own.sample is None or remote is not None:
            return
        view = FleetState.node(self, node_id, now)
        if view is not None:
            self._remote[node_id] = RemoteNode(hub, view, own.at, self.thresholds)

    def _mark_remote_dirty(self, node_id: str) -> None:
        self.revision += 1
        self._remote_dirty.add(node_id)
