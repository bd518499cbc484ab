"""`fleet-smi simulate`: a load test; a simulated fleet reports to a real hub."""

import argparse
import sys
from typing import TYPE_CHECKING

from fleet_smi.errors import UsageError

if TYPE_CHECKING:
    from fleet_smi.simulation.counters import LoadCounters
    from fleet_smi.simulation.load_generator import LoadGenerator

HELP = "load-test a hub with a simulated fleet that reports over HTTP"
EXAMPLES = """\
  fleet-smi simulate --to http://localhost:7070                      100 nodes of 8 GPUs, 1 report/s
  fleet-smi simulate --nodes 2000 --to http://hub:7070 --join TOKEN  each joins, then reports
  fleet-smi simulate --for 30 --to http://hub:7070                   stop after 30 s, print totals
"""

_PROGRESS_SECONDS = 5.0
_REPLAY_SECONDS = 60.0
_OTHER_FILES = 64  # descriptors beside the connections of the nodes
_MAX_NODES, _MAX_GPUS = 100_000, 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the load test."""
    add = parser.add_argument
    add("--to", metavar="URL", required=True, help="the hub, like http://gpuhub:7070")
    add("--nodes", type=int, default=100, metavar="N", help="number of nodes (100)")
    add("--gpus", type=int, default=8, metavar="N", help="GPUs per node (8)")
    add("--interval", type=float, default=1.0, metavar="SECONDS", help="report every N seconds (1)")
    add("--for", type=float, dest="seconds", metavar="SECONDS", help="stop after N seconds")
    add("--seed", type=int, default=1, metavar="N", help="random seed of the fleet (1)")
    add("--compact", action="store_true", help="send compact reports to a server that is no hub")
    credentials = parser.add_mutually_exclusive_group()
    credentials.add_argument("--join", metavar="TOKEN", help="join token; each node joins with it")
    credentials.add_argument("--token", help="one token for all nodes")


def run(args: argparse.Namespace) -> int:
    """Send reports until interrupted; return 1 if a report was lost for good."""
    import gc
    import time

    import uvloop

    from fleet_smi.node.bindings.own_memory import erase_argument
    from fleet_smi.simulation.large_fleet import large_fleet
    from fleet_smi.simulation.load_generator import LoadGenerator

    _check(args)
    for secret in filter(None, (args.join, args.token)):
        erase_argument(secret)  # every user can read the arguments of a process
    _raise_file_limit(args.nodes + _OTHER_FILES)
    scenario = large_fleet(
        args.nodes,
        args.gpus,
        seed=args.seed,
        start=time.time(),
        interval_seconds=args.interval,
    )
    load = LoadGenerator(
        scenario,
        args.to,
        join_token=args.join,
        token=args.token,
        replay_seconds=_REPLAY_SECONDS,
        always_compact=args.compact,
    )
    gc.freeze()  # the scenario lives as long as the process: exempt it from garbage collection
    try:
        uvloop.run(_run_with_progress(load, args.seconds))
    except KeyboardInterrupt:
        print(file=sys.stderr)
    print(f"total: {format_counters(load.counters)}")
    return 1 if load.counters.failed else 0


async def _run_with_progress(load: "LoadGenerator", seconds: float | None) -> None:
    """Run the load and print progress every few seconds."""
    import asyncio

    progress = asyncio.create_task(_print_progress(load))
    try:
        await load.run(seconds)
    finally:
        progress.cancel()
        await asyncio.gather(progress, return_exceptions=True)


async def _print_progress(load: "LoadGenerator") -> None:
    import asyncio

    clock = asyncio.get_running_loop().time
    while True:
        before, started = load.counters.copy(), clock()
        await asyncio.sleep(_PROGRESS_SECONDS)
        recent = load.counters.since(before)
        if recent.sent or recent.late:
            rate = recent.acknowledged / (clock() - started)
            print(f"{rate:6.0f} reports/s: {format_counters(recent)}", flush=True)


def format_counters(counters: "LoadCounters") -> str:
    """Return the counts of reports by outcome, and latency quantiles, as one line."""
    parts = [
        f"{counters.sent} sent, {counters.acknowledged} acknowledged, {counters.failed} failed"
    ]
    if counters.late:
        parts.append(f"{counters.late} late")
    if counters.lost_connections:
        parts.append(f"{counters.lost_connections} connections lost")
    if counters.sent:
        share = 100 * counters.compact / counters.sent
        parts.append(f"{counters.sent_bytes / counters.sent:.0f} bytes each, {share:.1f} % compact")
    p50 = counters.latency_quantile_seconds(0.5)
    p99 = counters.latency_quantile_seconds(0.99)
    if p50 is not None and p99 is not None:
        parts.append(f"p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.1f} ms")
    return ", ".join(parts)


def _check(args: argparse.Namespace) -> None:
    if not 1 <= args.nodes <= _MAX_NODES:
        raise UsageError(f"--nodes {args.nodes}: must be 1 to {_MAX_NODES}")
    if not 0 <= args.gpus <= _MAX_GPUS:
        raise UsageError(f"--gpus {args.gpus}: must be 0 to {_MAX_GPUS}")
    if not 0.01 <= args.interval <= 3600:
        raise UsageError(f"--interval {args.interval:g}: must be 0.01 to 3600 seconds")
    # Written this way round, NaN is refused too.
    if args.seconds is not None and not args.seconds > 0:
        raise UsageError(f"--for {args.seconds:g}: must be more than 0 seconds")


def _raise_file_limit(needed: int) -> None:
    """Raise the limit of open files to `needed`: each simulated node holds a connection."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit < needed:
        raise UsageError(f"needs {needed} open files, the limit is {hard}: see `ulimit -Hn`")
