"""`python -m bench`: fleet-smi and its peers side by side, as ratios with budgets."""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence

from bench import agent, cluster_smi, history, hub, imports, installs, page, probes, wall_time
from bench.machine import BackgroundLoad, describe_machine, simulated_machine
from bench.peers import HUB, OURS, PEERS, NotAvailable, install, use_this_environment
from bench.report import (
    BudgetResult,
    MeasurementSeries,
    Pair,
    background_load_text,
    budget_summary,
    check_budget,
    ratio_table,
    series_table,
)
from sim.build import BuildFailed

PARTS = (
    *("wall", "cpu", "agent", "imports", "pure", "install"),
    *("hub", "cluster-smi", "history", "page"),
)
HUB_PARTS = {"hub", "cluster-smi", "page"}


def main() -> int:
    """Run the benchmarks; return 1 when a budget is missed, 2 when nothing can be measured."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that our processes end too
    try:
        if arguments.in_place:
            use_this_environment()
        else:
            install(PEERS[OURS])
            if HUB_PARTS.intersection(arguments.only or PARTS):
                install(PEERS[HUB])
        with simulated_machine() as environment:
            parts = arguments.only or PARTS
            results = _measure(parts, environment, arguments)
    except (NotAvailable, BuildFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"\n{budget_summary(results)}")
    missed = any(one.outcome == "missed" for one in results)
    return 1 if missed and not arguments.no_fail else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="run only this part; repeatable"
    )
    parser.add_argument("--rounds", type=int, default=25, help="rounds (25)")
    parser.add_argument("--minutes", type=float, default=1, help="minutes to observe the page (1)")
    parser.add_argument("--days", type=int, default=90, help="days of history to query (90)")
    parser.add_argument(
        "--nodes", type=int, action="append", help="nodes of the hub; repeatable (500, 2000, …)"
    )
    parser.add_argument(
        "--seconds", type=float, default=hub.SECONDS, help="seconds to observe each hub (30)"
    )
    parser.add_argument(
        "--peer",
        action="append",
        choices=(*hub.PEERS, "none"),
        help="run only this server beside the hub; repeatable",
    )
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="measure this checkout with this Python, without installing it",
    )
    parser.add_argument(
        "--no-fail", action="store_true", help="exit 0 even when a budget is missed"
    )
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    if min(arguments.nodes or [1]) < 1 or arguments.seconds <= 0:
        parser.error("--nodes and --seconds: more than 0")
    if arguments.days < history.MIN_DAYS:
        parser.error(f"--days: at least {history.MIN_DAYS}")
    return arguments


def _measure(
    parts: Sequence[str], environment: Mapping[str, str], arguments: argparse.Namespace
) -> list[BudgetResult]:
    rounds: int = arguments.rounds
    print(f"{describe_machine()}; {rounds} rounds, all in turn\n")
    results: list[BudgetResult] = []
    if "wall" in parts:
        background = BackgroundLoad()
        measured = wall_time.measure(environment, rounds)
        share = background.share()
        results += _show("whole commands, wall time", measured, wall_time.PAIRS, "ms")
        print(f"{background_load_text(share)}\n")
    if "cpu" in parts:
        measured = probes.measure(probes.CPU, environment, rounds)
        results += _show(
            "one sample of a long-lived program, CPU", measured, probes.CPU_PAIRS, "ms"
        )
    if "agent" in parts:
        results += _agent(environment)
    if "imports" in parts:
        _show("starts, wall time", imports.measure(environment, rounds), (), "ms")
        print(imports.slowest_imports(environment))
    if "pure" in parts:
        measured = probes.measure(probes.PURE, environment, rounds)
        _show("parsing and judging", measured, (), "µs")
    if "hub" in parts:
        results += _hub(environment, arguments)
    if "cluster-smi" in parts:
        background = BackgroundLoad()
        measured = cluster_smi.measure(environment, rounds)
        share = background.share()
        results += _show("a report of cluster-smi, CPU", measured, cluster_smi.PAIRS, "µs")
        print(f"{background_load_text(share)}\n")
    if "history" in parts:
        results += _history(arguments.days, rounds)
    if "page" in parts:
        results += _page(environment, arguments.minutes)
    if "install" in parts:
        print(installs.measure(environment))
    return results


def _hub(environment: Mapping[str, str], arguments: argparse.Namespace) -> list[BudgetResult]:
    background = BackgroundLoad()
    peers = (
        hub.PEERS if arguments.peer is None else [each for each in arguments.peer if each != "none"]
    )
    measured = hub.measure(environment, arguments.nodes, arguments.seconds, peers)
    share = background.share()
    results = _show("one report at a hub under load, CPU", measured.cpu, measured.cpu_pairs, "µs")
    results += _show(
        "the same, p99 of acknowledgements", measured.latency, measured.latency_pairs, "ms"
    )
    results += _show("the same, resident memory", measured.memory, measured.memory_pairs, "MiB")
    print(f"{measured.notes}{background_load_text(share)}\n")
    return results


def _agent(environment: Mapping[str, str]) -> list[BudgetResult]:
    background = BackgroundLoad()
    measured = agent.measure(environment)
    share = background.share()
    results = _show("one report per second, CPU per second", measured.cpu, agent.CPU_PAIRS, "ms")
    results += _show("the same, resident memory", measured.resident, agent.MEMORY_PAIRS, "MiB")
    print(f"{background_load_text(share)}\n")
    return results


def _history(days: int, rounds: int) -> list[BudgetResult]:
    background = BackgroundLoad()
    measured = history.measure(days, rounds)
    share = background.share()
    title = f"the history of 1,000 GPUs, {days} days"
    results = _show(title, measured.sizes, history.SIZE_PAIRS, "MiB")
    results += _show("query times", measured.query_times, history.query_pairs(measured), "ms")
    results += _show("one report of 8 GPUs", measured.costs, history.COST_PAIRS, "µs")
    print(f"{measured.notes}{background_load_text(share)}\n")
    return results


def _page(environment: Mapping[str, str], minutes: float) -> list[BudgetResult]:
    background = BackgroundLoad()
    measured = page.measure(environment, minutes)
    share = background.share()
    results = _show(
        "the page: file sizes and traffic per viewer", measured.sizes, page.SIZE_PAIRS, "kB"
    )
    results += _show("the page in Chromium", measured.times, page.TIME_PAIRS, "ms")
    results += _show("the same, memory", measured.heaps, page.HEAP_PAIRS, "MiB")
    print(f"{measured.notes}{background_load_text(share)}\n")
    return results


def _show(
    title: str, measured: Sequence[MeasurementSeries], pairs: Sequence[Pair], unit: str
) -> list[BudgetResult]:
    print(f"── {title} ──")
    print(series_table(measured, unit), flush=True)
    by_label = {series.label: series for series in measured}
    results = [check_budget(pair, by_label) for pair in pairs]
    if results:
        print(ratio_table(results), flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
