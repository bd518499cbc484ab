"""State transitions: what a sample that was judged in full changes in the state of devices."""

from collections.abc import Mapping

from msgspec import Struct

from fleet_smi.model.fleet import State, Verdict
from fleet_smi.model.verdict.hysteresis import Standing
from fleet_smi.model.verdict.live_standing import LiveStanding


class StateTransition(Struct, frozen=True, kw_only=True, gc=False):
    """A change of state of a GPU or instance; `before` is `None` for a new one."""

    uuid: str
    before: State | None
    after: Verdict


def judged_changes(
    judged: Mapping[str, Standing | None], after: Mapping[str, LiveStanding]
) -> tuple[tuple[StateTransition, ...], list[str]]:
    """Return the transitions of devices, and the UUIDs of those whose occupancy has changed.

    `judged` has the standing of each before, `None` for a new one.
    """
    transitions, occupancy_changed = list[StateTransition](), list[str]()
    for uuid, previous in judged.items():
        standing = after[uuid].judged
        # An unchanged summary is reused, so identity is enough and costs next to nothing.
        if (
            previous is None
            or previous.group is not standing.group
            or previous.ended is not standing.ended
            or previous.window.lease_holder != standing.window.lease_holder
        ):
            occupancy_changed.append(uuid)
        state, verdict = None if previous is None else previous.verdict.state, standing.verdict
        if state != verdict.state:
            transitions.append(StateTransition(uuid=uuid, before=state, after=verdict))
    return tuple(transitions), occupancy_changed
