"""The words of the page: figures, lengths of time, moments, people."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from fleet_smi.model.fleet import JudgedDevice
from fleet_smi.model.merge import all_processes
from fleet_smi.model.people import HIDDEN_USER, compute_or_all_processes, owner, owners
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.units import format_duration, format_gib, format_size
from fleet_smi.model.verdict.readings import total_process_memory

UNKNOWN = "–"
_FOREVER_SECONDS = 4e9  # no clock of ours is beyond the year 2096
_NAMES = 2


class PageClock(Struct, frozen=True):
    """When the page is made, and how its readers write a moment."""

    now: float
    to_local_time: Callable[[float], datetime]

    def format_time(self, at: float) -> str:
        """A moment: "14:06:11", with its day where that is another one."""
        if not abs(at) < _FOREVER_SECONDS:
            return UNKNOWN
        then, today = self.to_local_time(at), self.to_local_time(self.now)
        return f"{then:%H:%M:%S}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"

    def format_datetime(self, at: float) -> str:
        """A moment with its day and zone: "2026-03-04 14:06:11 CET"."""
        return f"{self.to_local_time(at):%Y-%m-%d %H:%M:%S %Z}".strip()

    def format_age(self, at: float) -> str:
        """How long ago a moment was."""
        return duration_or_unknown(self.now - at)


def duration_or_unknown(seconds: float | None) -> str:
    """A length of time; unknown where no clock could give it."""
    if seconds is None or not abs(seconds) < _FOREVER_SECONDS:
        return UNKNOWN
    return format_duration(seconds)


def pluralize(count: int, noun: str) -> str:
    """ "1 node", "3 nodes"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}es" if noun.endswith("s") else f"{count} {noun}s"


def format_percent(value: float | None) -> str:
    """A share: "96 %"."""
    return UNKNOWN if value is None else f"{value:.0f} %"


def gib_or_unknown(count: int | None) -> str:
    """Memory in GiB, without the unit."""
    return UNKNOWN if count is None else format_gib(count)


def all_compute_processes(part: JudgedDevice) -> tuple[Process, ...] | None:
    """Who computes there, on its instances too; `None` where that cannot be read."""
    everyone = tuple(all_processes(part)) if isinstance(part, Gpu) else part.processes
    if part.processes is None and not everyone:
        return None
    return compute_or_all_processes({one.pid: one for one in everyone or ()}.values())


def format_owners(part: JudgedDevice) -> str:
    """The people on it in few words: "alice", "alice, bob +1", "alice +1 unseen"."""
    processes = all_compute_processes(part) or ()
    users = owners(processes)
    unseen = sum(owner(process) == HIDDEN_USER for process in processes)
    shown = ", ".join(users[:_NAMES])
    more = f" +{len(users) - _NAMES}" if len(users) > _NAMES else ""
    hidden = f"{' +' if shown else ''}{unseen} unseen" if unseen else ""
    return f"{shown}{more}{hidden}"


def usage_by_owner(part: JudgedDevice) -> list[tuple[str, str]]:
    """Each person on it, and what they have there: "15.8 GiB, 2 processes, 1 a zombie"."""
    theirs: dict[str, list[Process]] = {}
    for process in all_compute_processes(part) or ():
        theirs.setdefault(owner(process), []).append(process)
    return [(_called(user), _holding(each)) for user, each in theirs.items()]


def _called(user: str) -> str:
    return "not visible" if user == HIDDEN_USER else user


def _holding(processes: list[Process]) -> str:
    memory = total_process_memory(processes)
    size = "memory unknown" if memory is None else format_size(memory)
    zombies = sum(process.condition == "zombie" for process in processes)
    dead = f", {zombies} a zombie" if zombies else ""
    return f"{size}, {pluralize(len(processes), 'process')}{dead}"
