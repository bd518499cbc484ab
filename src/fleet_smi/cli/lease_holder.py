"""Holders: processes in the background that keep leases for a time, or as long as others run."""

import argparse
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, NoReturn

from fleet_smi import config
from fleet_smi.cli.devices import cuda_devices
from fleet_smi.cli.lease_keeper import LeaseKeeper, say
from fleet_smi.cli.local_fleet import open_local_fleet, start_reader
from fleet_smi.errors import FleetError, Unmet, UsageError
from fleet_smi.model.candidates import GpuRequest
from fleet_smi.model.fleet import FleetView, devices_of
from fleet_smi.model.units import parse_duration, parse_memory
from fleet_smi.node.bindings.lease_locks import LeaseLock
from fleet_smi.node.leasing import (
    Details,
    LeaseOptions,
    LeaseTaker,
    container_warning,
    lease_details,
    open_lease_folder,
    take_named,
)
from fleet_smi.queue_turn import Messages, TurnOptions, take_in_turn

_CHECK_SECONDS = 2.0
_MAX_HOLD_SECONDS = 86_400.0


class _Held(NamedTuple):
    """Leases to keep, the processes that they are for, and what to do once they are released."""

    locks: Iterable[LeaseLock]
    pids: Iterable[int]
    finish: Callable[[], None] = lambda: None


def hold_free(args: argparse.Namespace) -> int:
    """Lease free GPUs for the time of `--hold` and print them for CUDA_VISIBLE_DEVICES."""
    seconds = parse_duration(args.hold)
    if not 0 < seconds <= _MAX_HOLD_SECONDS:
        raise UsageError(f"--hold {args.hold}: must be more than 0 and at most 1d")
    request = GpuRequest(
        count=args.count or 1,
        min_free_bytes=parse_memory(args.min_free),
        model=args.model,
        vendor=args.vendor,
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )
    until = time.time() + seconds
    details = lease_details("fleet-smi free --hold", None, until, "hold")

    def take(folder: int) -> _Held:
        fleet = open_local_fleet(start_reader(), full=False)
        taker = LeaseTaker(
            folder, fleet.view, fleet.thresholds, LeaseOptions(request), details, time.time()
        )
        options = TurnOptions(0.0, ignore_bookings=args.ignore_bookings)
        messages = Messages(lambda _: None, say)
        leased, finish = take_in_turn(config.load(), taker, request, options, messages)
        fleet.close()
        print(",".join(cuda_devices(leased.candidates, uuid=args.uuid)), flush=True)
        return _Held(leased.locks, (), finish)

    return _hold_in_background(take, details, until)


def claim(pid: int | None, note: str | None) -> int:
    """Lease the GPUs of one process of this user, or of all; until these processes end."""

    def take(folder: int) -> _Held:
        fleet = open_local_fleet(start_reader(), full=False)
        view = fleet.view()
        fleet.close()
        used = _used_by(view, pid)
        locks = take_named(folder, used, details)
        if not locks:
            raise Unmet("somebody else was faster: see `fleet-smi leases`")
        for uuid in locks:
            print(uuid, flush=True)
        return _Held(locks.values(), {each for uuid in locks for each in used[uuid]})

    details = lease_details("fleet-smi claim", note, None, "claim")
    return _hold_in_background(take, details, None)


def _used_by(view: FleetView, pid: int | None) -> Mapping[str, set[int]]:
    """Return the pids of this user on each GPU without a lease; raise `Unmet` without any."""
    uid, used, leased = os.geteuid(), dict[str, set[int]](), ""
    for node in view.nodes:
        for gpu in node.gpus:
            inside = {each.pid for part in gpu.instances for each in part.processes or ()}
            for device in devices_of(gpu):
                own = {
                    process.pid
                    for process in device.processes or ()
                    if (process.uid == uid and pid is None) or process.pid == pid
                }
                if device is gpu:
                    own -= inside
                for process in device.processes or ():
                    if process.pid == pid and process.uid not in (uid, None) and uid != 0:
                        raise UsageError(f"process {pid} belongs to {process.user}, not to you")
                if own and device.lease is not None:
                    leased = f": GPU {gpu.index} is leased by {device.lease.holder} already"
                elif own:
                    used[device.uuid] = own
    if not used:
        what = "no process of yours" if pid is None else f"process {pid} is not one that"
        raise Unmet(f"{what} uses a GPU here without a lease{leased}")
    return used


def _hold_in_background(
    take: Callable[[int], _Held],
    details: Details,
    until: float | None,
) -> int:
    """Take leases in a fork that keeps them; return its exit code once it has them or not.

    The kernel names the process that has taken a lock: it must be the one that stays.
    """
    path = config.load().node.lease_dir
    folder = open_lease_folder(path)
    if warning := container_warning(path):
        say(warning)
    result, report = os.pipe()
    if os.fork() == 0:
        os.close(result)
        _become_holder(take, details, until, folder, report)
    os.close(report)
    code = os.read(result, 1)
    os.close(result)
    return code[0] if code else 70


def _become_holder(
    take: Callable[[int], _Held],
    details: Details,
    until: float | None,
    folder: int,
    report: int,
) -> NoReturn:
    code = 70
    try:
        os.setsid()
        held = take(folder)
        watched = [os.pidfd_open(pid) for pid in held.pids]
        code = 0
        sys.stdout.flush()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.write(report, b"\0")
        os.close(report)
        _keep(LeaseKeeper(folder, held.locks, details, None), until, watched)
        held.finish()
    except FleetError as error:
        say(str(error))
        code = 2 if isinstance(error, UsageError) else 1
    except ProcessLookupError:
        say("the process has ended")
        code = 1
    finally:
        if code:
            os.write(report, bytes([code]))
        # Not `sys.exit`: a fork must not run its parent's code.
        os._exit(0)


def _keep(keeper: LeaseKeeper, until: float | None, watched: list[int]) -> None:
    """Keep leases until a time, or until every watched process has ended."""
    poller = select.poll()
    for descriptor in watched:
        poller.register(descriptor, select.POLLIN)
    left = len(watched)
    # By a clock that cannot be set.
    end = None if until is None else time.monotonic() + until - time.time()
    while (end is None or time.monotonic() < end) and (left or not watched):
        wait = _CHECK_SECONDS if end is None else min(_CHECK_SECONDS, end - time.monotonic())
        for descriptor, _ in poller.poll(max(0.0, wait) * 1000):
            poller.unregister(descriptor)
            left -= 1
        keeper.check()
    keeper.release()
