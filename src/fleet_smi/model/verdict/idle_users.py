"""Idle users of a shared GPU: who has done nothing while somebody else works on it."""

from collections.abc import Sequence

from fleet_smi.model.people import HIDDEN_USER, owner
from fleet_smi.model.snapshot import Process
from fleet_smi.model.verdict.process_group import without_services
from fleet_smi.model.verdict.readings import is_display, valid_percent
from fleet_smi.model.verdict.thresholds import Thresholds

IdleUsers = tuple[tuple[str, float], ...]
"""Users, and since when each of them has been idle."""


def track_idle_users(
    before: IdleUsers, processes: Sequence[Process], at: float, thresholds: Thresholds
) -> IdleUsers:
    """Return who is idle by the utilisation of their own processes, each since when.

    A driver lists utilisation for the processes that did something, so one without a figure
    beside one with a figure is idle. Where it lists none at all, nothing new is known.
    """
    active: set[str] = set()
    users: set[str] = set()
    measured = False
    for process in without_services(processes):
        if is_display(process):
            continue
        user, percent = owner(process), valid_percent(process.busy_percent)
        users.add(user)
        measured = measured or percent is not None
        if percent is not None and percent >= thresholds.noise_percent:
            active.add(user)
    if not measured:
        return tuple([entry for entry in before if entry[0] in users])
    known = dict(before)
    idle = users - active - {HIDDEN_USER}
    return tuple([(user, known.get(user, at)) for user in sorted(idle)])
