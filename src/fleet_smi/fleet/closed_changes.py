"""Closings in the history: what a report changes, with the devices that are closed as leased."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from fleet_smi.fleet.fleet_change import FleetChange
from fleet_smi.fleet.state_transition import StateTransition
from fleet_smi.model.closing import Closing, close_device, closings_by_device
from fleet_smi.model.verdict.hysteresis import Standing


class ClosedChanges:
    """Applies closings to changes; a closing that begins or ends changes the state as well."""

    def __init__(self) -> None:
        self._closed: dict[str, frozenset[str]] = {}  # free devices that were closed, by node id

    @property
    def has_any(self) -> bool:
        """Whether a free device was closed at the last report of its node."""
        return bool(self._closed)

    def apply(self, change: FleetChange, closings: Sequence[Closing]) -> FleetChange:
        """Return the change of a report, given the closings that cover its node."""
        node_id = change.node_id
        before = self._closed.get(node_id, frozenset())
        if change.is_late or not (closings or before):
            return change
        by_device = closings_by_device(change.sample.base.gpus, closings, change.at)
        closed = {
            uuid: _closed(standing, by_device[uuid], change.at)
            for uuid, standing in change.standings.items()
            if uuid in by_device and standing.verdict.state == "free"
        }
        if closed:
            self._closed[node_id] = frozenset(closed)
        else:
            self._closed.pop(node_id, None)
        standings = {**change.standings, **closed}
        changed = (closed.keys() ^ before) & standings.keys()
        transitions = [*change.transitions, *_transitions(changed, before, standings)]
        return replace(change, standings=standings, transitions=tuple(transitions))


def _closed(standing: Standing, closing: Closing, now: float) -> Standing:
    return replace(standing, verdict=close_device(standing.verdict, closing, now))


def _transitions(
    uuids: Iterable[str], before: frozenset[str], standings: dict[str, Standing]
) -> list[StateTransition]:
    return [
        StateTransition(
            uuid=uuid,
            before="leased" if uuid in before else "free",
            after=standings[uuid].verdict,
        )
        for uuid in sorted(uuids)
    ]
