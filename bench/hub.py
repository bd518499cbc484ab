"""The hub under load: what one report costs it, with 2,000 nodes and 20 listeners."""

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.peers import OURS, PEERS, NotAvailable, last_error
from bench.program import Program
from bench.report import Pair, Series

NODES, GPUS, LISTENERS = 2000, 8, 20
_WARM_UP_LINES, _LINES = 2, 6  # the load says a line every five seconds
_KEPT_UP = 0.95
_LISTENERS = Path(__file__).with_name("listeners.py")
_LINE = re.compile(r"(\d+) acknowledged, (\d+) failed(?:.*p99 ([\d.]+) ms)?")

HUB, LOAD = "hub, CPU of one report", "load generator, CPU of one report"
AIM, ONE_CORE = "the aim", f"one core at {NODES:,} reports/s"
PAIRS = (
    Pair(ours=HUB, theirs=AIM, budget=1.0),
    Pair(ours=HUB, theirs=ONE_CORE, budget=1.0),
)
_LIMITS = (
    Series(label=AIM, values=(70e-6,)),
    Series(label=ONE_CORE, values=(1 / NODES,)),
)


@dataclass(frozen=True, kw_only=True)
class Window:
    """A few seconds of the run."""

    seconds: float
    acknowledged: int
    failed: int
    p99_milliseconds: float
    hub_cpu_seconds: float
    load_cpu_seconds: float


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was measured: the windows after the warm-up, and what stands at their end."""

    windows: tuple[Window, ...]
    hub_bytes: int
    listener_bytes_per_second: float
    delays: tuple[float, ...]


def measure(environment: Mapping[str, str]) -> tuple[list[Series], str]:
    """The cost of a report in each window, and the rest in words."""
    try:
        run = _run(environment)
    except NotAvailable as reason:
        return [Series(label=HUB, note=f"does not run: {reason}"), *_LIMITS], ""
    hub = tuple(one.hub_cpu_seconds / one.acknowledged for one in run.windows)
    load = tuple(one.load_cpu_seconds / one.acknowledged for one in run.windows)
    return [Series(label=HUB, values=hub), Series(label=LOAD, values=load), *_LIMITS], words(run)


def words(run: Run) -> str:
    """What else there is to know of a run, a line each."""
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


def _run(environment: Mapping[str, str]) -> Run:
    program, python = str(PEERS[OURS].program("fleet-smi")), str(PEERS[OURS].python)
    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-smi-bench-"))
        token = _join_token(program, state, environment)
        port = _free_port()

        def start(*line: str) -> Program:
            return stack.enter_context(Program(list(line), environment))

        hub = start(program, "hub", "--listen", f"127.0.0.1:{port}", "--state", state)
        hub.line()  # it says where it listens
        listeners = start(python, "-I", str(_LISTENERS), str(port), str(LISTENERS))
        size = ("--nodes", str(NODES), "--gpus", str(GPUS))
        load = start(
            program, "simulate", *size, "--to", f"http://127.0.0.1:{port}", "--join", token
        )
        for _ in range(_WARM_UP_LINES):
            load.line()
        listeners.ask()
        windows = tuple(_windows(hub, load))
        heard = json.loads(listeners.ask())
        return Run(
            windows=windows,
            hub_bytes=_resident_bytes(hub.pid),
            listener_bytes_per_second=heard["bytes"] / sum(one.seconds for one in windows),
            delays=tuple(heard["delays"]),
        )


def _windows(hub: Program, load: Program) -> Iterator[Window]:
    """One for each line that the load says; it has just said one."""
    at, hub_cpu, load_cpu = time.monotonic(), cpu_seconds(hub.pid), cpu_seconds(load.pid)
    for _ in range(_LINES):
        acknowledged, failed, p99 = parse_line(load.line())
        began, hub_before, load_before = at, hub_cpu, load_cpu
        at, hub_cpu, load_cpu = time.monotonic(), cpu_seconds(hub.pid), cpu_seconds(load.pid)
        yield Window(
            seconds=at - began,
            acknowledged=acknowledged,
            failed=failed,
            p99_milliseconds=p99,
            hub_cpu_seconds=hub_cpu - hub_before,
            load_cpu_seconds=load_cpu - load_before,
        )


def parse_line(line: str) -> tuple[int, int, float]:
    """How many reports were acknowledged and failed, and the 99th of 100 delays in ms."""
    match = _LINE.search(line)
    if match is None or not int(match[1]):
        raise NotAvailable(f"no report came through: {line.strip()}")
    return int(match[1]), int(match[2]), float(match[3])


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _join_token(program: str, state: str, environment: Mapping[str, str]) -> str:
    line = [program, "hub", "token", "add", "--role", "join", "--state", state]
    done = subprocess.run(line, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAvailable(last_error(done.stderr))
    return done.stdout.strip()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
