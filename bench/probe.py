"""Runs inside a benchmarked program's environment: takes samples and prints the cost of each.

Started as a file, so it imports nothing of this project but what is installed. For each line
with a number on stdin it takes that many samples and prints the seconds of one.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

SampleFunction = Callable[[], object]
ClockFunction = Callable[[], float]
Benchmark = tuple[SampleFunction, ClockFunction]


def _cpu_of(pids: list[int]) -> ClockFunction:
    """Return the CPU time of this process and the given ones, by their kernel clocks."""
    clocks = [((~pid) << 3) | 2 for pid in pids]
    return lambda: time.process_time() + sum(time.clock_gettime(clock) for clock in clocks)


def collectors() -> Benchmark:
    """GPUs and processes, read and parsed in one process, like nvitop's call."""
    from fleet_smi.node.collector import load_collector
    from fleet_smi.node.reader_worker import load_binding

    gpus, processes = load_binding("nvidia"), load_binding("processes")
    typed_gpus, typed_processes = load_collector("nvidia"), load_collector("processes")

    def sample() -> object:
        part = typed_gpus.parse(gpus())
        pids = tuple(process.pid for gpu in part.gpus for process in gpu.processes or ())
        return part, typed_processes.parse(processes("/", pids))

    return sample, time.process_time


def quick() -> Benchmark:
    """A quick sample through the reader process; CPU time of both processes."""
    from fleet_smi.node.collectors import QUICK_SUBJECTS
    from fleet_smi.node.reader_process import ProcessWorker, spawn_worker

    pids: list[int] = []

    def start() -> ProcessWorker:
        child = spawn_worker()
        pids.append(child.pid)
        return child

    take = _sampler(start, QUICK_SUBJECTS)
    if len(pids) != 1:
        raise SystemExit(f"{len(pids)} readers were started, not one")
    return take, _cpu_of(pids)


def full() -> Benchmark:
    """A full sample as an agent takes it, in a thread."""
    from fleet_smi.node.collectors import ALL_SUBJECTS
    from fleet_smi.node.thread_reader import ThreadWorker

    return _sampler(ThreadWorker, ALL_SUBJECTS), time.process_time


def _sampler(start: Callable[[], Any], subjects: tuple[str, ...]) -> SampleFunction:
    from fleet_smi.node.reader import Reader
    from fleet_smi.node.sampler import Sampler

    sampler = Sampler(Reader(start), subjects=subjects)
    snapshot = sampler.sample()
    if not snapshot.gpus or any(run.outcome == "failed" for run in snapshot.runs):
        raise SystemExit(f"the snapshot is not whole: {snapshot.runs}")
    return sampler.sample


def nvitop() -> Benchmark:
    """nvitop's snapshot of devices and processes."""
    from nvitop import Device, take_snapshots

    devices = Device.all()
    return lambda: take_snapshots(devices), time.process_time


def gpustat() -> Benchmark:
    """gpustat's query."""
    import gpustat as module

    return module.new_query, time.process_time


def parse_xml() -> Benchmark:
    """Parse the XML of `nvidia-smi -q -x`."""
    from fleet_smi.wire.parsers.nvidia_smi import parse_xml as parse

    command = ["nvidia-smi", "-q", "-x"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return lambda: parse(text), time.perf_counter


def _snapshots() -> Iterator[Any]:
    """Yield the same snapshot repeatedly, one second apart."""
    from msgspec.structs import replace

    from fleet_smi.node.reader import Reader
    from fleet_smi.node.reader_process import spawn_worker
    from fleet_smi.node.sampler import Sampler

    sampler = Sampler(Reader(spawn_worker))
    first = sampler.sample(1.0)
    sampler.close()
    for step in count():
        yield replace(first, taken_at=first.taken_at + step, sequence=step)


def apply() -> Benchmark:
    """Apply one snapshot to a fleet, with the verdict on each GPU."""
    from fleet_smi.fleet.fleet import FleetState

    fleet, snapshots = FleetState(), _snapshots()

    def sample() -> object:
        snapshot = next(snapshots)
        return fleet.apply(snapshot, snapshot.taken_at)

    return sample, time.perf_counter


def view() -> Benchmark:
    """Apply one snapshot and build the fleet view."""
    from fleet_smi.fleet.fleet import FleetState

    fleet, snapshots = FleetState(), _snapshots()

    def sample() -> object:
        snapshot = next(snapshots)
        fleet.apply(snapshot, snapshot.taken_at)
        return fleet.view(snapshot.taken_at)

    return sample, time.perf_counter


BENCHMARKS: dict[str, Callable[[], Benchmark]] = {
    work.__name__: work
    for work in (collectors, quick, full, nvitop, gpustat, parse_xml, apply, view)
}


def main() -> None:
    """Take samples on request until standard input ends."""
    sample, clock = BENCHMARKS[sys.argv[1]]()
    sample()
    for line in sys.stdin:
        samples = int(line)
        began = clock()
        for _ in range(samples):
            sample()
        print((clock() - began) / samples, flush=True)


if __name__ == "__main__":
    main()
