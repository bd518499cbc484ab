"""Which samples are steady: by all fields of a GPU that a state depends on."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.model.snapshot import Fault, Gpu, Lease
from fleet_smi.model.units import GIB, MIB
from fleet_smi.model.verdict.hysteresis import SampleTiming, apply_sample
from fleet_smi.model.verdict.live_standing import NO_SAMPLE, LiveStanding, SampleStep
from fleet_smi.model.verdict.thresholds import Thresholds
from tests.builders import NOON, gpu, instance, process

# A state depends on these; another value is judged in full.
COMPARED: dict[str, Any] = {
    "lease": Lease(holder="alice", taken_at=NOON),
    "fault": Fault(kind="lost", detail=""),
    "ecc_uncorrected": 2,
    "ecc_contained": True,
    "asleep": True,
    "compute_mode": "prohibited",
    "mig_mode": True,
    "instances": (instance(),),
    "processes": (process(),),
    "processes_hidden": True,
    "memory_shared": True,
    "memory_total_bytes": 24 * GIB,
    "power_limit_watts": 350.0,
    "vendor": "amd",
    "throttle_reasons": ("hw_slowdown",),
}
# On these only while they cross a threshold: a value far beyond it is judged in full.
READINGS: dict[str, Any] = {
    "memory_used_bytes": 30 * GIB,
    "busy_percent": None,
    "power_watts": 650.0,
}
# The video engines count where they are busier than the cores, for some samples in a row.
VIDEO = {"encoder_percent", "decoder_percent"}
# No state depends on these: at most a reason, a note, or how the device is shown.
WORDS = {
    "uuid",
    "uuid_is_made",
    "index",
    "name",
    "pci_bus_id",
    "memory_busy_percent",
    "temperature_celsius",
    "fan_percent",
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "memory_clock_mhz",
    "memory_clock_max_mhz",
    "performance_state",
    "ecc_corrected",
    "reset_pending",
    "pcie_generation",
    "pcie_generation_max",
    "pcie_width",
    "pcie_width_max",
    "pcie_rx_bytes_per_second",
    "pcie_tx_bytes_per_second",
    "nvlink_links",
    "nvlink_links_active",
    "nvlink_rx_bytes_per_second",
    "nvlink_tx_bytes_per_second",
    "memory_temperature_celsius",
    "energy_joules",
    "persistence",
    "more_processes",
    "reported_by",
    "unread",
}


def settled(card: Gpu) -> LiveStanding:
    """A GPU after a few samples."""
    live = LiveStanding(apply_sample(None, card, card, SampleTiming(NOON), Thresholds()))
    for second in (1, 2, 3):
        live.judge(card, card, SampleTiming(NOON + second), Thresholds(), NO_SAMPLE)
    return live


def is_steady(live: LiveStanding, card: Gpu, before: Gpu) -> bool:
    step = SampleStep(NOON + 4, NOON + 3, 0.01, Thresholds())
    return live.has_same_use(card, before) and live.add_steady(
        card.busy_percent,
        card.encoder_percent,
        card.decoder_percent,
        card.memory_used_bytes,
        card.power_watts,
        step,
        card.processes,
    )


def test_it_is_known_of_every_field_of_a_gpu_whether_a_state_depends_on_it() -> None:
    assert {*COMPARED, *READINGS, *VIDEO, *WORDS} == {*Gpu.__struct_fields__}


@pytest.mark.parametrize("field", [*COMPARED, *READINGS])
def test_a_sample_that_may_change_the_state_is_not_steady(field: str) -> None:
    card, live = gpu(), settled(gpu())
    changed = replace(card, **{field: (COMPARED | READINGS)[field]})
    assert not is_steady(live, changed, card)
    assert is_steady(live, card, card)


def test_readings_within_their_bands_are_steady() -> None:
    card = gpu()
    moved = replace(
        card,
        memory_used_bytes=500 * MIB,
        power_watts=90.0,
        busy_percent=3.0,
        temperature_celsius=40.0,
        reset_pending="rows wait",
    )
    assert is_steady(settled(card), moved, card)


def test_power_decides_where_the_load_is_not_measured() -> None:
    card = gpu(busy_percent=None, processes=(process(),))
    assert is_steady(settled(card), replace(card, power_watts=60.0), card)
    assert not is_steady(settled(card), replace(card, power_watts=600.0), card)


def test_work_that_pauses_is_steady_until_it_has_paused_for_the_idle_window() -> None:
    card = gpu(busy_percent=90.0, processes=(process(),))
    live, pausing = settled(card), replace(card, busy_percent=0.0)
    thresholds, at = Thresholds(), NOON + 3
    steady = []
    while at < NOON + 700:
        step = SampleStep(at + 1, at, 0.001, thresholds)
        if not live.add_steady(0.0, None, None, 0, 600.0, step):
            break
        steady.append(at + 1)
        at += 1
    assert NOON + 590 < steady[-1] < NOON + 603
    assert live.has_same_use(pausing, card)
