"""Which NVML queries run at every sample, and which are cached."""

import time
from dataclasses import replace
from typing import Any

import pytest

from fleet_smi.node.bindings.nvml import _run_queries
from fleet_smi.node.bindings.nvml_queries import NvmlCall, NvmlQuery
from sim.scenario import KIB, MIB, Scenario, SimGpu
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


def test_nvlink_has_links_active_ones_and_their_traffic_since_the_last_reading(
    machine: SimulatedMachine,
) -> None:
    # With an error that may pass, the slow values are read at every sample.
    linked = SimGpu(nvlink_links=18, nvlink_active=17, faults={"FanSpeed": "unknown"})
    _play(machine, linked)
    (gpu,) = machine.snapshot().gpus
    assert (gpu.nvlink_links, gpu.nvlink_links_active) == (18, 17)
    assert (gpu.nvlink_rx_bytes_per_second, gpu.nvlink_tx_bytes_per_second) == (None, None)
    before = time.monotonic()
    _play(machine, replace(linked, nvlink_active=0, nvlink_rx=8 * MIB, nvlink_tx=4 * MIB))
    (gpu,) = machine.snapshot().gpus
    assert (gpu.nvlink_links, gpu.nvlink_links_active) == (18, 0)
    received, sent = gpu.nvlink_rx_bytes_per_second, gpu.nvlink_tx_bytes_per_second
    assert received is not None
    assert sent is not None
    assert 8 * MIB * KIB / (time.monotonic() - before + 60) < received
    assert received == pytest.approx(2 * sent)
    # The driver was loaded again: its counters start from 0.
    _play(machine, replace(linked, nvlink_rx=1))
    assert machine.snapshot().gpus[0].nvlink_rx_bytes_per_second is None


def test_a_card_without_nvlink_has_no_links_and_not_0_of_them(machine: SimulatedMachine) -> None:
    _play(machine, SimGpu())
    (gpu,) = machine.snapshot().gpus
    assert (gpu.nvlink_links, gpu.nvlink_links_active) == (None, None)
    assert not [field for field in gpu.unread if field.startswith("nvlink")]


def test_links_that_may_not_be_read_have_a_reason(machine: SimulatedMachine) -> None:
    _play(machine, SimGpu(nvlink_links=4, faults={"NvLinkState": "no-permission"}))
    (gpu,) = machine.snapshot().gpus
    assert gpu.nvlink_links is None
    assert "permission" in gpu.unread["nvlink_links"]


def test_a_query_makes_no_call_beside_that_of_the_driver_and_that_for_the_value() -> None:
    call = NvmlCall(lambda _handle: 0, (), lambda: 7)
    queries = tuple([NvmlQuery(f"field {number}", call) for number in range(10)])
    device: dict[str, Any] = {"values": {}, "errors": {}}
    # A built-in method is not counted, however often a busy machine reports progress.
    calls = count_calls(lambda: _run_queries(None, queries, device, [].clear))
    assert len(device["values"]) == 10
    assert calls <= 2 * 10 + 2
