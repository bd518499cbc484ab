"""`fleet-smi simulate`: a fleet that does not exist reports to a hub that does."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.simulation.counters import LoadCounters
    from fleet_smi.simulation.load_generator import LoadGenerator

HELP = "a simulated fleet that reports to a hub over the real wire, to see what it can bear"
EXAMPLES = """\
  fleet-smi simulate --to http://localhost:7070                      100 nodes of 8 GPUs, 1 report/s
  fleet-smi simulate --nodes 2000 --to http://hub:7070 --join TOKEN  each joins, then reports
  fleet-smi simulate --for 30 --to http://hub:7070                   stop after 30 s and sum up
"""

_SAY_EVERY_SECONDS = 5.0
_OTHER_FILES = 64
_MOST_NODES, _MOST_GPUS = 100_000, 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the load."""
    add = parser.add_argument
    add("--to", metavar="URL", required=True, help="the hub, like http://gpuhub:7070")
    add("--nodes", type=int, default=100, metavar="N", help="how many nodes (100)")
    add("--gpus", type=int, default=8, metavar="N", help="how many GPUs each has (8)")
    add("--interval", type=float, default=1.0, metavar="SECONDS", help="between reports (1)")
    add("--for", type=float, dest="seconds", metavar="SECONDS", help="stop after so long")
    add("--seed", type=int, default=1, metavar="N", help="another number, another fleet (1)")
    allowed = parser.add_mutually_exclusive_group()
    allowed.add_argument("--join", metavar="TOKEN", help="a join token: each node gets its own")
    allowed.add_argument("--token", help="one token that all report with")


def run(args: argparse.Namespace) -> int:
    """Report until told to stop; 1 when a report failed for good."""
    import gc
    import time

    import uvloop

    from fleet_smi.simulation.large_fleet import large_fleet
    from fleet_smi.simulation.load_generator import LoadGenerator

    _check(args)
    _allow_files(args.nodes + _OTHER_FILES)
    story = large_fleet(
        args.nodes,
        args.gpus,
        seed=args.seed,
        start=time.time(),
        interval_seconds=args.interval,
    )
    load = LoadGenerator(story, args.to, join_token=args.join, token=args.token)
    gc.freeze()  # the story stays for good: not worth looking through again and again
    try:
        uvloop.run(_told(load, args.seconds))
    except KeyboardInterrupt:
        print(file=sys.stderr)
    print(f"in all: {format_counters(load.counters)}")
    return 1 if load.counters.failed else 0


async def _told(load: "LoadGenerator", seconds: float | None) -> None:
    """Run it, and say how it goes every few seconds."""
    import asyncio

    speaking = asyncio.create_task(_speak(load))
    try:
        await load.run(seconds)
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)


async def _speak(load: "LoadGenerator") -> None:
    import asyncio

    clock = asyncio.get_running_loop().time
    while True:
        before, began = load.counters.copy(), clock()
        await asyncio.sleep(_SAY_EVERY_SECONDS)
        lately = load.counters.since(before)
        if lately.sent or lately.late:
            rate = lately.acknowledged / (clock() - began)
            print(f"{rate:6.0f} reports/s: {format_counters(lately)}", flush=True)


def format_counters(counters: "LoadCounters") -> str:
    """What became of the reports, in one line."""
    parts = [
        f"{counters.sent} sent, {counters.acknowledged} acknowledged, {counters.failed} failed"
    ]
    if counters.late:
        parts.append(f"{counters.late} late")
    if counters.lost_connections:
        parts.append(f"{counters.lost_connections} connections lost")
    middle, slowest = (
        counters.latency_quantile_seconds(0.5),
        counters.latency_quantile_seconds(0.99),
    )
    if middle is not None and slowest is not None:
        parts.append(f"p50 {1000 * middle:.1f} ms, p99 {1000 * slowest:.1f} ms")
    return ", ".join(parts)


def _check(args: argparse.Namespace) -> None:
    if not 1 <= args.nodes <= _MOST_NODES:
        raise UsageError(f"--nodes {args.nodes}: from 1 to {_MOST_NODES}")
    if not 0 <= args.gpus <= _MOST_GPUS:
        raise UsageError(f"--gpus {args.gpus}: from 0 to {_MOST_GPUS}")
    if not 0.01 <= args.interval <= 3600:
        raise UsageError(f"--interval {args.interval:g}: from 0.01 to 3600 seconds")
    if args.seconds is not None and not args.seconds > 0:
        raise UsageError(f"--for {args.seconds:g}: more than 0 seconds")


def _allow_files(wanted: int) -> None:
    """Every node has a connection: raise the limit of open files as far as we may."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        raise UsageError(f"{wanted} open files are needed and {hard} allowed: see `ulimit -Hn`")
