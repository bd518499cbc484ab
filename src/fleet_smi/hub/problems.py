"""Problem report of the hub: a full disk, a history or nodes that cannot be saved."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from fleet_smi.model.hub_problems import HubProblem, ProblemKind
from fleet_smi.model.units import MIB, format_size

_MIN_FREE_BYTES = 64 * MIB
_SUMMARIES: dict[ProblemKind, str] = {
    "disk": "the disk of the hub is full",
    "history": "the history cannot be written; live data is not affected",
    "nodes": "nodes cannot be saved; a restart of the hub would lose what is new",
    "credentials": "tokens and users cannot be read; those read before are used",
    "remote_write": "figures do not reach the long-term store; live data is not affected",
    "otlp": "figures do not reach the OpenTelemetry receiver; live data is not affected",
    "cluster": "a part of the cluster cannot be seen; its nodes are shown as they were",
}
_REMEDIES: dict[ProblemKind, str] = {
    "disk": "free some space, or set hub.history_most to less",
    "history": "free space on its disk, or repair the database: the hub's log has more",
    "nodes": "free space on the disk of hub.state if it is full: the hub's log has more",
    "credentials": "check the disk of hub.state: the hub's log has more",
    "remote_write": "check hub.remote_write and its receiver: the hub's log has more",
    "otlp": "check hub.otlp and its receiver: the hub's log has more",
    "cluster": "check NATS (hub.cluster), the network between the hubs, and their clocks",
}

ReadError = Callable[[], str | None]
"""Return why something cannot be done now; `None` where it can."""


class ProblemReport:
    """The current problems of the hub, refreshed every second."""

    def __init__(
        self,
        folder: Path,
        errors: Mapping[ProblemKind, ReadError],
        clock: Callable[[], float],
    ) -> None:
        self._errors: dict[ProblemKind, ReadError] = {"disk": self._disk_error, **errors}
        self._folder = folder
        self._clock = clock
        self._problems: dict[ProblemKind, HubProblem] = {}

    def refresh(self) -> None:
        """Find the current problems. Blocking: it reads how much of the disk is free."""
        found: dict[ProblemKind, HubProblem] = {}
        for kind, read_error in self._errors.items():
            detail = read_error()
            if detail is not None:
                before = self._problems.get(kind)
                found[kind] = HubProblem(
                    kind=kind,
                    message=_SUMMARIES[kind],
                    detail=detail,
                    remedy=_REMEDIES[kind],
                    since=self._clock() if before is None else before.since,
                )
        # Replaced whole: the event loop reads it while this runs in a thread.
        self._problems = found

    def current(self) -> tuple[HubProblem, ...]:
        """Return the problems of this moment."""
        return tuple(self._problems.values())

    def current_kinds(self) -> frozenset[ProblemKind]:
        """Return the kinds of the problems of this moment."""
        return frozenset(self._problems)

    def _disk_error(self) -> str | None:
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError:
            return None  # not a full disk: what cannot be saved is a problem of its own
        return None if free >= _MIN_FREE_BYTES else f"{format_size(free)} are left"
