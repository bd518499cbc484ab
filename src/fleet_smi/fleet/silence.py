"""Silence checks: finds the nodes whose reports have stopped, a part of a large fleet at a time."""

from collections.abc import Callable, Mapping
from math import inf

from fleet_smi.fleet.node_state import NodeState
from fleet_smi.model.rotation import Rotation
from fleet_smi.model.verdict.thresholds import Thresholds

# A tick looks at this part of a large fleet; the hub ticks several times a second.
_PARTS = 10


class SilenceChecks:
    """Calls `mark_dirty` for each of the nodes that has become silent."""

    def __init__(
        self,
        nodes: Mapping[str, NodeState],
        thresholds: Thresholds,
        mark_dirty: Callable[[str], None],
    ) -> None:
        self._nodes = nodes
        self._thresholds = thresholds
        self._mark_dirty = mark_dirty
        self._rotation = Rotation[NodeState](_PARTS)

    def tick(self, now: float, delay_seconds: float, delay_before: float) -> None:
        """Check a part of the nodes; their reports may be late by `delay_seconds`."""
        if delay_seconds > delay_before:
            # Nodes that were silent may not be any more, and then become so again.
            for node in self._nodes.values():
                if node.wake_at == inf and node.sample is not None:
                    node.wake_at = node.silent_at(self._thresholds)
                    self._mark_dirty(node.node_id)
        for node in self._rotation.next(self._nodes):
            if node.wake_at < now - delay_seconds and node.node_id in self._nodes:
                node.wake_at = inf  # once per silence: the next report sets it again
                self._mark_dirty(node.node_id)
