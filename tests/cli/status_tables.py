"""GPUs in use for the tests of `fleet-smi status`, and the states in its table."""

import subprocess

from sim.scenario import GIB, SimGpu, SimProcess


def taken(pid: int, gib: int, load: int) -> SimGpu:
    """Return a GPU with one process of that memory, under that load in percent."""
    process = SimProcess(pid=pid, memory=gib * GIB)
    return SimGpu(processes=[process], memory_used=(gib + 1) * GIB, util_gpu=load)


def states(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the state in each row of a printed table."""
    rows = (line.split() for line in done.stdout.splitlines())
    return [row[1] for row in rows if len(row) > 1 and row[0].isdigit()]
