"""What is believed of a node or a fleet, put together to be shown."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import asdict, replace

from fleet_smi.model.fleet import STATES, JudgedGpu, JudgedInstance, NodeView, Summary
from fleet_smi.model.settle import Standing
from fleet_smi.model.snapshot import Gpu, Snapshot
from fleet_smi.model.verdict import silenced


def node_view(
    snapshot: Snapshot, gpus: Iterable[Gpu], standings: Mapping[str, Standing]
) -> NodeView:
    """A node as it was when its snapshot came, its GPUs in the order of their indices."""
    judged = [_judged(gpu, standings) for gpu in gpus]
    return NodeView(
        node_id=snapshot.node_id,
        name=snapshot.name,
        taken_at=snapshot.taken_at,
        age_seconds=0.0,
        interval_seconds=snapshot.interval_seconds,
        sequence=snapshot.sequence,
        boot_id=snapshot.boot_id,
        agent_version=snapshot.agent_version,
        host=snapshot.host,
        runs=snapshot.runs,
        gpus=tuple(sorted(judged, key=lambda gpu: (gpu.index, gpu.uuid))),
    )


def silent_view(view: NodeView, age_seconds: float, since: float) -> NodeView:
    """A node that has not been heard of for too long: what it said last, and no verdict on it."""
    gpus = tuple([_silenced(gpu, age_seconds, since) for gpu in view.gpus])
    return replace(view, age_seconds=age_seconds, silent=True, gpus=gpus)


def summary_of(nodes: Iterable[NodeView]) -> Summary:
    """The strip of truth over these nodes."""
    nodes = tuple(nodes)
    states = Counter([gpu.verdict.state for node in nodes for gpu in node.gpus])
    return Summary(
        gpus=states.total(),
        nodes=len(nodes),
        nodes_reporting=sum(not node.silent for node in nodes),
        **{state: states[state] for state in STATES},
    )


def _judged(gpu: Gpu, standings: Mapping[str, Standing]) -> JudgedGpu:
    fields = asdict(gpu)
    if gpu.instances:
        fields["instances"] = tuple(
            JudgedInstance(**asdict(part), verdict=standings[part.uuid].verdict)
            for part in gpu.instances
        )
    return JudgedGpu(**fields, verdict=standings[gpu.uuid].verdict)


def _silenced(gpu: JudgedGpu, seconds: float, since: float) -> JudgedGpu:
    parts = tuple(
        replace(part, verdict=silenced(part.verdict, part, seconds, since))
        for part in gpu.instances
    )
    return replace(gpu, verdict=silenced(gpu.verdict, gpu, seconds, since), instances=parts)
