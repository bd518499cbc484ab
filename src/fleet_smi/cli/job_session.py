"""A job under leases: take the GPUs, run the command, keep the leases until it ends."""

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet_smi.cli.ending_signals import unwinding_signals
from fleet_smi.cli.job_environment import (
    DOCKER,
    docker_devices,
    job_environment,
    lost_environment,
)
from fleet_smi.cli.lease_arguments import lease_options
from fleet_smi.cli.lease_keeper import LeaseKeeper, WaitMessages, say
from fleet_smi.cli.local_fleet import open_local_fleet, start_reader
from fleet_smi.queue_turn import Messages, Turn, TurnOptions, take_in_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet_smi.node.leasing import Leased

_TICK_SECONDS = 2.0
_HOUR_SECONDS = 3600.0
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


class JobOptions(NamedTuple):
    """The command of a job, and the text that describes it."""

    command: list[str]
    timeout_seconds: float | None
    max_hours: float | None = None
    note: str | None = None
    uuid: bool = False
    print_docker: bool = False
    ignore_bookings: bool = False


def run_session(args: argparse.Namespace, options: JobOptions, started_at: float) -> int:
    """Wait, take, run and release; return the exit code, or end by the signal of the job."""
    from fleet_smi.node.bindings.job_process import end_like

    return end_like(take_and_run(args, options, started_at))


def run_for_other_machine(args: argparse.Namespace, options: JobOptions, started_at: float) -> int:
    """Like `run_session`, started over ssh by `run --on`: return an exit code in every case.

    That of `--remote` where there are no GPUs: somebody was faster. When the connection is lost,
    the job gets SIGHUP.
    """
    from fleet_smi.errors import Unmet

    parent = os.getppid()

    def end_with_connection() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGHUP)  # passed on to the job

    try:
        status = take_and_run(args, options, started_at, on_tick=end_with_connection)
    except Unmet as error:
        say(str(error))
        return int(args.remote)
    code = os.waitstatus_to_exitcode(status)
    # ssh would call every signal a lost connection.
    return code if code >= 0 else 128 - code


def take_and_run(
    args: argparse.Namespace,
    options: JobOptions,
    started_at: float,
    on_start: "Callable[[Leased], None] | None" = None,
    on_tick: "Callable[[], None] | None" = None,
) -> int:
    """Wait, take, run and release; return the wait status of the job."""
    # Before the other imports: the reader process loads the driver meanwhile.
    fleet = open_local_fleet(start_reader(), full=False)
    from fleet_smi import config
    from fleet_smi.node.bindings.job_process import run_job
    from fleet_smi.node.leasing import (
        LeaseTaker,
        begin_now,
        container_warning,
        lease_details,
        open_lease_folder,
    )

    settings = config.load()
    path = settings.node.lease_dir
    folder = open_lease_folder(path)
    if warning := container_warning(path):
        say(warning)
    until = None if options.max_hours is None else time.time() + options.max_hours * _HOUR_SECONDS
    details = lease_details(options.command[0], options.note, until)
    wanted = lease_options(args)
    taker = LeaseTaker(folder, fleet.view, fleet.thresholds, wanted, details, started_at)
    show = WaitMessages(wanted.request.count)
    # Started by `run --on`, it has had its turn in the queue already.
    if getattr(args, "remote", None) is not None:
        turn = Turn(taker.wait(options.timeout_seconds, show))
    else:
        with unwinding_signals():
            turn = take_in_turn(
                settings, taker, wanted.request, _turn_options(args, options), Messages(show, say)
            )
    leased = turn.leased
    fleet.close()
    environment = job_environment(leased.candidates, os.environ, uuid=options.uuid)
    command = options.command
    if options.print_docker:
        say(f"docker: --gpus '{docker_devices(leased.candidates)}'")
    if DOCKER in command:
        devices = docker_devices(leased.candidates)
        command = [devices if word == DOCKER else word for word in command]
    if warning := lost_environment(command):
        say(warning)
    if on_start is not None:
        on_start(leased)
    sys.stdout.flush()
    sys.stderr.flush()
    details = begin_now(details)
    until = None if until is None else float(details["until"])
    keeper = LeaseKeeper(folder, leased.locks, details, until)

    def tick() -> None:
        keeper.check()
        if on_tick is not None:
            on_tick()

    try:
        status = run_job(command, environment, tick, _TICK_SECONDS)
    except FileNotFoundError:
        say(f"{command[0]}: command not found")
        return _NOT_FOUND << 8
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return _NOT_EXECUTABLE << 8
    finally:
        keeper.release()
        turn.finish()
    return status


def _turn_options(args: argparse.Namespace, options: JobOptions) -> TurnOptions:
    return TurnOptions(
        options.timeout_seconds,
        options.max_hours,
        options.note,
        options.ignore_bookings,
        getattr(args, "hub", None),
    )
