"""A fleet that cannot be asked any more: what was last known of it, as old as that is now."""

from msgspec.structs import replace

from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView
from fleet_smi.model.verdict.judge import apply_silence
from fleet_smi.model.views import summarize_nodes


def mark_all_silent(view: FleetView, elapsed_seconds: float) -> FleetView:
    """The view, so much later, with every node silent: none of its GPUs is known to be free."""
    now = view.taken_at + elapsed_seconds
    nodes = tuple(_silent(node, elapsed_seconds, now) for node in view.nodes)
    return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=nodes)


def _silent(node: NodeView, later_seconds: float, now: float) -> NodeView:
    if node.age_seconds is None:
        return node
    age = node.age_seconds + later_seconds
    gpus = node.gpus if node.silent else tuple(_gpu(gpu, age, now - age) for gpu in node.gpus)
    return replace(node, age_seconds=age, silent=True, gpus=gpus)


def _gpu(gpu: JudgedGpu, age: float, since: float) -> JudgedGpu:
    instances = tuple(_instance(one, age, since) for one in gpu.instances)
    return replace(gpu, verdict=apply_silence(gpu.verdict, gpu, age, since), instances=instances)


def _instance(one: JudgedInstance, age: float, since: float) -> JudgedInstance:
    return replace(one, verdict=apply_silence(one.verdict, one, age, since))
