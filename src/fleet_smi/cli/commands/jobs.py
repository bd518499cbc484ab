"""`fleet-smi jobs`: list, follow or cancel the jobs that `run --detach` started."""

import argparse
import sys

from fleet_smi.cli import output

HELP = "list your jobs on this machine that `fleet-smi run --detach` started; follow or cancel one"
EXAMPLES = """\
  fleet-smi run --detach -- python train.py    prints the number and the log file
  fleet-smi jobs                               the latest first
  fleet-smi jobs attach 3                      follow the log; Ctrl-C leaves the job alone
  fleet-smi jobs cancel 3                      ask it to end (SIGTERM)
  fleet-smi jobs cancel 3 --kill               end it and all its processes (SIGKILL)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the list and the actions on one job."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    attach = actions.add_parser("attach", help="print its output until it ends; its exit code")
    cancel = actions.add_parser("cancel", help="end a job")
    for action in (attach, cancel):
        action.add_argument("number", type=int, help="its number in `fleet-smi jobs`")
    cancel.add_argument("--kill", action="store_true", help="with SIGKILL, all its processes")


def run(args: argparse.Namespace) -> int:
    """List the jobs, or act on one."""
    from fleet_smi.cli import detached_jobs

    if args.action == "attach":
        return detached_jobs.follow(args.number)
    if args.action == "cancel":
        detached_jobs.cancel(args.number, kill=args.kill)
        return 0
    jobs = detached_jobs.read_jobs()
    if args.json:
        from fleet_smi.wire.json import to_json

        sys.stdout.write(to_json({"jobs": jobs}, pretty=True).decode() + "\n")
        return 0
    import time
    from shlex import join

    from fleet_smi.model.units import format_duration
    from fleet_smi.terminal.view.plain_table import render_table

    now = time.time()
    rows = [
        (
            str(job.number),
            job.state if job.exit_code is None else _end(job.exit_code),
            ",".join(map(str, job.gpus)),
            format_duration((job.ended_at or now) - (job.started_at or job.created_at)),
            job.note or "",
            join(job.command),
        )
        for job in jobs
    ]
    heads = ("JOB", "STATE", "GPUS", "TIME", "NOTE", "COMMAND")
    empty = "no detached jobs of yours here: start one with `fleet-smi run --detach -- COMMAND`"
    sys.stdout.write(render_table(heads, rows, output.output_columns(), empty))
    return 0


def _end(exit_code: int) -> str:
    """How a job ended: its exit code, or the name of the signal that ended it."""
    from signal import Signals

    try:
        return f"ended {exit_code if exit_code >= 0 else Signals(-exit_code).name}"
    except ValueError:  # a real-time signal has no name
        return f"ended by signal {-exit_code}"
