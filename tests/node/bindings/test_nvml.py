"""What NVML is asked at every look, and what only now and then."""

from sim.scenario import Scenario, SimGpu
from tests.machines import SimulatedMachine


def _play(machine: SimulatedMachine, gpu: SimGpu) -> None:
    machine.set_scenario(Scenario(gpus=[gpu]))


def test_load_is_asked_at_every_look_and_the_fan_only_now_and_then(
    machine: SimulatedMachine,
) -> None:
    _play(machine, SimGpu(util_gpu=10, fan=30))
    machine.snapshot()
    _play(machine, SimGpu(util_gpu=90, fan=80))
    (gpu,) = machine.snapshot().gpus
    assert (gpu.busy_percent, gpu.fan_percent) == (90, 30)


def test_what_may_pass_is_asked_about_again_at_once(machine: SimulatedMachine) -> None:
    _play(machine, SimGpu(fan=30, faults={"FanSpeed": "unknown"}))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fan_percent is None
    _play(machine, SimGpu(fan=80))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fan_percent == 80


def test_what_cannot_be_told_is_not_asked_again(machine: SimulatedMachine) -> None:
    _play(machine, SimGpu(fan=None))
    machine.snapshot()
    _play(machine, SimGpu(fan=80))
    (gpu,) = machine.snapshot().gpus
    assert gpu.fan_percent is None
