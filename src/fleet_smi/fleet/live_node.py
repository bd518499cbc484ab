"""A node for readers that keep what they made of it, and make again only what has changed."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from fleet_smi.fleet.clock_watch import is_clock_wrong
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.model.fleet import Verdict
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.snapshot_figures import SnapshotFigures
from fleet_smi.model.verdict.thresholds import Thresholds


class LiveNode:
    """The state of a node at one moment, without a snapshot or the text of a verdict.

    While `facts` is the same, nothing differs but figures and verdicts. `reported_at` is when the
    latest sample was taken, by the hub's clock.
    """

    __slots__ = ("_marks", "facts", "node", "reported_at")

    def __init__(self, node: NodeState, facts: tuple[int, bool], reported_at: float) -> None:
        self.node = node
        self.facts = facts
        self.reported_at = reported_at
        self._marks: Sequence[int | None] | None = None

    @property
    def marks(self) -> Sequence[int | None]:
        """A mark of each GPU: while it is the same, its verdict differs only in figures.

        `None` where that cannot be said.
        """
        if self._marks is None:
            self._marks = self.node.standings.marks()
        return self._marks

    @property
    def figures(self) -> SnapshotFigures:
        """The figures of the latest sample."""
        return self.node.latest.figures

    def column(self, position: int) -> Sequence[Any]:
        """One figure of each GPU, by its position among them, as those of `figures` are."""
        columns = self.node.standings.current_columns
        return self.figures.gpus[position] if columns is None else columns.column(position)

    @property
    def memory_total_bytes(self) -> int | None:
        """The memory of its machine."""
        return self.node.latest.base.host.memory_total_bytes

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


def node_facts(node: NodeState) -> tuple[int, bool]:
    """Return the `facts` of a live node."""
    return node.facts_revision, is_clock_wrong(node.at - node.latest.taken_at)


def select_live(
    nodes: Iterable[NodeState | None], now: float, thresholds: Thresholds, delay_seconds: float
) -> list[NodeState | None]:
    """Return each node that has all its GPUs and is not silent, `None` in the place of others."""
    latest = now - delay_seconds
    return [
        node
        if node is not None
        and node.sample is not None
        and not node.inventory.missing
        # Where it is not infinite, `wake_at` is when it becomes silent, and known already.
        and latest <= (node.silent_at(thresholds) if node.wake_at == inf else node.wake_at)
        else None
        for node in nodes
    ]


def live_node(
    node: NodeState, now: float, thresholds: Thresholds, delay_seconds: float
) -> LiveNode | None:
    """Return a node that has all its GPUs and is not silent; `None` for any other."""
    (live,) = select_live((node,), now, thresholds, delay_seconds)
    return None if live is None else LiveNode(live, node_facts(live), min(live.at, now))
