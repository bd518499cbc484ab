"""Shared by the verdict cases that go through the simulated driver."""

from typing import Any

from fleet_smi.model.fleet import Verdict
from sim.scenario import GIB, MIB, SimGpu, SimProcess

HOURS_3 = 3 * 3600.0

MINUTES_12 = 720.0

BUSY_WATTS, IDLE_WATTS = 600_000, 70_000

NO_LISTS = {
    "ComputeRunningProcesses": "no-permission",
    "GraphicsRunningProcesses": "no-permission",
    "MPSComputeRunningProcesses": "no-permission",
}


def busy(pid: int, memory: int = 16 * GIB, **fields: Any) -> SimGpu:
    """Return a GPU with one process of that memory."""
    return SimGpu(
        processes=[SimProcess(pid=pid, memory=memory)], memory_used=memory + 300 * MIB, **fields
    )


def assert_verdict(verdict: Verdict, state: str, reason: str) -> None:
    """Check the state of a verdict, and a part of its reason."""
    assert (verdict.state, reason in verdict.reason) == (state, True), verdict
