"""CPU, memory and latency of a server under load, in windows of a few seconds."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.line_program import LineProgram
from bench.peers import NotAvailable

WINDOW_SECONDS = 5  # a load generator prints a line this often
_WARM_UP_WINDOWS = 2
_NODES_PER_WARM_UP_WINDOW = 2000
_LINE = re.compile(r"(\d+) acknowledged, (\d+) failed(?:.*p99 ([\d.]+) ms)?")
_BODIES = re.compile(r"(\d+) bytes each, ([\d.]+) % compact")


@dataclass(frozen=True, kw_only=True)
class LoadWindow:
    """One measuring window of a few seconds."""

    seconds: float
    acknowledged: int
    failed: int
    p99_milliseconds: float
    server_cpu_seconds: float
    load_cpu_seconds: float
    body_bytes: float = 0.0
    compact_percent: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LoadTotals:
    """Windows put together."""

    reports_per_second: float
    failed: int
    worst_p99_milliseconds: float
    core_share: float
    body_bytes: float
    compact_percent: float


def total(windows: Sequence[LoadWindow]) -> LoadTotals:
    """Put windows together."""
    seconds = sum(one.seconds for one in windows)
    return LoadTotals(
        reports_per_second=sum(one.acknowledged for one in windows) / seconds,
        failed=sum(one.failed for one in windows),
        worst_p99_milliseconds=max(one.p99_milliseconds for one in windows),
        core_share=sum(one.server_cpu_seconds for one in windows) / seconds,
        body_bytes=sum(one.body_bytes for one in windows) / len(windows),
        compact_percent=sum(one.compact_percent for one in windows) / len(windows),
    )


def costs_per_report(windows: Sequence[LoadWindow]) -> tuple[float, ...]:
    """Return the CPU seconds of the server per acknowledged report, of each window."""
    return tuple(one.server_cpu_seconds / one.acknowledged for one in windows)


def warm_up(load: LineProgram, nodes: int) -> None:
    """Wait until all nodes have joined, which takes longer the more they are, and reported."""
    for _ in range(_WARM_UP_WINDOWS + nodes // _NODES_PER_WARM_UP_WINDOW):
        load.read_line()


def measure_windows(server_pid: int, load: LineProgram, seconds: float) -> Iterator[LoadWindow]:
    """Yield a window for each line that the load generator prints, for so many seconds."""
    at, server_cpu, load_cpu = time.monotonic(), cpu_seconds(server_pid), cpu_seconds(load.pid)
    for _ in range(max(1, round(seconds / WINDOW_SECONDS))):
        line = load.read_line()
        acknowledged, failed, p99 = parse_load_line(line)
        body_bytes, compact_percent = parse_bodies(line)
        began, server_before, load_before = at, server_cpu, load_cpu
        at = time.monotonic()
        server_cpu, load_cpu = cpu_seconds(server_pid), cpu_seconds(load.pid)
        yield LoadWindow(
            seconds=at - began,
            acknowledged=acknowledged,
            failed=failed,
            p99_milliseconds=p99,
            server_cpu_seconds=server_cpu - server_before,
            load_cpu_seconds=load_cpu - load_before,
            body_bytes=body_bytes,
            compact_percent=compact_percent,
        )


def parse_load_line(line: str) -> tuple[int, int, float]:
    """Acknowledged and failed reports of a load, and the p99 latency in ms."""
    match = _LINE.search(line)
    if match is None or not int(match[1]):
        raise NotAvailable(f"no report came through: {line.strip()}")
    return int(match[1]), int(match[2]), float(match[3])


def parse_bodies(line: str) -> tuple[float, float]:
    """Bytes of a report on average, and the percentage of compact ones; 0 where it has neither."""
    match = _BODIES.search(line)
    return (0.0, 0.0) if match is None else (float(match[1]), float(match[2]))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time used by a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
