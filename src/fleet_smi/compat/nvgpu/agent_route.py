"""`GET /gpu_status` of an agent: this machine as nvgpu's agent reports it to its masters."""

from fleet_smi.config.settings import AgentSettings
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.serve import AgentRoute


def _encode(snapshot: Snapshot) -> bytes:
    # Imported at the first request: most agents never get one and save the memory.
    from fleet_smi.compat.nvgpu.codec import encode_gpu_status

    return encode_gpu_status(snapshot)


GPU_STATUS_ROUTE = AgentRoute("GET", "/gpu_status", _encode)


def create_route(_: AgentSettings) -> AgentRoute:
    """The route; the agent's own token guards it, as it guards the report."""
    return GPU_STATUS_ROUTE
