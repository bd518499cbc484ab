"""Occupancies joined to jobs: the processes of one user and command at one time, wherever."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from zlib import crc32

from fleet_smi.hub.history.queries.advice import advice
from fleet_smi.model.history import GpuOccupancies, Job, JobPart
from fleet_smi.model.people import HIDDEN_USER
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.usage_report import add_sums

RESTART_WINDOW_SECONDS = 60.0
"""A command that begins again so soon after its end was restarted."""
_FOREVER = float("inf")
_REMEMBERED = 4096
JobKey = tuple[str, ...]

# What differs between the workers of one job: ranks, ports, addresses, file descriptors.
_VOLATILE = re.compile(
    r"--?(?:(?:local|node|global|machine|worker)?[-_]?rank"
    r"|(?:node|worker|replica|process|task|shard)[-_](?:index|id|idx)"
    r"|(?:[a-z_-]+[-_])?port"
    r"|rdzv[-_]endpoint|master[-_]addr|node[-_]ip[-_]address|dist[-_]url|init[-_]method)",
    re.IGNORECASE,
)
_HINTS = ("rank", "index", "id", "port", "endpoint", "addr", "url", "method")
"""Without one of these no flag of a command is volatile."""
# It begins with the same character wherever it matches: that is looked for quickly.
_NUMBERED = re.compile(r"(_(?:(?<=pipe_)handle=|(?<=tracker_)fd=|(?<=parent_)pid=|TP|PP|DP|EP))\d+")
_FORKED = "--multiprocessing-fork"


def group_jobs(occupancies: Iterable[GpuOccupancies]) -> tuple[Job, ...]:
    """The jobs that these occupancies are parts of, the latest first."""
    alike: dict[JobKey, list[JobPart]] = {}
    for each in occupancies:
        for occupancy in each.occupancies:
            part = JobPart(gpu=each.gpu, occupancy=occupancy)
            alike.setdefault(_key(part), []).append(part)
    every = [_job(key, parts) for key, theirs in alike.items() for parts in _runs(key, theirs)]
    every.sort(key=attrgetter("id"))
    every.sort(key=attrgetter("start"), reverse=True)
    return tuple(every)


def job_start(job_id: str) -> float | None:
    """When the job of that id began, to the second; `None` for what is no id."""
    head, dash, _ = job_id.partition("-")
    return float(int(head, 16)) if dash and re.fullmatch("[0-9a-f]{1,10}", head) else None


@lru_cache(_REMEMBERED)
def normalize_command(command: str) -> str:
    """A command without what differs between the workers of one job."""
    if any(map(command.lower().__contains__, _HINTS)):
        command = " ".join(_without_values(command.split()))
    return _NUMBERED.sub(r"\1*", command)


def _without_values(words: Iterable[str]) -> Iterator[str]:
    """The words of a command with a star for the value of each volatile flag."""
    awaits = False
    for word in words:
        flag, _, value = word.partition("=")
        is_flag = word[0] == "-"
        if is_flag and value and _is_volatile(flag):
            yield from (flag, "*")
        else:
            yield "*" if awaits and not is_flag else word
        awaits = is_flag and not value and _is_volatile(flag)


@lru_cache(_REMEMBERED)
def _is_volatile(flag: str) -> bool:
    return _VOLATILE.fullmatch(flag) is not None


def _key(part: JobPart) -> JobKey:
    """What parts of one job have in common."""
    holder = part.occupancy.holder
    if holder.slurm_job:
        return "slurm", holder.user, holder.slurm_job
    if not holder.command or holder.user == HIDDEN_USER:
        return "process", holder.user, part.gpu.node_id, str(holder.pid), str(holder.started_at)
    # A bare "python" on two nodes need not be one job.
    anywhere = " " in holder.command and _FORKED not in holder.command
    node_id = "" if anywhere else part.gpu.node_id
    return "command", holder.user, node_id, normalize_command(holder.command)


def _runs(key: JobKey, parts: list[JobPart]) -> Iterator[list[JobPart]]:
    """Parts that overlap in time, or follow each other as a restart does; in order."""
    if len(parts) == 1:
        yield parts
        return
    slack = _FOREVER if key[0] == "slurm" else RESTART_WINDOW_SECONDS
    together: list[JobPart] = []
    until = -_FOREVER
    for part in sorted(parts, key=_start):
        if together and part.occupancy.start > until + slack:
            yield together
            together, until = [], -_FOREVER
        together.append(part)
        until = max(until, _end(part))
    yield together


_start, _gpu_seconds = attrgetter("occupancy.start"), attrgetter("occupancy.sums.gpu_seconds")


def _end(part: JobPart) -> float:
    return _FOREVER if part.occupancy.end is None else part.occupancy.end


def _job(key: JobKey, parts: list[JobPart]) -> Job:
    end = max([_end(part) for part in parts])
    start = parts[0].occupancy.start
    holder = max(parts, key=_gpu_seconds).occupancy.holder
    return Job(
        id=_id(key, start),
        user=holder.user,
        command=holder.command or holder.name,
        start=start,
        end=None if end == _FOREVER else end,
        gpus=len({(part.gpu.node_id, part.gpu.uuid) for part in parts}),
        certain=all(part.occupancy.certain for part in parts if _end(part) == end),
        places=_places(parts),
        sums=add_sums([part.occupancy.sums for part in parts]),
        advice=advice(parts),
        parts=tuple(parts),
    )


def _places(parts: Iterable[JobPart]) -> tuple[str, ...]:
    found = {(part.gpu.node, part.gpu.index) for part in parts}
    ordered = (
        sorted(found, key=lambda one: (natural_sort_key(one[0]), one[1]))
        if len(found) > 1
        else found
    )
    return tuple([f"{node}:{index}" for node, index in ordered])


def _id(key: JobKey, start: float) -> str:
    """The same whenever it is asked for: the job's beginning, and what its parts share."""
    return f"{int(start):x}-{crc32(chr(0).join(key).encode(errors='replace')):08x}"
