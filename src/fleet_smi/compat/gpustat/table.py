"""The fleet as gpustat prints it, one node after the other, in the viewer's local time."""

from fleet_smi.compat.gpustat.codec import GpustatOptions, fleet_text, nodes_json
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.terminal.view.formatting import ToLocalTime, to_local_time

DATE_FORMAT = "%a %b %e %H:%M:%S %Y"


def render(view: FleetView, options: GpustatOptions, local: ToLocalTime = to_local_time) -> str:
    """Render each node as `gpustat` prints it, or the reason why it is silent."""
    return fleet_text(
        view, lambda node: local(_received_at(node, view)).strftime(DATE_FORMAT), options
    )


def render_status(view: FleetView, *, colour: bool) -> str:
    """Render what `gpustat -cup` prints, for `fleet-smi status --format gpustat`."""
    return render(view, GpustatOptions(command=True, user=True, pid=True, colour=colour))


def render_json(view: FleetView, local: ToLocalTime = to_local_time) -> str:
    """Render the nodes as `gpustat --json` prints them; silent ones are left out."""
    reporting = [
        (node, local(_received_at(node, view)).replace(tzinfo=None).isoformat())
        for node in view.nodes
        if not node.silent
    ]
    return nodes_json(reporting).decode()


def _received_at(node: NodeView, view: FleetView) -> float:
    # By the clock of the view, not by that of the node, which may be wrong.
    return view.taken_at - (node.age_seconds or 0.0)
