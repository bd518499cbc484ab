"""`python -m bench`: this and its peers side by side, as ratios with their budgets."""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence

from bench import agent, cluster_smi, history, hub, imports, page, probes, wall_time
from bench.machine import BackgroundLoad, describe_machine, simulated_machine
from bench.peers import OURS, PEERS, NotAvailable, install
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

PARTS = ("wall", "cpu", "agent", "imports", "pure", "hub", "cluster-smi", "history", "page")


def main() -> int:
    """Measure what is asked for; 1 when a budget is missed, 2 when nothing can be measured."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that our processes end too
    try:
        install(PEERS[OURS])
        with simulated_machine() as environment:
            parts = arguments.only or PARTS
            judged = _measure(parts, environment, arguments)
    except (NotAvailable, BuildFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"\n{budget_summary(judged)}")
    missed = any(one.outcome == "missed" for one in judged)
    return 1 if missed and not arguments.no_fail else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part")
    parser.add_argument("--rounds", type=int, default=25, help="how often each is run (25)")
    parser.add_argument("--minutes", type=float, default=1, help="how long the page is watched (1)")
    parser.add_argument("--days", type=int, default=90, help="how long a past is asked (90)")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 whatever the budgets say")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    if arguments.days < history.MIN_DAYS:
        parser.error(f"--days: at least {history.MIN_DAYS}")
    return arguments


def _measure(
    parts: Sequence[str], environment: Mapping[str, str], arguments: argparse.Namespace
) -> list[BudgetResult]:
    rounds: int = arguments.rounds
    print(f"{describe_machine()}; {rounds} rounds, all in turn\n")
    judged: list[BudgetResult] = []
    if "wall" in parts:
        bystanders = BackgroundLoad()
        measured = wall_time.measure(environment, rounds)
        share = bystanders.share()
        judged += _show("whole commands, wall time", measured, wall_time.PAIRS, "ms")
        print(f"{background_load_text(share)}\n")
    if "cpu" in parts:
        measured = probes.measure(probes.CPU, environment, rounds)
        judged += _show("one sample of a long-lived program, CPU", measured, probes.CPU_PAIRS, "ms")
    if "agent" in parts:
        judged += _agent(environment)
    if "imports" in parts:
        _show("starts, wall time", imports.measure(environment, rounds), (), "ms")
        print(imports.slowest_imports(environment))
    if "pure" in parts:
        measured = probes.measure(probes.PURE, environment, rounds)
        _show("parsing and judging", measured, (), "µs")
    if "hub" in parts:
        bystanders = BackgroundLoad()
        measured, words = hub.measure(environment)
        share = bystanders.share()
        judged += _show("the hub under load", measured, hub.PAIRS, "µs")
        print(f"{words}{background_load_text(share)}\n")
    if "cluster-smi" in parts:
        bystanders = BackgroundLoad()
        measured = cluster_smi.measure(environment, rounds)
        share = bystanders.share()
        judged += _show("a report of cluster-smi, CPU", measured, cluster_smi.PAIRS, "µs")
        print(f"{background_load_text(share)}\n")
    if "history" in parts:
        judged += _history(arguments.days, rounds)
    if "page" in parts:
        judged += _page(environment, arguments.minutes)
    return judged


def _agent(environment: Mapping[str, str]) -> list[BudgetResult]:
    bystanders = BackgroundLoad()
    measured = agent.measure(environment)
    share = bystanders.share()
    judged = _show("one report a second, CPU a second", measured.cpu, agent.CPU_PAIRS, "ms")
    judged += _show("the same, resident memory", measured.resident, agent.MEMORY_PAIRS, "MiB")
    print(f"{background_load_text(share)}\n")
    return judged


def _history(days: int, rounds: int) -> list[BudgetResult]:
    bystanders = BackgroundLoad()
    measured = history.measure(days, rounds)
    share = bystanders.share()
    title = f"the history of 1,000 GPUs, {days} days"
    judged = _show(title, measured.sizes, history.SIZE_PAIRS, "MiB")
    judged += _show("the same, asked", measured.query_times, history.query_pairs(measured), "ms")
    judged += _show("one report of 8 GPUs", measured.costs, history.COST_PAIRS, "µs")
    print(f"{measured.notes}{background_load_text(share)}\n")
    return judged


def _page(environment: Mapping[str, str], minutes: float) -> list[BudgetResult]:
    bystanders = BackgroundLoad()
    measured = page.measure(environment, minutes)
    share = bystanders.share()
    judged = _show(
        "the page, all its files and what a viewer takes", measured.sizes, page.SIZE_PAIRS, "kB"
    )
    judged += _show("the page in Chromium", measured.times, page.TIME_PAIRS, "ms")
    judged += _show("the same, memory", measured.heaps, page.HEAP_PAIRS, "MiB")
    print(f"{measured.notes}{background_load_text(share)}\n")
    return judged


def _show(
    title: str, measured: Sequence[MeasurementSeries], pairs: Sequence[Pair], unit: str
) -> list[BudgetResult]:
    print(f"── {title} ──")
    print(series_table(measured, unit), flush=True)
    by_label = {series.label: series for series in measured}
    judged = [check_budget(pair, by_label) for pair in pairs]
    if judged:
        print(ratio_table(judged), flush=True)
    return judged


if __name__ == "__main__":
    sys.exit(main())
