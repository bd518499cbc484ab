"""The CSV of `--query-compute-apps`: who is on which GPU."""

import pytest
from msgspec.structs import replace

from fleet_smi.errors import ReadFailed
from fleet_smi.model.snapshot import Fault, Gpu, Process
from fleet_smi.wire.parsers.nvidia_smi_csv import (
    APP_FIELDS,
    ComputeApps,
    parse_compute_apps,
    with_processes,
)

MIB = 1024 * 1024
UUID = "GPU-11111111-2222-3333-4444-555555555555"
APPS_HEADER = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
BARE = Gpu(uuid=UUID, index=0, vendor="nvidia", pci_bus_id="00000000:01:00.0")


def test_processes_are_read_outside_in() -> None:
    text = APPS_HEADER + (
        f"{UUID}, 10, /usr/bin/blender --a, --b, 818 MiB\n"
        f"{UUID}, 11, [Not Found], [N/A]\n"
        "GPU-other, 12, python, 0 MiB\n"
    )
    assert parse_compute_apps(text) == ComputeApps(
        processes={
            UUID: (
                Process(
                    pid=10,
                    kind="compute",
                    name="blender",
                    command="/usr/bin/blender --a, --b",
                    gpu_memory_bytes=818 * MIB,
                ),
                Process(pid=11, kind="compute", hidden=True),
            ),
            "GPU-other": (Process(pid=12, kind="compute", name="python", gpu_memory_bytes=0),),
        }
    )


def test_what_fleet_smi_asks_of_processes_is_read_without_header() -> None:
    apps = parse_compute_apps(f"{UUID}, 5, 100, a, b ,c\n", APP_FIELDS)
    assert apps.processes[UUID][0].name == "a, b ,c"
    assert apps.processes[UUID][0].gpu_memory_bytes == 100 * MIB


def test_an_idle_machine_has_a_header_alone_or_nothing() -> None:
    assert parse_compute_apps(APPS_HEADER) == ComputeApps()
    assert parse_compute_apps("", APP_FIELDS) == ComputeApps()


def test_nothing_at_all_does_not_look_idle_where_a_header_was_asked_for() -> None:
    with pytest.raises(ReadFailed):
        parse_compute_apps("")


def test_processes_that_are_not_told_are_not_no_processes() -> None:
    refused = "[Insufficient Permissions]"
    apps = parse_compute_apps(APPS_HEADER + f"{UUID}, {refused}, {refused}, {refused}\n")
    (gpu,) = with_processes([BARE], apps)
    assert apps.processes == {}
    assert gpu.processes is None
    assert gpu.unread == {"processes": "1 not told: Insufficient Permissions"}


def test_processes_are_joined_by_uuid_or_by_address() -> None:
    process = Process(pid=1, kind="compute")
    for key in (BARE.uuid, "00000000:01:00.0"):
        (gpu,) = with_processes([BARE], ComputeApps(processes={key: (process,)}))
        assert gpu.processes == (process,)
    (idle,) = with_processes([BARE], ComputeApps())
    assert idle.processes == ()


def test_a_lost_card_without_processes_is_not_idle() -> None:
    gone = replace(BARE, fault=Fault(kind="lost", detail="GPU is lost"))
    assert with_processes([gone], ComputeApps())[0].processes is None


@pytest.mark.parametrize(
    "text",
    [
        f"uuid, memory.used [MiB]\n{UUID}, 1 MiB\n",
        "pid, process_name\n1, a\n",
        APPS_HEADER + "GPU-a, 1\n",
        APPS_HEADER + ", 1, a, 1 MiB\n",
        "gpu_uuid, pid, gpu_utilization [%], max_memory_usage [MiB], time [ms]\n",
    ],
)
def test_what_query_compute_apps_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(ReadFailed):
        parse_compute_apps(text)
