"""Nodes that can no longer be reached: their last known state, aged and silent."""

from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.verdict.judge import apply_silence
from fleet_smi.model.views import summarize_nodes


def mark_all_silent(view: FleetView, elapsed_seconds: float) -> FleetView:
    """Age the view and mark every node as silent, so that none of its GPUs counts as free."""
    now = view.taken_at + elapsed_seconds
    nodes = tuple(mark_silent(node, elapsed_seconds, now) for node in view.nodes)
    return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=nodes)


def mark_silent(node: NodeView, elapsed_seconds: float, now: float) -> NodeView:
    """Age a node to `now` and mark it as silent; one that never reported stays as it is."""
    if node.age_seconds is None:
        return node
    age = node.age_seconds + elapsed_seconds
    # Silence is applied once: a second time would replace the last known state by "unknown".
    gpus = node.gpus if node.silent else tuple(_gpu(gpu, age, now - age) for gpu in node.gpus)
    return replace(node, age_seconds=age, silent=True, gpus=gpus)


def _gpu(gpu: JudgedGpu, age: float, since: float) -> JudgedGpu:
    instances = tuple(_instance(instance, age, since) for instance in gpu.instances)
    return replace(gpu, verdict=apply_silence(gpu.verdict, gpu, age, since), instances=instances)


def _instance(instance: JudgedInstance, age: float, since: float) -> JudgedInstance:
    verdict = apply_silence(instance.verdict, instance, age, since)
    return replace(instance, verdict=verdict)
