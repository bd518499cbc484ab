"""Detached jobs of this user on this machine: a record and a log file for each.

The supervisor of a job keeps a lock on its record: as long as that is held, the job is alive. A
home folder may be shared by many machines, so each has a folder of its own there.
"""

import argparse
import fcntl
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fleet_smi import paths
from fleet_smi.cli.ending_signals import reset_in_child
from fleet_smi.cli.job_session import JobOptions, take_and_run
from fleet_smi.cli.lease_keeper import say
from fleet_smi.errors import FleetError, NotFound, Unmet
from fleet_smi.node.bindings.lease_lockers import identify_self, is_holder

if TYPE_CHECKING:
    from fleet_smi.node.leasing import Leased

_KEPT = 50
_POLL_SECONDS = 0.2


class DetachedJob(Struct, frozen=True, kw_only=True):
    """A job that was started with `--detach`.

    `exit_code` is negative where a signal ended it. `state` is "killed" where its supervisor is
    gone and did not say how it ended.
    """

    number: int
    state: str
    pid: int
    command: list[str]
    created_at: float
    log: str
    gpus: list[int] = []
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    note: str | None = None
    supervisor: dict[str, str] = {}


def folder() -> Path:
    """Return the folder of the records of this machine, and create it."""
    # Of this user, for root too: jobs are personal.
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    machine = re.sub(r"[^\w.-]|^\.+", "_", os.uname().nodename)
    path = state / "fleet-smi/jobs" / (machine or "_")
    paths.ensure_private_folder(str(path))
    return path


def start(args: argparse.Namespace, options: JobOptions) -> DetachedJob:
    """Start a job in a session of its own, which the end of this terminal does not reach."""
    jobs = folder()
    _remove_old(jobs)
    number, record = _new_record(jobs)
    ready, announce = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        job = DetachedJob(
            number=number,
            state="waiting",
            pid=os.getpid(),
            command=options.command,
            created_at=time.time(),
            log=str(jobs / f"{number}.log"),
            note=options.note,
            supervisor=identify_self(),
        )
        _become_supervisor(args, options, job, record, announce)
    os.close(announce)
    os.close(record)
    os.read(ready, 1)  # until the record is written and locked
    os.close(ready)
    return read_job(number)


def read_jobs() -> list[DetachedJob]:
    """Return the jobs of this user, the latest first."""
    numbers = [int(each.stem) for each in folder().glob("*.json") if each.stem.isdecimal()]
    return [job for number in sorted(numbers, reverse=True) if (job := _read(number))]


def read_job(number: int) -> DetachedJob:
    """Return one job; raise `NotFound` if there is none of that number."""
    job = _read(number)
    if job is None:
        raise NotFound(f"no job {number} of yours here: see `fleet-smi jobs`")
    return job


def follow(number: int) -> int:
    """Print the log of a job until it ends; return its exit code, as a shell would."""
    job = read_job(number)
    with Path(job.log).open("rb") as log:
        while True:
            job = read_job(number)  # before the last look at the log, which is then complete
            if data := log.read():
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            elif job.state not in ("waiting", "running"):
                break
            else:
                time.sleep(_POLL_SECONDS)
    if job.exit_code is None:
        raise Unmet(f"job {number} was killed; how it ended is not known")
    return job.exit_code if job.exit_code >= 0 else 128 - job.exit_code


def cancel(number: int, *, kill: bool) -> None:
    """Ask a job to end (SIGTERM), or kill it with all its processes."""
    job = read_job(number)
    if job.state not in ("waiting", "running"):
        raise Unmet(f"job {number} has ended already")
    # Its record is locked, so the pid is still that of its supervisor; unless that runs in a
    # container, or on another machine of the same name.
    if not is_holder("/", job.pid, os.geteuid(), job.supervisor):
        raise Unmet(f"job {number} runs elsewhere: cancel it where it was started")
    if kill:
        os.killpg(job.pid, signal.SIGKILL)
    else:
        os.kill(job.pid, signal.SIGTERM)


def _new_record(jobs: Path) -> tuple[int, int]:
    number = max([int(each.stem) for each in jobs.glob("*.json") if each.stem.isdecimal()] or [0])
    while True:
        number += 1
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return number, os.open(jobs / f"{number}.json", flags, 0o600)
        except FileExistsError:
            continue


def _become_supervisor(
    args: argparse.Namespace, options: JobOptions, job: DetachedJob, record: int, announce: int
) -> NoReturn:
    """Run the job in this fork, and exit."""
    code = 70
    try:
        os.setsid()
        reset_in_child()
        fcntl.flock(record, fcntl.LOCK_EX)
        _write(record, job)
        _redirect_streams(job.log)
        os.close(announce)

        def on_start(leased: "Leased") -> None:
            nonlocal job
            gpus = [candidate.index for candidate in leased.candidates]
            job = replace(job, state="running", gpus=gpus, started_at=time.time())
            _write(record, job)

        status = take_and_run(args, options, time.time(), on_start)
        code = os.waitstatus_to_exitcode(status)
    except FleetError as error:
        say(str(error))
        code = 1
    finally:
        ended = replace(job, state="ended", ended_at=time.time(), exit_code=code)
        _write(record, ended)
        sys.stderr.flush()
        # Not `sys.exit`: a fork must not run its parent's code.
        os._exit(0)


def _redirect_streams(log: str) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    file = os.open(log, flags, 0o600)
    for descriptor, target in ((0, null), (1, file), (2, file)):
        os.dup2(target, descriptor)
    os.close(null)
    os.close(file)


def _write(record: int, job: DetachedJob) -> None:
    data = msgspec.json.encode(job)
    os.pwrite(record, data.ljust(os.fstat(record).st_size), 0)


def _read(number: int) -> DetachedJob | None:
    path = folder() / f"{number}.json"
    try:
        with path.open("rb") as file:
            is_alive = _is_locked(file)
            job = msgspec.json.decode(file.read(), type=DetachedJob)
    except (OSError, ValueError):
        return None
    return job if is_alive or job.state == "ended" else replace(job, state="killed")


def _is_locked(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _remove_old(jobs: Path) -> None:
    over = [job for job in read_jobs() if job.state in ("ended", "killed")][_KEPT:]
    for job in over:
        for suffix in ("json", "log"):
            (jobs / f"{job.number}.{suffix}").unlink(missing_ok=True)
