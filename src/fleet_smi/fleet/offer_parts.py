"""Parts of a node for an offer: its GPUs by state, with no more figures than a choice needs.

Most GPUs of a large fleet are not free. What they read now, and the text of the verdict on them,
is not needed to choose among the others, and is most of the work of making a view.
"""

from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.views import NodeParts


def offer_parts(live: LiveNode, now: float) -> NodeParts | None:
    """Return a node in parts; `None` if it has MIG instances, whose states are not kept here.

    Each GPU has its current state, and a free one the memory and the temperature of the latest
    sample. Other figures, and the texts of verdicts, may be older.
    """
    node, judged = live.node, live.node.standings.latest_states()
    if not judged:
        return None
    view = NodeView(
        node_id=node.node_id,
        name=node.name,
        taken_at=live.figures.taken_at,
        age_seconds=max(0.0, now - node.at),
        silent=False,
        ssh_host=node.ssh_host,
        labels=node.labels,
    )
    return NodeParts(node=view, gpus=tuple([judged[position] for position in live.order]))
