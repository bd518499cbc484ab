"""The hub under load: CPU per report with 2,000 nodes and 20 stream subscribers."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.line_program import LineProgram
from bench.loaded_hub import loaded_hub, parse_load_line
from bench.peers import NotAvailable
from bench.report import MeasurementSeries, Pair

NODES, GPUS, LISTENERS = 2000, 8, 20
_WARM_UP_LINES, _LINES = 2, 6  # the load generator prints a line every five seconds
_KEPT_UP = 0.95

HUB, LOAD = "hub, CPU of one report", "load generator, CPU of one report"
TARGET, ONE_CORE = "the aim", f"one core at {NODES:,} reports/s"
PAIRS = (
    Pair(ours=HUB, theirs=TARGET, budget=1.0),
    Pair(ours=HUB, theirs=ONE_CORE, budget=1.0),
)
_LIMITS = (
    MeasurementSeries(label=TARGET, values=(70e-6,)),
    MeasurementSeries(label=ONE_CORE, values=(1 / NODES,)),
)


@dataclass(frozen=True, kw_only=True)
class HubWindow:
    """One measuring window of a few seconds."""

    seconds: float
    acknowledged: int
    failed: int
    p99_milliseconds: float
    hub_cpu_seconds: float
    load_cpu_seconds: float


@dataclass(frozen=True, kw_only=True)
class HubRun:
    """The windows after warm-up, and the totals at the end."""

    windows: tuple[HubWindow, ...]
    hub_bytes: int
    listener_bytes_per_second: float
    delays: tuple[float, ...]


def measure(environment: Mapping[str, str]) -> tuple[list[MeasurementSeries], str]:
    """Return the cost per report in each window, and notes."""
    try:
        run = _run(environment)
    except NotAvailable as reason:
        return [MeasurementSeries(label=HUB, note=f"does not run: {reason}"), *_LIMITS], ""
    hub = tuple(one.hub_cpu_seconds / one.acknowledged for one in run.windows)
    load = tuple(one.load_cpu_seconds / one.acknowledged for one in run.windows)
    return [
        MeasurementSeries(label=HUB, values=hub),
        MeasurementSeries(label=LOAD, values=load),
        *_LIMITS,
    ], describe_run(run)


def describe_run(run: HubRun) -> str:
    """Return further facts about a run, one line each."""
    seconds = sum(one.seconds for one in run.windows)
    rate = sum(one.acknowledged for one in run.windows) / seconds
    share = sum(one.hub_cpu_seconds for one in run.windows) / seconds
    p99 = max(one.p99_milliseconds for one in run.windows)
    failed = sum(one.failed for one in run.windows)
    lines = [
        f"{NODES:,} nodes × {GPUS} GPUs: {rate:.0f} reports/s acknowledged, {failed} failed",
        f"acknowledged within {p99:.1f} ms (the worst window's 99 of 100)",
        f"hub: {share:.2f} of a core, {run.hub_bytes / 2**20:.0f} MiB resident",
        f"{LISTENERS} listeners: {run.listener_bytes_per_second / 1024:.0f} KiB/s each, gzip",
    ]
    if rate < _KEPT_UP * NODES:
        lines.insert(0, f"THE HUB DID NOT KEEP UP: {rate:.0f} of {NODES:,} reports/s")
    if run.delays:
        late = f"{1000 * median(run.delays):.0f} ms, at most {1000 * max(run.delays):.0f} ms"
        lines.append(f"from event to listener: {late}, of {len(run.delays)} events")
    return "\n".join(lines) + "\n"


def _run(environment: Mapping[str, str]) -> HubRun:
    with loaded_hub(environment) as hub:
        listeners, load = hub.start_listeners(LISTENERS), hub.start_load(NODES, GPUS)
        for _ in range(_WARM_UP_LINES):
            load.read_line()
        listeners.request()
        windows = tuple(_windows(hub.program, load))
        received = json.loads(listeners.request())
        return HubRun(
            windows=windows,
            hub_bytes=_resident_bytes(hub.program.pid),
            listener_bytes_per_second=received["bytes"] / sum(one.seconds for one in windows),
            delays=tuple(received["delays"]),
        )


def _windows(hub: LineProgram, load: LineProgram) -> Iterator[HubWindow]:
    """Yield a window for each line that the load generator prints."""
    at, hub_cpu, load_cpu = time.monotonic(), cpu_seconds(hub.pid), cpu_seconds(load.pid)
    for _ in range(_LINES):
        acknowledged, failed, p99 = parse_load_line(load.read_line())
        began, hub_before, load_before = at, hub_cpu, load_cpu
        at, hub_cpu, load_cpu = time.monotonic(), cpu_seconds(hub.pid), cpu_seconds(load.pid)
        yield HubWindow(
            seconds=at - began,
            acknowledged=acknowledged,
            failed=failed,
            p99_milliseconds=p99,
            hub_cpu_seconds=hub_cpu - hub_before,
            load_cpu_seconds=load_cpu - load_before,
        )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time used by a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
