"""Which NVML queries run at every sample, and which are cached."""

from typing import Any

from fleet_smi.node.bindings.nvml import _run_queries
from fleet_smi.node.bindings.nvml_queries import NvmlCall, NvmlQuery
from sim.scenario import Scenario, SimGpu
from tests.call_count import count_calls
from tests.machines import SimulatedMachine


def _play(machine: SimulatedMachine, gpu: SimGpu) -> None:
    machine.set_scenario(Scenario(gpus=[gpu]))


def test_load_is_read_at_every_sample_and_the_fan_from_a_cache(
    machine: SimulatedMachine,
) -> None:
    _play(machine, SimGpu(util_gpu=10, fan=30))
    machine.snapshot()
    _play(machine, SimGpu(util_gpu=90, fan=80))
    (gpu,) = machine.snapshot().gpus
    assert (gpu.busy_percent, gpu.fan_percent) == (90, 30)


def test_transient_errors_are_not_cached(machine: SimulatedMachine) -> None:
    _play(machine, SimGpu(fan=30, faults={"FanSpeed": "unknown"}))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fan_percent is None
    _play(machine, SimGpu(fan=80))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fan_percent == 80


def test_permanent_errors_are_cached(machine: SimulatedMachine) -> None:
    _play(machine, SimGpu(fan=None))
    machine.snapshot()
    _play(machine, SimGpu(fan=80))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fan_percent is None


def test_a_query_makes_no_call_beside_that_of_the_driver_and_that_for_the_value() -> None:
    call = NvmlCall(lambda _handle: 0, (), lambda: 7)
    queries = tuple([NvmlQuery(f"field {number}", call) for number in range(10)])
    device: dict[str, Any] = {"values": {}, "errors": {}}
    # A built-in method is not counted, however often a busy machine reports progress.
    calls = count_calls(lambda: _run_queries(None, queries, device, [].clear))
    assert len(device["values"]) == 10
    assert calls <= 2 * 10 + 2
