"""The history recorder of a hub in a cluster: nodes come and go as other hubs claim them."""

from collections import Counter
from collections.abc import Callable, Collection
from math import inf
from typing import NamedTuple

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.cluster.fleet import ClusterFleet
from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.restore import restore_recorders
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.fleet import STATES
from fleet_smi.model.history import RibbonPoint


class LoadedRecorders(NamedTuple):
    """Recorders that were read from the database, and the nodes whose could not be."""

    recorders: list[NodeRecorder]
    failures: list[tuple[str, Exception]]


class ClusterRecorder(HistoryRecorder):
    """Records the nodes that this hub owns, and as the leader the ribbon of the whole fleet."""

    def __init__(
        self, fleet: FleetState, writer: HistoryWriter, is_leader: Callable[[], bool]
    ) -> None:
        super().__init__(fleet, writer)
        self._writer = writer
        self._is_leader = is_leader

    def load(self, node_ids: Collection[str]) -> LoadedRecorders:
        """Read what other hubs have recorded of these nodes; raise `StateError`. Blocking."""
        failures: list[tuple[str, Exception]] = []
        recorders = restore_recorders(
            self._writer.checkpoints_of(node_ids),
            self._writer.unfinished_rows,
            self._fleet.thresholds,
            lambda node_id, error: failures.append((node_id, error)),
        )
        return LoadedRecorders(recorders, failures)

    def adopt(self, loaded: LoadedRecorders) -> None:
        """Continue nodes that another hub has recorded until now."""
        for node_id, error in loaded.failures:
            self._faults.record(node_id, error)
        for recorder in loaded.recorders:
            self.release(recorder.node_id)
            self._recorders[recorder.node_id] = recorder

    def release(self, node_id: str) -> None:
        """Record no more of a node. What is open of it is its next owner's to close."""
        self._late.pop(node_id, None)
        recorder = self._recorders.pop(node_id, None)
        if recorder is not None:
            self._ribbon.count(recorder.states, ())
            self._descriptions.forget(node_id)
        self.unsaved.discard(node_id)

    def flush(self) -> None:
        """Queue the current batch; of the points of the ribbon, only those of the leader."""
        if self._batch.moments:
            is_leader = self._is_leader()
            self._batch.moments = (
                [self._whole_fleet(point) for point in self._batch.moments] if is_leader else []
            )
        super().flush()

    def _whole_fleet(self, point: RibbonPoint) -> RibbonPoint:
        fleet = self._fleet
        if not isinstance(fleet, ClusterFleet) or self._now == -inf:
            return point
        states, nodes, reporting = fleet.states(self._now)
        counts = Counter(states)
        gpus = {state: float(counts[state]) for state in STATES}
        return RibbonPoint(at=point.at, nodes=nodes, nodes_reporting=reporting, gpus=gpus)
