"""The ribbon while it is recorded: how many GPUs are in which state, once per minute."""

from collections import Counter
from collections.abc import Collection
from math import inf

from fleet_smi.hub.history.recording.node_recorder import NodeRecorder
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.history import RibbonPoint

_MINUTE = 60


class RibbonCounter:
    """The GPUs of a fleet by state; updated as they change, because counting all takes long."""

    def __init__(self) -> None:
        self._states = Counter[State]()
        self._minute = -inf

    def count(self, previous: tuple[State, ...], current: tuple[State, ...]) -> None:
        """Count the GPUs of one node by their current states instead of the previous ones."""
        if current != previous:
            self._states.subtract(previous)
            self._states.update(current)

    def next_point(self, now: float, recorders: Collection[NodeRecorder]) -> list[RibbonPoint]:
        """The point of this minute, unless it was returned before."""
        minute = now // _MINUTE * _MINUTE
        if minute == self._minute:
            return []
        self._minute = minute
        point = RibbonPoint(
            at=minute,
            nodes=len(recorders),
            nodes_reporting=sum([not node.silent for node in recorders]),
            gpus={state: float(self._states[state]) for state in STATES},
        )
        return [point]
