"""A node for readers that keep what they made of it, and make again only what has changed."""

from collections.abc import Sequence
from typing import NamedTuple

from fleet_smi.fleet.clock_watch import is_clock_wrong
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.model.verdict.thresholds import Thresholds


class LiveNode(NamedTuple):
    """What a node had at one moment, without a snapshot or the text of a verdict.

    While `facts` is the same, nothing differs but figures and verdicts. While the mark of a GPU
    is the same, and not `None`, its verdict differs only in figures that its reason has.
    `reported_at` is when the latest sample was taken, by the hub's clock.
    """

    node: NodeState
    facts: tuple[int, bool]
    marks: Sequence[int | None]
    figures: SnapshotFigures
    reported_at: float
    memory_total_bytes: int | None

    @property
    def is_clock_wrong(self) -> bool:
        """Whether its own clock differs so much that this is a warning."""
        return self.facts[1]

    @property
    def order(self) -> list[int]:
        """The positions of its GPUs in the sample, sorted by index as they are shown."""
        gpus = self.node.latest.base.gpus
        return sorted(range(len(gpus)), key=lambda at: (gpus[at].index, gpus[at].uuid))

    def judged_gpu(self, position: int) -> tuple[Gpu, Verdict]:
        """Return one GPU, by its position in the sample, and the verdict on it."""
        return self.node.standings.judged_gpu(position)


def live_node(
    node: NodeState, now: float, thresholds: Thresholds, delay_seconds: float
) -> LiveNode | None:
    """Return a node that has all its GPUs and is not silent; `None` for any other."""
    sample = node.sample
    if sample is None or node.inventory.missing or now - delay_seconds > node.silent_at(thresholds):
        return None
    return LiveNode(
        node,
        (node.facts_revision, is_clock_wrong(node.at - sample.taken_at)),
        node.standings.marks(),
        sample.figures,
        min(node.at, now),
        sample.base.host.memory_total_bytes,
    )
