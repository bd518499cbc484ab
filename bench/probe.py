"""Runs in a measured program's own environment: takes samples, says what each cost.

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
    """The CPU time of this process and of those; the kernel has a clock for every process."""
    clocks = [((~pid) << 3) | 2 for pid in pids]
    return lambda: time.process_time() + sum(time.clock_gettime(clock) for clock in clocks)


def collectors() -> Benchmark:
    """The GPUs and their processes, read and typed in one process: what nvitop's call does."""
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
    """What a command reads, through the reader process; the CPU time of both."""
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
    """What an agent reads, in a thread of its own process."""
    from fleet_smi.node.collectors import ALL_SUBJECTS
    from fleet_smi.node.thread_reader import ThreadWorker

    return _sampler(ThreadWorker, ALL_SUBJECTS), time.process_time


def _sampler(start: Callable[[], Any], subjects: tuple[str, ...]) -> SampleFunction:
    from fleet_smi.node.reader_process import Reader
    from fleet_smi.node.sampler import Sampler

    sampler = Sampler(Reader(start), subjects=subjects)
    snapshot = sampler.sample()
    if not snapshot.gpus or any(run.outcome == "failed" for run in snapshot.runs):
        raise SystemExit(f"the snapshot is not whole: {snapshot.runs}")
    return sampler.sample


def nvitop() -> Benchmark:
    """nvitop's call for the devices and the processes on them."""
    from nvitop import Device, take_snapshots

    devices = Device.all()
    return lambda: take_snapshots(devices), time.process_time


def gpustat() -> Benchmark:
    """gpustat's only call."""
    import gpustat as module

    return module.new_query, time.process_time


def parse_xml() -> Benchmark:
    """The XML of `nvidia-smi -q -x`, as it comes from a machine without an agent."""
    from fleet_smi.wire.parsers.nvidia_smi import parse_xml as parse

    command = ["nvidia-smi", "-q", "-x"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return lambda: parse(text), time.perf_counter


def _snapshots() -> Iterator[Any]:
    """The same snapshot again and again, a second apart."""
    from msgspec.structs import replace

    from fleet_smi.node.reader_process import Reader, spawn_worker
    from fleet_smi.node.sampler import Sampler

    sampler = Sampler(Reader(spawn_worker))
    first = sampler.sample(1.0)
    sampler.close()
    for step in count():
        yield replace(first, taken_at=first.taken_at + step, sequence=step)


def apply() -> Benchmark:
    """One snapshot taken in by the hub: every GPU of it judged."""
    from fleet_smi.fleet.fleet import FleetState

    fleet, snapshots = FleetState(), _snapshots()

    def sample() -> object:
        snapshot = next(snapshots)
        return fleet.apply(snapshot, snapshot.taken_at)

    return sample, time.perf_counter


def view() -> Benchmark:
    """The same, and the view of the fleet after it."""
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
    """Serve until stdin ends."""
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
