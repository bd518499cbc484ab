"""`/gpu_status`, `/cluster_status` and `/` of an agent: this machine as nvgpu's agent answers.

nvgpu's agent and master are one program: each agent is also a master that polls itself alone.
"""

from fleet_smi.config.settings import AgentSettings
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.serve import HTML_TYPE, AgentRoute

_SELF = "self"  # what an nvgpu master calls its own machine


# The codec is imported at the first request: most agents never get one and save the memory.
def _encode_gpu_status(snapshot: Snapshot) -> bytes:
    from fleet_smi.compat.nvgpu.codec import encode_gpu_status

    return encode_gpu_status(snapshot)


def _encode_cluster_status(snapshot: Snapshot) -> bytes:
    from fleet_smi.compat.nvgpu.codec import encode_cluster_status

    return encode_cluster_status([snapshot])


def _encode_page(snapshot: Snapshot) -> bytes:
    from fleet_smi.compat.nvgpu.codec import machine_status
    from fleet_smi.compat.nvgpu.page import render_page

    return render_page([(_SELF, machine_status(snapshot))]).encode()


ROUTES = (
    AgentRoute("GET", "/gpu_status", _encode_gpu_status),
    AgentRoute("GET", "/cluster_status", _encode_cluster_status),
    AgentRoute("GET", "/", _encode_page, content_type=HTML_TYPE),
)


def create_routes(_: AgentSettings) -> tuple[AgentRoute, ...]:
    """The routes; the agent's own token guards them, as it guards the report."""
    return ROUTES
