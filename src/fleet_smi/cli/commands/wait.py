"""`fleet-smi wait`: return when GPUs are free; with a hub, in its queue."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from fleet_smi.cli import fleet_source, lease_arguments
from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.cli.waiting import Met

HELP = "wait until GPUs of one node are free, then print them, run something, or notify"
EXAMPLES = """\
  fleet-smi wait -n 1 --model A100             prints them when they are free, like gpu03:1
  fleet-smi wait -n 4 --notify bell --notify desktop
  fleet-smi wait --notify https://ntfy.sh/my-topic --timeout 12h
  fleet-smi wait -n 2 --on gpu03 --then 'ssh -t gpu03 fleet-smi run -n 2 -- ./train.sh'
  fleet-smi wait --here --then ./train.sh      this machine alone, without a hub

With a hub this waits in its queue: the GPUs are then kept for you for 30 seconds, for
`fleet-smi run` on that node. Without one it looks every few seconds; nothing is kept.
--then runs in a shell, with FLEET_SMI_NODE, FLEET_SMI_GPUS (indices) and, on this machine,
CUDA_VISIBLE_DEVICES. Its exit code is that of `wait`; after --timeout the exit code is 1.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the request, and what to do when it is met."""
    add = parser.add_argument
    lease_arguments.add_request_arguments(parser, "how many GPUs, all on one node (1)")
    add("--on", metavar="WHERE", default="any", help="any (default), NODE or label:KEY=VALUE")
    add("--then", metavar="CMD", help="run this in a shell")
    notify_help = "bell, desktop, or a URL to which a text is sent (POST); repeatable"
    add("--notify", metavar="HOW", action="append", default=[], help=notify_help)
    add("--timeout", metavar="TIME", help="wait at most this long, like 2h; then exit with 1")
    add("--max-hours", type=float, metavar="H", help="declare how long you need them")
    add("--note", metavar="TEXT", help="what it is for, shown to everybody")
    fleet_source.add_fleet_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Wait, print what is free, tell, and run what was given."""
    if args.max_hours is not None and not 0 < args.max_hours < 10_000:
        raise UsageError(f"--max-hours {args.max_hours:g}: must be more than 0")
    from fleet_smi.cli import notices, waiting

    for how in args.notify:
        notices.check(how)
    met = waiting.wait(args)
    print(met.text, flush=True)
    for how in args.notify:
        notices.send(how, f"free for you: {met.text}")
    return 0 if args.then is None else _run_shell(args.then, met)


def _run_shell(command: str, met: "Met") -> int:
    environment = {**os.environ, "FLEET_SMI_NODE": met.node, "FLEET_SMI_GPUS": met.indices}
    if met.cuda_devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = met.cuda_devices
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    sys.stdout.flush()
    sys.stderr.flush()
    # In place of this process: terminal, signals and exit code are those of the command.
    os.execve("/bin/sh", ["sh", "-c", command], environment)  # noqa: S606
