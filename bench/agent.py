"""CPU and memory of the agent at one report per second, beside its peers' loops."""

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.machine import GPUS, spawn_process
from bench.peers import OURS, PEERS, NotAvailable, PeerTool, install
from bench.report import MeasurementSeries, Pair
from sim.scenario import GIB, Scenario, SimGpu, SimProcess

PROCESSES = 10
SECONDS = 30
_WARM_UP_SECONDS = 4
_WINDOW_SECONDS = 5
_PROBE = Path(__file__).with_name("probe.py")
_RECEIPT = b'{"hub":"bench","kept":1000000000}'

AGENT = "fleet-smi agent, sending"
NVITOP, GPUSTAT = "nvitop take_snapshots in a loop", "gpustat new_query in a loop"
CPU_BUDGET, MEMORY_BUDGET = "0.2 % of a core", "30 MiB"
CPU_PAIRS = (
    Pair(ours=AGENT, theirs=CPU_BUDGET, budget=1.0),
    Pair(ours=AGENT, theirs=NVITOP),
    Pair(ours=AGENT, theirs=GPUSTAT),
)
MEMORY_PAIRS = (
    Pair(ours=AGENT, theirs=MEMORY_BUDGET, budget=1.0),
    Pair(ours=AGENT, theirs=NVITOP),
    Pair(ours=AGENT, theirs=GPUSTAT),
)
_BUDGETS = {CPU_BUDGET: (0.002, 0), MEMORY_BUDGET: (0, 30 << 20)}


@dataclass
class _Loop:
    """A program that samples once per second, and its usage per window."""

    label: str
    started: subprocess.Popen[bytes]
    cpu: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)

    def pids(self) -> list[int]:
        pid = self.started.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes, by their kernel clocks."""
        return sum(time.clock_gettime(((~pid) << 3) | 2) for pid in self.pids())

    def note_memory(self) -> None:
        self.resident.append(sum(map(_resident_bytes, self.pids())))

    def tick(self) -> None:
        """Request a sample, unless the program has its own timer."""
        if self.started.stdin is not None:
            self.started.stdin.write(b"1\n")
            self.started.stdin.flush()


@dataclass(frozen=True, kw_only=True)
class AgentMeasurement:
    """CPU seconds per second and resident bytes of all processes of each program."""

    cpu: list[MeasurementSeries]
    resident: list[MeasurementSeries]


def measure(environment: Mapping[str, str], seconds: int = SECONDS) -> AgentMeasurement:
    """Run all loops concurrently on a machine of 8 GPUs and 10 processes."""
    with ExitStack() as stack:
        environment = stack.enter_context(_crowded(environment))
        loops, notes = [stack.enter_context(_agent(environment))], {}
        for label, name in ((NVITOP, "nvitop"), (GPUSTAT, "gpustat")):
            try:
                install(PEERS[name])
            except NotAvailable as reason:
                notes[label] = f"not available: {reason}"
            else:
                loops.append(stack.enter_context(_peer(label, PEERS[name], environment)))
        _watch(loops, _WARM_UP_SECONDS)
        for loop in loops:
            loop.cpu.clear()
        for _ in range(max(1, seconds // _WINDOW_SECONDS)):
            _watch(loops, _WINDOW_SECONDS)
    return AgentMeasurement(
        cpu=[_series(loop.label, loop.cpu) for loop in loops] + _others(notes, 0),
        resident=[_series(loop.label, loop.resident) for loop in loops] + _others(notes, 1),
    )


def _watch(loops: Sequence[_Loop], seconds: int) -> None:
    """Measure one window in which every loop samples once per second."""
    before, began = [loop.cpu_seconds() for loop in loops], time.monotonic()
    for second in range(1, seconds + 1):
        for loop in loops:
            loop.tick()
        time.sleep(max(0.0, began + second - time.monotonic()))
    took = time.monotonic() - began
    for loop, used in zip(loops, before, strict=True):
        loop.cpu.append((loop.cpu_seconds() - used) / took)
        loop.note_memory()


def _series(label: str, values: Sequence[float]) -> MeasurementSeries:
    return MeasurementSeries(label=label, values=tuple(values))


def _others(notes: Mapping[str, str], which: int) -> list[MeasurementSeries]:
    """Return the peers that are not available, and the budget as a series to compare with."""
    missing = [MeasurementSeries(label=label, note=note) for label, note in notes.items()]
    budgets = {label: both[which] for label, both in _BUDGETS.items() if both[which]}
    return [*missing, *(_series(label, [value]) for label, value in budgets.items())]


def _resident_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.partition("\nRss:")[2].split()[0]) << 10


@contextmanager
def _agent(environment: Mapping[str, str]) -> Iterator[_Loop]:
    with ExitStack() as stack:
        state = stack.enter_context(TemporaryDirectory(prefix="fleet-smi-bench-"))
        sink = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), _Sink))
        sink.daemon_threads = True
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        stack.callback(sink.shutdown)
        where = ("--to", f"http://127.0.0.1:{sink.server_port}", "--state", state)
        program = str(PEERS[OURS].program("fleet-smi"))
        command = [program, "agent", *where, "--interval", "1"]
        started = stack.enter_context(_started(command, environment, None))
        yield _Loop(AGENT, started)


@contextmanager
def _peer(label: str, peer: PeerTool, environment: Mapping[str, str]) -> Iterator[_Loop]:
    command = [str(peer.python), "-I", str(_PROBE), peer.name]
    with _started(command, environment, subprocess.PIPE) as started:
        yield _Loop(label, started)


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], stdin: int | None
) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(
        command, env=dict(environment), stdin=stdin, stdout=subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        started.terminate()
        started.communicate()


@contextmanager
def _crowded(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Return a machine with all GPUs busy and the given number of processes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fleet-smi-bench-")))
        pids = [stack.enter_context(spawn_process()) for _ in range(PROCESSES)]
        Scenario(gpus=[_gpu(pids[index::GPUS]) for index in range(GPUS)]).write(folder / "scenario")
        yield {**environment, "FLEET_SMI_SIM": str(folder / "scenario")}


def _gpu(pids: Sequence[int]) -> SimGpu:
    running = [SimProcess(pid=pid, memory=30 * GIB, sm=40, mem=15) for pid in pids]
    return SimGpu(memory_used=61 * GIB, util_gpu=87, power_usage=512_000, processes=running)


class _Sink(BaseHTTPRequestHandler):
    """A hub that acknowledges every report as durable."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_RECEIPT)))
        self.end_headers()
        self.wfile.write(_RECEIPT)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""
