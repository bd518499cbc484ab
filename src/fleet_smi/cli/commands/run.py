"""`fleet-smi run`: wait for free GPUs, take them, run a command on them, give them back."""

import argparse
import time
from typing import TYPE_CHECKING

from fleet_smi.cli import lease_arguments
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.cli.job_session import JobOptions

HELP = "take free GPUs of this machine, run a command on them, and give them back when it ends"
EXAMPLES = """\
  fleet-smi run -- python train.py                 one GPU, when one is free
  fleet-smi run -n 2 --min-free 30GiB -- python train.py
  fleet-smi run --nowait -- python eval.py         exit with 1 if none is free now
  fleet-smi run --gpu-ids 2,3 --note 'final run' -- ./train.sh
  fleet-smi run -n 4 --detach -- python train.py   in the background; see `fleet-smi jobs`
  fleet-smi run --on any -n 2 -- python train.py   on a node with room, over ssh (needs a hub)
  fleet-smi run --on label:rack=3 -- ./train.sh    on one of these nodes
  fleet-smi run -- docker run --rm --gpus '{docker}' image     docker gets the same GPUs

The command keeps the terminal, signals and exit code. It sees only its GPUs: indices in
CUDA_VISIBLE_DEVICES with CUDA_DEVICE_ORDER=PCI_BUS_ID, ROCR_VISIBLE_DEVICES for AMD and
ONEAPI_DEVICE_SELECTOR for Intel. Where CUDA_VISIBLE_DEVICES is set already, it chooses among those.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the request and the command."""
    add = parser.add_argument
    lease_arguments.add_request_arguments(parser, "how many GPUs (1, or all of --gpu-ids)")
    wait = parser.add_mutually_exclusive_group()
    wait.add_argument("--nowait", action="store_true", help="exit with 1 if not possible now")
    wait.add_argument("--timeout", metavar="TIME", help="wait at most this long, like 2h")
    add("--gpu-ids", metavar="ID[,ID]", help="only these: indices, UUIDs, or 2:0 for an instance")
    add("--prefer-last", action="store_true", help="the GPUs that you had last, if they are free")
    add(
        "--max-hours",
        type=float,
        metavar="H",
        help="how long it will take; only warns when it is over",
    )
    add("--note", metavar="TEXT", help="what it is for, shown to everybody")
    add("--ignore-bookings", action="store_true", help="also GPUs that somebody has booked")
    add("--uuid", action="store_true", help="UUIDs instead of indices in CUDA_VISIBLE_DEVICES")
    add("--print-docker", action="store_true", help="print docker's --gpus for these on stderr")
    add(
        "--on", metavar="any|NODE|label:KEY=VALUE", help="on another node, where the hub finds room"
    )
    add("--hub", metavar="URL", help="with --on: ask this hub (default: client.hub)")
    add("--remote", type=int, help=argparse.SUPPRESS)  # started by --on of another machine
    add("--detach", action="store_true", help="in the background, with a log file; see jobs")
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    started_at = time.time()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command: write it after --, like `fleet-smi run -- python train.py`")
    if args.max_hours is not None and not 0 < args.max_hours < 10_000:
        raise UsageError(f"--max-hours {args.max_hours:g}: must be more than 0")
    options = _options(args, command)
    if args.on is not None:
        from fleet_smi.cli import remote_run

        return remote_run.run_on(args, options)
    if args.detach:
        from fleet_smi.cli import detached_jobs

        lease_arguments.lease_options(args)  # what makes no sense is said here, not in the log
        job = detached_jobs.start(args, options)
        print(f"job {job.number}: {job.log}")
        return 0
    from fleet_smi.cli import job_session

    if args.remote is not None:
        return job_session.run_for_other_machine(args, options, started_at)
    return job_session.run_session(args, options, started_at)


def _options(args: argparse.Namespace, command: list[str]) -> "JobOptions":
    from fleet_smi.cli.job_session import JobOptions

    return JobOptions(
        command=command,
        timeout_seconds=lease_arguments.timeout_seconds(args),
        max_hours=args.max_hours,
        note=args.note,
        uuid=args.uuid,
        print_docker=args.print_docker,
        ignore_bookings=args.ignore_bookings,
    )
