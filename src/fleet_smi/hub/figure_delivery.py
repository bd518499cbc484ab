"""Delivery of figures: the short way for compact reports of a node that is known already.

Which node a report is of, and by which route, follows from its last full report. While nothing but
figures of that node changes it is not looked up again: that would be most of a report's cost.
"""

from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.fleet.machines import Machine, report_key
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.fleet.via import Via
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.model.verdict.judge import silence_timeout

if TYPE_CHECKING:
    from fleet_smi.hub.hub import Hub


class FigureRoute(NamedTuple):
    """What is known of the sender of compact reports, since a revision of its node's facts."""

    node: NodeState
    revision: int
    machine: Machine
    machine_key: tuple[object, ...]
    via: Via
    timeout: float | None


class FigureDelivery:
    """Applies figures that nodes push with credentials of their own."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self._fleet = hub.fleet
        self._nodes = hub.fleet.figure_reports.nodes
        self._routes: dict[str, FigureRoute] = {}

    def route(self, node_id: str) -> FigureRoute | None:
        """Return the route of a node's figures; `None` where they need all checks."""
        route, node = self._routes.get(node_id), self._nodes.get(node_id)
        if node is None:
            self._routes.pop(node_id, None)
            return None
        if route is None or route.node is not node or route.revision != node.facts_revision:
            route = self._find(node)
            if route is None:
                return None
            self._routes[node_id] = route
        # Another machine may have reported the same id meanwhile. Identity, because a comparison
        # of all that is in a key would cost most of this.
        machine = route.machine
        is_same = machine.key is route.machine_key and machine.rival is None
        return route if is_same else None

    def apply(
        self, route: FigureRoute, figures: SnapshotFigures, age_seconds: float, address: str | None
    ) -> None:
        """Apply figures that build on the latest sample of the route's node, like `Hub.deliver`."""
        hub, node_id = self._hub, route.node.node_id
        try:
            at = hub.read_clock() - age_seconds
            route.machine.observe(at, route.timeout)
            hub.reports_received += 1
            is_recorded = hub.is_recorded(node_id, route.via)
            change = self._fleet.figure_reports.apply(
                node_id, figures, at, route.via, address=address, is_recorded=is_recorded
            )
            hub.outputs.pass_on(change, is_recorded=is_recorded)
        except Exception as error:  # noqa: BLE001  # one node must not stop the others
            self._fleet.faults.record("report", node_id, error)
        hub.record_success(route.via)

    def _find(self, node: NodeState) -> FigureRoute | None:
        """Find the route of a node whose last report came by push, from a machine of its own."""
        via, base = node.via, node.base
        if via is None or base is None or via != Via("push", node.node_id) or node.failures:
            return None
        key, identities = report_key(base, via, None), self._fleet.identities
        machine = identities.known_machine(key)
        if machine is None or machine.node_id != node.node_id or identities.twins(node.node_id):
            return None
        if machine.key != key:
            return None
        timeout = silence_timeout(base.interval_seconds, self._fleet.thresholds)
        return FigureRoute(node, node.facts_revision, machine, machine.key, via, timeout)
