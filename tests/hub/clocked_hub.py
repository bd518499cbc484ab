"""A hub whose clock a test sets, with its history in memory."""

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from tests.hub.history.in_memory_history import InMemoryHistory


class ClockedHub:
    """A hub that has just started, at `now` by its clock."""

    def __init__(
        self, memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, now: float
    ) -> None:
        self.now = now
        self.elapsed = 0.0
        self.stored = stored
        self.fleet = FleetState()
        self.history = HistoryRecorder(self.fleet, stored)
        self.hub = Hub(
            self.fleet,
            [],
            memory,
            self.history,
            clock=lambda: self.now,
            elapsed_clock=lambda: self.elapsed,
        )
        self.hub._restore()

    def pass_time(self, seconds: float) -> None:
        """Let time pass without a report."""
        self.now += seconds
        self.elapsed += seconds

    def set_clock(self, step: float) -> None:
        """Set the clock by some seconds, in no time."""
        self.now += step
