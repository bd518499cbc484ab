"""What may slow work down: found under load, and not on a card that idles as it should."""

from typing import Any

import pytest
from msgspec.structs import replace

from fleet_smi.errors import NotFound
from fleet_smi.model.diagnosis import Diagnosis, diagnose_target
from fleet_smi.model.fleet import NodeView, Note, Verdict
from fleet_smi.model.snapshot import Gpu, Host
from fleet_smi.model.views import NodeParts
from tests.builders import gpu, process

GIB = 1 << 30
BUSY = Verdict(state="busy", reason="alice, 96 %", since=0.0)
FREE = Verdict(state="free", reason="nobody on it", since=0.0)


def working(index: int, **figures: Any) -> Gpu:
    """A GPU under full load, as it should be."""
    sound: dict[str, Any] = {
        "processes": (process(),),
        "busy_percent": 96.0,
        "sm_clock_mhz": 1900,
        "sm_clock_max_mhz": 1980,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "memory_used_bytes": 40 * GIB,
        "temperature_celsius": 60.0,
    }
    return replace(gpu(index), **(sound | figures))


def diagnose(*gpus: tuple[Gpu, Verdict], target: str = "gpu03", **node: Any) -> Diagnosis:
    known: dict[str, Any] = {"taken_at": 0.0, "age_seconds": 1.0, **node}
    view = NodeView(node_id="id-of-gpu03", name="gpu03", **known)
    return diagnose_target([NodeParts(node=view, gpus=gpus)], target, 0.0)


def kinds(found: Diagnosis) -> list[str]:
    return [finding.kind for finding in found.findings]


def test_a_card_that_works_or_idles_as_it_should_has_no_finding() -> None:
    idle = replace(gpu(1), sm_clock_mhz=210, sm_clock_max_mhz=1980, pcie_generation=1)
    found = diagnose((working(0), BUSY), (replace(idle, pcie_generation_max=5), FREE))
    assert (found.gpus, found.findings) == (2, ())


@pytest.mark.parametrize(
    ("figures", "kind", "text"),
    [
        ({"busy_percent": 7.0}, "low_load", "only 7 % busy now"),
        ({"temperature_celsius": 91.0}, "hot", "91 °C"),
        ({"pcie_generation": 1}, "link", "PCIe generation 1 of 5 under load"),
        ({"pcie_width": 4}, "link", "PCIe width 4 of 16"),
        ({"sm_clock_mhz": 900}, "clock", "SM clock 900 of 1980 MHz"),
        ({"throttle_reasons": ("hw_thermal_slowdown",)}, "throttled", "throttled now: thermal"),
        ({"power_watts": 699.0, "power_limit_watts": 700.0}, "power_limit", "limit of 700 W"),
        ({"memory_used_bytes": 80 * GIB - 1}, "memory_full", "its memory is full"),
        ({"processes": (process(1), process(2))}, "processes", "2 processes share it"),
    ],
)
def test_what_slows_a_working_card_is_found(figures: dict[str, Any], kind: str, text: str) -> None:
    found = diagnose((replace(working(0, **figures), memory_total_bytes=80 * GIB), BUSY))
    assert kinds(found) == [kind]
    assert text in found.findings[0].text
    assert found.findings[0].gpu == "gpu03:0"


def test_a_straggler_is_slower_than_its_neighbours_at_the_same_work() -> None:
    slow = working(0, sm_clock_mhz=1200, sm_clock_max_mhz=None)
    assert kinds(diagnose((slow, BUSY), (working(1), BUSY))) == ["straggler"]
    assert kinds(diagnose((slow, BUSY), (working(1), FREE))) == []
    assert kinds(diagnose((slow, BUSY), (working(1, name="NVIDIA L4"), BUSY))) == []


def test_verdicts_and_their_notes_come_first() -> None:
    lost = Verdict(state="broken", reason="fell off the bus", since=0.0)
    shared = replace(BUSY, notes=(Note("shared", "shared by 2"), Note("display", "display")))
    full = Host(cpu_percent=99.0, memory_used_bytes=99 * GIB, memory_total_bytes=100 * GIB)
    found = diagnose((working(0), shared), (gpu(1), lost), host=full)
    assert kinds(found) == ["state", "note", "host_cpu", "host_memory"]
    assert found.findings[0].severity == "problem"
    silent = diagnose((working(0), BUSY), silent=True, age_seconds=240.0)
    assert [finding.text for finding in silent.findings] == [
        "the node is silent for 4 min: nothing is known"
    ]


def test_a_target_is_a_node_a_gpu_or_a_person() -> None:
    pair = ((working(0), BUSY), (working(1, processes=(process(user="bob"),)), BUSY))
    counts = {
        target: diagnose(*pair, target=target).gpus
        for target in ("gpu03", "gpu03:1", "1", pair[1][0].uuid, "user:bob")
    }
    assert counts == {"gpu03": 2, "gpu03:1": 1, "1": 1, pair[1][0].uuid: 1, "user:bob": 1}
    for unknown in ("gpu04", "gpu03:7", "user:carol", ":", ""):
        with pytest.raises(NotFound):
            diagnose(*pair, target=unknown)
