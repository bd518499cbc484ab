"""Jobs: occupancies grouped by user and command, or by Slurm job, across GPUs and nodes."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from zlib import crc32

from fleet_smi.hub.history.queries.advice import advice, with_idle_time
from fleet_smi.model.history import GpuOccupancies, Job, JobPart
from fleet_smi.model.people import HIDDEN_USER
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.usage_report import add_sums

RESTART_WINDOW_SECONDS = 60.0
"""A command that starts again within this time after its end counts as the same job."""
_FOREVER = float("inf")
_CACHE_SIZE = 4096
JobKey = tuple[str, ...]

# Flags that differ between the workers of one job: ranks, ports, addresses.
_VOLATILE_FLAG = re.compile(
    r"--?(?:(?:local|node|global|machine|worker)?[-_]?rank"
    r"|(?:node|worker|replica|process|task|shard)[-_](?:index|id|idx)"
    r"|(?:[a-z_-]+[-_])?port"
    r"|rdzv[-_]endpoint|master[-_]addr|node[-_]ip[-_]address|dist[-_]url|init[-_]method)",
    re.IGNORECASE,
)
_HINTS = ("rank", "index", "id", "port", "endpoint", "addr", "url", "method")
"""Every volatile flag contains one of these: a cheap test before the command is split."""
# File descriptors, pids and worker numbers. The pattern begins with a fixed character, which
# the regex engine searches for quickly.
_WORKER_NUMBER = re.compile(
    r"(_(?:(?<=pipe_)handle=|(?<=tracker_)fd=|(?<=parent_)pid=|TP|PP|DP|EP))\d+"
)
_FORKED_WORKER = "--multiprocessing-fork"


def group_jobs(occupancies: Iterable[GpuOccupancies]) -> tuple[Job, ...]:
    """Group occupancies into jobs, the latest first."""
    by_key: dict[JobKey, list[JobPart]] = {}
    for of_gpu in occupancies:
        for occupancy in of_gpu.occupancies:
            part = JobPart(gpu=of_gpu.gpu, occupancy=occupancy)
            by_key.setdefault(_job_key(part), []).append(part)
    jobs = [_job(key, run) for key, parts in by_key.items() for run in _runs(key, parts)]
    # Two stable sorts: jobs with the same start are ordered by id, not by the order of the GPUs.
    jobs.sort(key=attrgetter("id"))
    jobs.sort(key=attrgetter("start"), reverse=True)
    return tuple(jobs)


def job_start(job_id: str) -> float | None:
    """The start in a job id, to the second; `None` where it is not a job id."""
    head, dash, _ = job_id.partition("-")
    return float(int(head, 16)) if dash and re.fullmatch("[0-9a-f]{1,10}", head) else None


@lru_cache(_CACHE_SIZE)
def normalize_command(command: str) -> str:
    """Replace what differs between the workers of one job by stars."""
    if any(map(command.lower().__contains__, _HINTS)):
        command = " ".join(_mask_values(command.split()))
    return _WORKER_NUMBER.sub(r"\1*", command)


def _mask_values(arguments: Iterable[str]) -> Iterator[str]:
    """The arguments of a command with a star for the value of each volatile flag."""
    value_follows = False
    for argument in arguments:
        flag, _, value = argument.partition("=")
        is_flag = argument[0] == "-"
        if is_flag and value and _is_volatile(flag):
            # As two arguments: `--rank=0` and `--rank 0` give the same text.
            yield from (flag, "*")
        else:
            yield "*" if value_follows and not is_flag else argument
        value_follows = is_flag and not value and _is_volatile(flag)


@lru_cache(_CACHE_SIZE)
def _is_volatile(flag: str) -> bool:
    return _VOLATILE_FLAG.fullmatch(flag) is not None


def _job_key(part: JobPart) -> JobKey:
    """The key that all parts of a job share; jobs with the same key are separated by time."""
    holder = part.occupancy.holder
    if holder.slurm_job:
        return "slurm", holder.user, holder.slurm_job
    if not holder.command or holder.user == HIDDEN_USER:
        # Nothing shows which processes belong together: each is a job of its own.
        return "process", holder.user, part.gpu.node_id, str(holder.pid), str(holder.started_at)
    # A bare "python" on two nodes need not be one job, nor need forked workers: their commands
    # do not name the script.
    spans_nodes = " " in holder.command and _FORKED_WORKER not in holder.command
    node_id = "" if spans_nodes else part.gpu.node_id
    return "command", holder.user, node_id, normalize_command(holder.command)


def _runs(key: JobKey, parts: list[JobPart]) -> Iterator[list[JobPart]]:
    """Split parts into runs: those of a run overlap, or follow each other like a restart."""
    if len(parts) == 1:
        yield parts
        return
    # Slurm numbers its jobs, so their parts need not be close in time.
    slack = _FOREVER if key[0] == "slurm" else RESTART_WINDOW_SECONDS
    run: list[JobPart] = []
    run_end = -_FOREVER
    for part in sorted(parts, key=_start):
        if run and part.occupancy.start > run_end + slack:
            yield run
            run, run_end = [], -_FOREVER
        run.append(part)
        run_end = max(run_end, _end(part))
    yield run


_start, _gpu_seconds = attrgetter("occupancy.start"), attrgetter("occupancy.sums.gpu_seconds")


def _end(part: JobPart) -> float:
    return _FOREVER if part.occupancy.end is None else part.occupancy.end


def _job(key: JobKey, parts: list[JobPart]) -> Job:
    end = max([_end(part) for part in parts])
    start = parts[0].occupancy.start
    parts = [with_idle_time(part) for part in parts]
    # The commands of the workers differ in ranks and ports: show that of the largest part.
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
    places = {(part.gpu.node, part.gpu.index) for part in parts}
    ordered = (
        sorted(places, key=lambda place: (natural_sort_key(place[0]), place[1]))
        if len(places) > 1
        else places
    )
    return tuple([f"{node}:{index}" for node, index in ordered])


def _id(key: JobKey, start: float) -> str:
    """A stable id, computed from the start of the job and its key."""
    # `replace`, because a lone surrogate in a command cannot be encoded.
    return f"{int(start):x}-{crc32(chr(0).join(key).encode(errors='replace')):08x}"
