"""Which NVML queries run at every sample, and which are cached."""

from sim.scenario import Scenario, SimGpu
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
