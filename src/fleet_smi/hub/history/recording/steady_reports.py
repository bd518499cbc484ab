"""Reports in which only figures differ from the one before: recorded without comparing anything."""

from collections.abc import Mapping

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.node_state import NodeState
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.sample_spacing import SampleSpacing


class SteadyReports:
    """Records steady reports of the nodes that have these recorders."""

    def __init__(
        self, fleet: FleetState, recorders: Mapping[str, NodeRecorder], spacing: SampleSpacing
    ) -> None:
        self._fleet = fleet
        self._recorders = recorders
        self._spacing = spacing

    def try_record(self, node: NodeState) -> bool:
        """Record the latest report of a node; return false where `HistoryRecorder.record` must."""
        recorder, spacing = self._recorders.get(node.node_id), self._spacing
        if recorder is None or not recorder.try_buffer_figures(
            node.at, node.latest, node.reported_uuids, spacing.seconds, self._fleet.delay_seconds
        ):
            return False
        spacing.reports += 1
        return True
