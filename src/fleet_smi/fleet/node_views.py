"""Views of nodes, with the warnings that a node does not know of: faults of the hub, shared ids."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from fleet_smi.fleet.bare_views import bare_view
from fleet_smi.fleet.identity import NodeIdentities
from fleet_smi.fleet.inventory import NewHome
from fleet_smi.fleet.live_node import LiveNode, live_node, select_live
from fleet_smi.fleet.machines import JOIN_AS_NEW, NEW_MACHINE_ID
from fleet_smi.fleet.node_faults import NodeFaults
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.model.booked_gpus import apply_bookings
from fleet_smi.model.closing import Closing, apply_closings
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.node_names import NodePlace
from fleet_smi.model.reservation import Reservation
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.views import NodeParts, build_node_view

_MAX_NAMED = 3
_place = attrgetter("sort_key")


class NodeViews:
    """Builds the views of the nodes of one fleet; a node that cannot be shown hides no other."""

    def __init__(
        self,
        nodes: Mapping[str, NodeState],
        identities: NodeIdentities,
        faults: NodeFaults,
        thresholds: Thresholds,
        on_change: Callable[[str], None],
    ) -> None:
        self._nodes = nodes
        self._identities = identities
        self._faults = faults
        self._thresholds = thresholds
        self._on_change = on_change
        self._closings: Sequence[Closing] = ()
        self._reservations: Mapping[str, Sequence[Reservation]] = {}
        self._unbuilt: set[str] = set()  # nodes whose parts could not be made into a view

    def in_order(self, after: NodePlace | None = None) -> list[NodeState]:
        """Return the nodes sorted by name; only those after a place, if one is given."""
        nodes = sorted(self._nodes.values(), key=_place)
        return nodes if after is None else nodes[bisect_right(nodes, after, key=_place) :]

    def parts(self, node: NodeState, now: float, delay_seconds: float) -> NodeParts:
        """Return a node in parts."""
        try:
            parts = self._with_twins(node.parts(now, self._thresholds, delay_seconds), now)
            if self._closings and (closings := self._closings_of(node)):
                parts = apply_closings(parts, closings, now)
            if (booked := self._reservations.get(node.node_id)) is not None:
                parts = apply_bookings(parts, booked, now)
        except Exception as error:  # noqa: BLE001  # one node must not hide the others
            self._faults.record("view", node.node_id, error)
            parts = NodeParts(node=bare_view(node))
        else:
            if self._faults and node.node_id not in self._unbuilt:
                self._faults.clear("view", node.node_id)
        if not self._faults:
            return parts
        return replace(parts, node=self._with_faults(parts.node))

    def live(self, node: NodeState, now: float, delay_seconds: float) -> LiveNode | None:
        """Return a node for a comparison; `None` where its `parts` are needed."""
        if self._is_unusual(node):
            return None
        return live_node(node, now, self._thresholds, delay_seconds)

    def select_live(
        self, node_ids: Iterable[str], now: float, delay_seconds: float
    ) -> list[NodeState | None]:
        """Return the nodes of which `live` is more than `None`."""
        nodes = map(self._nodes.get, node_ids)
        found = select_live(nodes, now, self._thresholds, delay_seconds)
        return [None if node is None or self._is_unusual(node) else node for node in found]

    def _is_unusual(self, node: NodeState) -> bool:
        """Return whether its texts depend on other nodes, on the hub, or on all its GPUs."""
        return bool(
            self._faults
            or self._identities.twins(node.node_id)
            or (self._closings and self._closings_of(node))
            # Which free GPUs are kept for a booking depends on all GPUs of the node.
            or node.node_id in self._reservations
        )

    def view(self, node: NodeState, now: float, delay_seconds: float) -> NodeView:
        """Return the view of a node."""
        return self.build(self.parts(node, now, delay_seconds))

    def build(self, parts: NodeParts) -> NodeView:
        """Return the view of a node from its parts, or by its name alone after a bug."""
        node_id = parts.node.node_id
        try:
            view = build_node_view(parts)
        except Exception as error:  # noqa: BLE001  # one node must not hide the others
            self._unbuilt.add(node_id)
            self._faults.record("view", node_id, error)
            node = self._nodes.get(node_id)
            return parts.node if node is None else self._with_faults(bare_view(node))
        if node_id in self._unbuilt:
            self._unbuilt.discard(node_id)
            self._faults.clear("view", node_id)
        return view

    def set_closings(self, closings: Sequence[Closing]) -> None:
        """Show these closings; the nodes that they cover have changed, and those from before."""
        before, self._closings = self._closings, closings
        if closings == before:
            return
        changed = [
            each for each in (*before, *closings) if each not in before or each not in closings
        ]
        for node in list(self._nodes.values()):
            labels = node.labels
            if any(closing.covers(node.node_id, labels) for closing in changed):
                self._on_change(node.node_id)

    @property
    def has_closings(self) -> bool:
        """Whether there are closings at all."""
        return bool(self._closings)

    def closings_of(self, node_id: str) -> Sequence[Closing]:
        """Return the closings that cover a node, or one of its devices."""
        node = self._nodes.get(node_id) if self._closings else None
        return () if node is None else self._closings_of(node)

    def _closings_of(self, node: NodeState) -> list[Closing]:
        labels = node.labels
        return [each for each in self._closings if each.covers(node.node_id, labels)]

    def set_reservations(self, reservations: Mapping[str, Sequence[Reservation]]) -> None:
        """Show these bookings, by node id; the nodes whose bookings may differ have changed."""
        before, self._reservations = self._reservations, reservations
        for node_id in (before.keys() | reservations.keys()) & self._nodes.keys():
            self._on_change(node_id)

    def device_keys(self) -> set[tuple[str, str]]:
        """Return the node id and UUID of every GPU and instance, without building a view."""
        return {
            (node.node_id, uuid)
            for node in list(self._nodes.values())
            for gpu in node.gpus
            for uuid in (gpu.uuid, *[instance.uuid for instance in gpu.instances])
        }

    def home_of(self, node_id: str) -> NewHome | None:
        """Return what is known of a node to which a GPU may have moved; `None` if nothing is."""
        node = self._nodes.get(node_id)
        if node is None:
            return None
        has_credential = self._identities.has_credential(node_id)
        return NewHome(node.name, node.reported_uuids, node.at, has_credential)

    def _with_faults(self, view: NodeView) -> NodeView:
        """Return the view with faults of the hub among the troubles of the node."""
        texts = view.trouble, self._faults.message(view.node_id)
        return replace(view, trouble="; ".join(filter(None, texts)) or None)

    def _with_twins(self, parts: NodeParts, now: float) -> NodeParts:
        """Return the parts with a warning where another machine reports the same id now."""
        twins = self._identities.twins(parts.node.node_id)
        others = [self._nodes[other] for other in twins if other in self._nodes]
        running = [other for other in others if now <= other.silent_at(self._thresholds)]
        if not running or parts.node.silent:
            return parts
        is_clone = self._identities.is_clone(parts.node.node_id)
        return _with_shared_id_warning(parts, running, is_clone)


def _with_shared_id_warning(
    parts: NodeParts, others: Sequence[NodeState], is_clone: bool
) -> NodeParts:
    """Return the parts with a warning that other machines report the same id, and a remedy."""
    named = [_describe(other) for other in others[:_MAX_NAMED]]
    more = len(others) - len(named)
    names = ", ".join(named) + (f" and {more} more" if more else "")
    # The clone, never the first: to remove its entry would revoke the credential of both.
    where = "this machine" if is_clone else names
    old_ids = [parts.node.node_id] if is_clone else [each.node_id for each in others[:_MAX_NAMED]]
    via = parts.node.via if is_clone or others[0].via is None else others[0].via.source
    steps = JOIN_AS_NEW if via == "push" else NEW_MACHINE_ID
    if via not in ("push", "ssh"):
        steps += " and restart its agent"
    then = "Then, if this is a hub, run" if via == "ssh" else "Then run"
    removals = ", ".join([f"`fleet-smi nodes remove {old_id}`" for old_id in old_ids])
    message = (
        f"has the same machine-id as {names}: one is a clone of the other. On {where} run {steps}. "
        f"{then} {removals}"
    )
    trouble = "; ".join(filter(None, (message, parts.node.trouble)))
    return replace(parts, node=replace(parts.node, trouble=trouble))


def _describe(node: NodeState) -> str:
    """Return its name with an address: machines that share an id may share a name, too."""
    addresses = () if node.base is None else node.base.host.addresses
    return f"{node.name} ({addresses[0] if addresses else node.node_id})"
