"""Reports in which only figures differ from the one before: applied without making a snapshot."""

from collections.abc import Callable, Mapping
from math import isfinite

from fleet_smi.fleet.fleet_change import FleetChange, node_change
from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.fleet.via import Via
from fleet_smi.model.snapshot_figures import SnapshotFigures, with_figures
from fleet_smi.model.verdict.thresholds import Thresholds

# A larger step back is no error of an age: the windows restart.
MAX_AGE_ERROR_SECONDS = 3600.0


class FigureReports:
    """Applies figures to the nodes of one fleet.

    Nearly all reports of a fleet are such. `apply_snapshot` is that of the fleet, for those that
    are more than the next one of their node; `mark_applied` is called for the others.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeState],
        thresholds: Thresholds,
        apply_snapshot: Callable[..., FleetChange | None],
        mark_applied: Callable[[str], None],
    ) -> None:
        self.nodes = nodes
        self._thresholds = thresholds
        self._apply_snapshot = apply_snapshot
        self._mark_applied = mark_applied

    def base(self, node_id: str) -> NodeSample | None:
        """Return what the next figures of a node build on, if it has reported."""
        node = self.nodes.get(node_id)
        return None if node is None else node.sample

    def apply(
        self,
        node_id: str,
        figures: SnapshotFigures,
        at: float,
        via: Via | None = None,
        *,
        address: str | None = None,
        is_recorded: bool = True,
    ) -> FleetChange | None:
        """Apply figures that were read at `at`; `None` when they are a duplicate or out of date.

        They are of as many GPUs, instances and processes as the `base` has.
        """
        node = self.nodes.get(node_id)
        if node is None or node.sample is None:
            return None
        if not is_recorded or not _is_plain(node, node.sample, figures, at, via):
            snapshot = with_figures(node.sample.base, figures)
            return self._apply_snapshot(snapshot, at, via, address=address, is_recorded=is_recorded)
        if 0 < node.at - at <= MAX_AGE_ERROR_SECONDS:
            at = node.at  # as in `FleetState.apply`
        node.address = address
        transitions = node.update_figures(figures, at, self._thresholds)
        self._mark_applied(node_id)
        return node_change(node, via, transitions)


def _is_plain(
    node: NodeState, sample: NodeSample, figures: SnapshotFigures, at: float, via: Via | None
) -> bool:
    """Add the number of figures, and return whether nothing else of their node is to be updated."""
    run_id = sample.base.run_id
    return (
        run_id is not None
        and figures.sequence > sample.sequence
        and not node.inventory.missing
        and node.unrecorded_since is None
        and (via is None or (via == node.via and via in node.vias and not node.failures))
        and isfinite(figures.taken_at)
        and isfinite(at)
        # Last: where it is false, the number must not have been added.
        and node.sequences.add(run_id, figures.sequence)
    )
