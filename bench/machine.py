"""The simulated machine all programs see: 8 GPUs and 6 real processes."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.peers import BUILD, clean_environment
from sim.build import build
from sim.scenario import GIB, Scenario, SimGpu, SimProcess, scenario_env

GPUS, PROCESSES = 8, 6


@contextmanager
def simulated_machine() -> Iterator[dict[str, str]]:
    """Yield the environment variables for programs; its processes end with the block."""
    driver = BUILD / "driver"
    build(driver)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-smi-bench-")))
        scenario = folder / "scenario"
        _scenario([stack.enter_context(spawn_process()) for _ in range(PROCESSES)]).write(scenario)
        folder.chmod(0o755)
        yield {
            **clean_environment(),
            **scenario_env(driver, scenario),
            "FLEET_SMI_SIM_STATIC": "1",
            "XDG_CONFIG_HOME": str(folder),  # isolate from the user's settings
            "FLEET_SMI_NODE_LEASE_DIR": str(folder / "leases"),
        }


@contextmanager
def spawn_process() -> Iterator[int]:
    """Start a process to list on a GPU and yield its pid."""
    # It reads our pipe, so it ends when this process does, however that happens.
    started = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield started.pid
    finally:
        started.kill()
        started.communicate()


def _scenario(pids: list[int]) -> Scenario:
    busy = [
        SimGpu(
            memory_used=61 * GIB,
            util_gpu=87,
            util_memory=31,
            temperature=64,
            power_usage=512_000,
            clock_sm=1755,
            throttle="sw-power-cap",
            processes=[SimProcess(pid=pid, memory=60 * GIB, sm=85, mem=30)],
        )
        for pid in pids
    ]
    return Scenario(gpus=busy + [SimGpu() for _ in range(GPUS - len(busy))])


def describe_machine() -> str:
    """Describe the machine in one line."""
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"simulated driver, {GPUS} GPUs, {PROCESSES} processes; "
        f"Python {python}, {os.uname().machine}, {os.cpu_count()} cores"
    )


class BackgroundLoad:
    """CPU share used by other processes since construction."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def share(self) -> float:
        """Return the share of all cores used by processes that are not ours."""
        others = _busy_seconds() - self._busy - (_own_seconds() - self._own)
        cores = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return min(1.0, max(0.0, others / cores))


def _busy_seconds() -> float:
    """Return the CPU time of all processes since boot."""
    user, nice, system, _, _, irq, soft, *_ = Path("/proc/stat").read_text().split()[1:9]
    ticks = sum(map(int, (user, nice, system, irq, soft)))
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    return sum(os.times()[:4])
