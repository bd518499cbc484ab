"""A job under leases: take the GPUs, run the command, keep the leases until it ends."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.cli.job_environment import DOCKER, docker_devices, job_environment
from fleet_smi.cli.lease_arguments import lease_options
from fleet_smi.cli.local_fleet import open_local_fleet, start_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet_smi.node.leasing import Details, Leased

_TICK_SECONDS = 2.0
_HOUR_SECONDS = 3600.0
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


class JobOptions(NamedTuple):
    """What to run, and what to say of it."""

    command: list[str]
    timeout_seconds: float | None
    max_hours: float | None = None
    note: str | None = None
    uuid: bool = False
    print_docker: bool = False


def run_session(
    args: argparse.Namespace,
    options: JobOptions,
    started_at: float,
    on_start: "Callable[[Leased], None] | None" = None,
) -> int:
    """Wait, take, run and release; return the exit code, or end by the signal of the job."""
    # Before the other imports: the reader process loads the driver meanwhile.
    fleet = open_local_fleet(start_reader(), full=False)
    from fleet_smi import config
    from fleet_smi.node.bindings.job_process import end_like, run_job
    from fleet_smi.node.leasing import (
        LeaseTaker,
        container_warning,
        lease_details,
        open_lease_folder,
    )

    path = config.load().node.lease_dir
    folder = open_lease_folder(path)
    if warning := container_warning(path):
        say(warning)
    until = None if options.max_hours is None else time.time() + options.max_hours * _HOUR_SECONDS
    details = lease_details(options.command[0], options.note, until)
    wanted = lease_options(args)
    taker = LeaseTaker(folder, fleet.view, fleet.thresholds, wanted, details, started_at)
    leased = taker.wait(options.timeout_seconds, WaitMessages(wanted.request.count))
    fleet.close()
    environment = job_environment(leased.candidates, os.environ, uuid=options.uuid)
    command = options.command
    if options.print_docker:
        say(f"docker: --gpus '{docker_devices(leased.candidates)}'")
    if DOCKER in command:
        devices = docker_devices(leased.candidates)
        command = [devices if word == DOCKER else word for word in command]
    if on_start is not None:
        on_start(leased)
    sys.stdout.flush()
    sys.stderr.flush()
    keeper = LeaseKeeper(folder, leased, details, until)
    try:
        status = run_job(command, environment, keeper.check, _TICK_SECONDS)
    except FileNotFoundError:
        say(f"{command[0]}: command not found")
        return _NOT_FOUND
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return _NOT_EXECUTABLE
    finally:
        keeper.release()
    return end_like(status)


class LeaseKeeper:
    """Keeps leases while a job runs. A lost lease is taken again; the job runs on either way."""

    def __init__(
        self, folder: int, leased: "Leased", details: "Details", until: float | None
    ) -> None:
        self._folder = folder
        self._locks = {lock.uuid: lock for lock in leased.locks}
        self._lost: set[str] = set()
        self._details = details
        self._until = until
        self._warned: set[str] = set()

    def check(self) -> None:
        """Take lost leases again, and warn once when the declared time is over."""
        from fleet_smi.errors import StateError
        from fleet_smi.node.bindings.lease_locks import try_take

        for uuid, lock in list(self._locks.items()):
            if not lock.is_intact:
                lock.release()
                del self._locks[uuid]
                self._lost.add(uuid)
        for uuid in sorted(self._lost):
            try:
                again = try_take(self._folder, uuid, self._details)
            except StateError:
                again = None
            if again is None:
                self._warn(f"the lease of {uuid} is lost: the job runs on without lease")
            else:
                self._locks[uuid] = again
                self._lost.discard(uuid)
        if self._until is not None and time.time() > self._until:
            self._warn("the declared --max-hours are over: the job runs on")

    def release(self) -> None:
        """Give everything back."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            say(text)


class WaitMessages:
    """Says on stderr what is waited for, whenever that changes."""

    def __init__(self, count: int) -> None:
        self._what = "a GPU" if count == 1 else f"{count} GPUs"
        self._last = ""

    def __call__(self, reason: str) -> None:
        if reason != self._last:
            self._last = reason
            say(f"waiting for {self._what}: {reason}")


def say(text: str) -> None:
    """Print one line for people on stderr."""
    print(f"fleet-smi: {' '.join(text.split())}", file=sys.stderr, flush=True)
