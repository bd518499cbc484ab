"""GPUs that are offered to somebody in the queue: for everybody else they are not free."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fleet_smi.hub.queue.keeper import QueueKeeper
from fleet_smi.model.fleet import JudgedGpu, Verdict
from fleet_smi.model.queue.entries import QueueEntry
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.views import NodeParts


def hide_offered(
    nodes: Sequence[NodeParts], queue: QueueKeeper, person: str | None
) -> Sequence[NodeParts]:
    """Return the nodes with what is offered to others as leased, with that as the reason."""
    offered = {uuid: entry for uuid, entry in queue.offered_to().items() if entry.person != person}
    if not offered:
        return nodes
    ids = {entry.offer.node_id for entry in offered.values() if entry.offer is not None}
    return [_hide(parts, offered, queue) if parts.node.node_id in ids else parts for parts in nodes]


def _hide(parts: NodeParts, offered: Mapping[str, QueueEntry], queue: QueueKeeper) -> NodeParts:
    def judge(uuid: str, verdict: Verdict) -> Verdict:
        entry = offered.get(uuid)
        if entry is None or verdict.state != "free":
            return verdict
        left = queue.seconds_left(entry)
        reason = f"offered to {entry.person} for {left:.0f} s more"
        return replace(verdict, state="leased", reason=reason)

    gpus = [_with_verdict(gpu, judge(gpu.uuid, verdict)) for gpu, verdict in parts.gpus]
    verdicts = {uuid: judge(uuid, verdict) for uuid, verdict in parts.verdicts.items()}
    return replace(parts, gpus=tuple(gpus), verdicts=verdicts)


def _with_verdict(gpu: Gpu, verdict: Verdict) -> tuple[Gpu, Verdict]:
    if isinstance(gpu, JudgedGpu):
        gpu = replace(gpu, verdict=verdict)
    return gpu, verdict
