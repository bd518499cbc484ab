"""Format figures, durations, times and owners for HTML pages."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from fleet_smi.model.fleet import JudgedDevice
from fleet_smi.model.merge import all_processes
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner, owners
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import (
    MAX_SECONDS,
    UNKNOWN,
    format_elapsed,
    format_gib,
    format_size,
    pluralize,
)
from fleet_smi.model.verdict.readings import total_process_memory

_MAX_OWNERS = 2


class PageClock(Struct, frozen=True):
    """The time of the page, and the time zone of its readers."""

    now: float
    to_local_time: Callable[[float], datetime]

    def format_time(self, at: float) -> str:
        """Return a time of day, "14:06:11", or with the date "2026-03-04 14:06" if not today."""
        if not abs(at) < MAX_SECONDS:
            return UNKNOWN
        then, today = self.to_local_time(at), self.to_local_time(self.now)
        return f"{then:%H:%M:%S}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"

    def format_datetime(self, at: float) -> str:
        """Return date, time and zone: "2026-03-04 14:06:11 CET"."""
        return f"{self.to_local_time(at):%Y-%m-%d %H:%M:%S %Z}".strip()

    def format_age(self, at: float) -> str:
        """Return how long ago this was, as a duration."""
        return format_elapsed(self.now - at)


def format_percent(value: float | None) -> str:
    """Return a percentage, "96 %", or `UNKNOWN` for `None`."""
    return UNKNOWN if value is None else f"{value:.0f} %"


def gib_or_unknown(count: int | None) -> str:
    """Return memory in GiB, without the unit; `UNKNOWN` for `None`."""
    return UNKNOWN if count is None else format_gib(count)


def format_owners(part: JudgedDevice) -> str:
    """Return its owners in short: "alice", "alice, bob +1", "alice +1 unseen"; empty if none."""
    processes = _shown_processes(part) or ()
    users = owners(processes)
    hidden = sum(owner(process) == HIDDEN_USER for process in processes)
    shown = ", ".join(users[:_MAX_OWNERS])
    more = f" +{len(users) - _MAX_OWNERS}" if len(users) > _MAX_OWNERS else ""
    rest = f"{' +' if shown else ''}{hidden} unseen" if hidden else ""
    return f"{shown}{more}{rest}"


def usage_by_owner(part: JudgedDevice) -> list[tuple[str, str]]:
    """Return each owner, and what they hold: "15.8 GiB, 2 processes, 1 zombie"."""
    by_owner: dict[str, list[Process]] = {}
    for process in _shown_processes(part) or ():
        by_owner.setdefault(owner(process), []).append(process)
    held = [(_label(user), _holding(processes)) for user, processes in by_owner.items()]
    more = part.more_processes
    return [*held, ("not listed", pluralize(more, "process"))] if more else held


def _shown_processes(part: JudgedDevice) -> tuple[Process, ...] | None:
    """Return its processes and those of its instances; `None` if they cannot be read.

    Displays and services are left out, unless there are no others.
    """
    processes = tuple(all_processes(part)) if isinstance(part, Gpu) else part.processes
    if part.processes is None and not processes:
        return None
    return compute_or_all_processes({process.pid: process for process in processes or ()}.values())


def _label(user: str) -> str:
    return "unknown user" if user == HIDDEN_USER else user


def _holding(processes: list[Process]) -> str:
    memory = total_process_memory(processes)
    size = "memory unknown" if memory is None else format_size(memory)
    zombies = sum(process.condition == "zombie" for process in processes)
    dead = f", {pluralize(zombies, 'zombie')}" if zombies else ""
    return f"{size}, {pluralize(len(processes), 'process')}{dead}"
