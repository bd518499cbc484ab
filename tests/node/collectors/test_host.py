"""The machine itself, from the files of /proc."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings.host import HostReader
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.node.collectors.host import HostCollector


def part(**facts: Any) -> SnapshotPart:
    known: dict[str, Any] = {
        "hostname": "gpu07",
        "kernel": "6.8.0",
        "machine_id": "0123456789abcdef0123456789abcdef",
        "boot_id": "b00t",
        "booted_at": 1_750_000_000.0,
        "load": "1.50 2.25 3.00 2/512 4711",
        "memory": "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:  400 kB\n",
        "cpu_count": 64,
        "cpu_percent": 12.5,
    }
    return HostCollector().parse(known | facts)


def test_figures_come_in_their_units() -> None:
    host = part().host
    assert (host.memory_used_bytes, host.memory_total_bytes) == (600 * 1024, 1000 * 1024)
    assert (host.load_1_minute, host.load_5_minutes, host.load_15_minutes) == (1.5, 2.25, 3.0)


def test_what_cannot_be_read_is_unknown() -> None:
    host = part(load=None, memory="MemTotal: 1000 kB", cpu_percent=None).host
    assert host.load_1_minute is None
    assert (host.memory_used_bytes, host.memory_total_bytes) == (None, 1000 * 1024)
    assert host.cpu_percent is None


def test_the_node_id_is_derived_from_the_machine_id_without_revealing_it() -> None:
    one, same, other = part(), part(hostname="renamed"), part(machine_id="f" * 32)
    assert one.node_id == same.node_id
    assert one.node_id != other.node_id
    assert "0123456789abcdef" not in str(one.node_id)


def test_without_a_machine_id_the_name_is_used() -> None:
    assert part(machine_id=None).node_id == "name-gpu07"


def test_this_machine_is_read() -> None:
    raw = HostReader().read("/")
    host = HostCollector().parse(raw).host
    assert host.kernel == os.uname().release
    assert host.memory_total_bytes is not None
    assert host.memory_total_bytes > 0


def test_the_load_needs_two_samples(tmp_path: Path) -> None:
    stat = tmp_path / "proc/stat"
    stat.parent.mkdir()
    stat.write_text("cpu 100 0 0 900 0 0 0 0 0 0\nbtime 1750000000\n")
    host = HostReader(cache_seconds=0)
    assert host.read(str(tmp_path))["cpu_percent"] is None
    stat.write_text("cpu 150 0 0 950 0 0 0 0 0 0\nbtime 1750000000\n")
    assert host.read(str(tmp_path))["cpu_percent"] == 50.0


def host_of(root: Path, stat: bytes) -> SnapshotPart:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_bytes(stat)
    return HostCollector().parse(HostReader().read(str(root)))


@pytest.mark.parametrize(
    ("stat", "booted_at"),
    [
        (b"", None),
        (b"cpu 1 2\nbtime 1750000000", 1_750_000_000.0),
        (b"cpu x\nbtime 1750000000", 1_750_000_000.0),
        (b"cpu 100 0 0 900 0 0 0 0\nbtime x", None),
        (b"btime ", None),
        (b"\nbtime \nctxt 1", None),
        (b"cpu 1\nbtime " + b"9" * 5000, None),
    ],
)
def test_a_bad_figure_is_unknown_and_takes_nothing_with_it(
    tmp_path: Path, stat: bytes, booted_at: float | None
) -> None:
    found = host_of(tmp_path, stat)
    assert found.name == os.uname().nodename
    assert (found.host.booted_at, found.host.cpu_percent) == (booted_at, None)


@given(first=st.binary(max_size=64), then=st.binary(max_size=64))
def test_whatever_the_kernel_writes_the_host_keeps_its_name(
    tmp_path_factory: pytest.TempPathFactory, first: bytes, then: bytes
) -> None:
    root = tmp_path_factory.getbasetemp() / "any-stat"
    root.mkdir(exist_ok=True)
    for stat in (first, b"cpu " + first + b"\nbtime " + then):
        assert host_of(root, stat).name == os.uname().nodename


def test_a_machine_without_proc_is_not_present(tmp_path: Path) -> None:
    with pytest.raises(NotPresent):
        HostReader().read(str(tmp_path))
