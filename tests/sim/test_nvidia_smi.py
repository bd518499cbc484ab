"""The simulated nvidia-smi prints what the real one prints."""

from __future__ import annotations

import os
import subprocess
from xml.etree import ElementTree

import pytest

from sim.scenario import GIB, MIB, Scenario, SimGpu, SimInstance, SimProcess
from tests.sim.fixtures import Simulated


def smi(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nvidia-smi", *arguments], env=env, capture_output=True, text=True, check=False, timeout=30
    )


def query(env: dict[str, str], fields: str, form: str = "csv,noheader") -> list[list[str]]:
    out = smi(env, f"--query-gpu={fields}", f"--format={form}").stdout
    return [line.split(", ") for line in out.splitlines()]


def xml(env: dict[str, str], *arguments: str) -> ElementTree.Element:
    return ElementTree.fromstring(smi(env, "-q", "-x", *arguments).stdout)


def text(root: ElementTree.Element, path: str) -> str | None:
    found = root.findtext(path)
    return None if found is None else found.strip()


def test_csv_has_a_line_for_each_gpu_with_its_units(simulated: Simulated) -> None:
    busy = SimGpu(memory_used=12 * GIB, util_gpu=9, power_usage=301_256, fan=40, temperature=61)
    env = simulated(Scenario(gpus=[SimGpu(), busy]))
    fields = "index,memory.used,utilization.gpu,power.draw,fan.speed,temperature.gpu,pstate"
    assert query(env, fields) == [
        ["0", "0 MiB", "0 %", "70.00 W", "[N/A]", "30", "P0"],
        ["1", "12288 MiB", "9 %", "301.25 W", "40 %", "61", "P0"],
    ]
    assert query(env, fields, "csv,noheader,nounits")[1] == (
        ["1", "12288", "9", "301.25", "40", "61", "P0"]
    )


def test_the_csv_header_names_the_field_and_its_unit(simulated: Simulated) -> None:
    (header, _) = query(simulated(Scenario()), "gpu_name,memory.total,clocks.sm", "csv,nounits")
    assert header == ["name", "memory.total [MiB]", "clocks.current.sm [MHz]"]


@pytest.mark.parametrize("driver, word", [("590.48.01", "[N/A]"), ("418.87.01", "[Not Supported]")])
def test_drivers_differ_in_their_text_for_missing_values(
    simulated: Simulated, driver: str, word: str
) -> None:
    assert query(simulated(Scenario(driver=driver)), "fan.speed") == [[word]]


def test_an_unknown_field_fails_the_query_on_stdout(simulated: Simulated) -> None:
    done = smi(simulated(Scenario()), "--query-gpu=index,device_minor", "--format=csv")
    assert done.stdout == 'Field "device_minor" is not a valid field to query.\n\n'
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.parametrize(
    "driver, field, code",
    [
        ("470.82.01", "memory.reserved", 2),
        ("515.43.04", "memory.reserved", 0),
        ("525.60.13", "clocks_event_reasons.active", 2),
        ("535.98", "clocks_event_reasons.active", 0),
    ],
)
def test_a_field_is_known_from_its_branch_on(
    simulated: Simulated, driver: str, field: str, code: int
) -> None:
    env = simulated(Scenario(driver=driver))
    assert smi(env, f"--query-gpu={field}", "--format=csv").returncode == code


def test_the_memory_used_of_old_drivers_includes_the_reserved_part(simulated: Simulated) -> None:
    gpu = SimGpu(memory_used=1000 * MIB, memory_reserved=480 * MIB)
    assert query(simulated(Scenario(gpus=[gpu])), "memory.used") == [["1000 MiB"]]
    assert query(simulated(Scenario(gpus=[gpu], driver="470.1")), "memory.used") == [["1480 MiB"]]


def test_compute_apps_are_listed_without_the_graphics_ones(simulated: Simulated) -> None:
    processes = [
        SimProcess(pid=os.getpid(), memory=3 * GIB),
        SimProcess(pid=50, memory=None, name="python a, b.py"),
        SimProcess(pid=51, kind="graphics", memory=MIB),
        SimProcess(pid=2**22 + 1, memory=MIB),
    ]
    env = simulated(Scenario(gpus=[SimGpu(processes=processes)]))
    done = smi(env, "--query-compute-apps=pid,used_memory,gpu_uuid,name", "--format=csv")
    lines = done.stdout.splitlines()
    uuid = "GPU-00000000-0000-4000-8000-000000000000"
    assert lines[0] == "pid, used_gpu_memory [MiB], gpu_uuid, process_name"
    assert lines[1].startswith(f"{os.getpid()}, 3072 MiB, {uuid}, ")
    assert "python" in lines[1]
    assert lines[2:] == [
        f"50, [N/A], {uuid}, python a, b.py",
        f"{2**22 + 1}, 1 MiB, {uuid}, [Not Found]",
    ]


@pytest.mark.parametrize(
    "driver, dtd, power, reasons, reserved",
    [
        ("418.87.01", 10, "power_readings/power_draw", "throttle", None),
        ("525.60.13", 12, "power_readings/power_draw", "throttle", "480 MiB"),
        ("535.98", 12, "gpu_power_readings/power_draw", "event", "480 MiB"),
        ("590.48.01", 13, "gpu_power_readings/average_power_draw", "event", "480 MiB"),
    ],
)
def test_the_xml_has_the_tags_of_its_branch(
    simulated: Simulated, driver: str, dtd: int, power: str, reasons: str, reserved: str | None
) -> None:
    env = simulated(Scenario(driver=driver))
    assert f'"nvsmi_device_v{dtd}.dtd"' in smi(env, "-q", "-x").stdout
    root = xml(env)
    assert text(root, "driver_version") == driver
    assert text(root, f"gpu/{power}") == "70.00 W"
    word = f"clocks_{reasons}_reason"
    assert text(root, f"gpu/{word}s/{word}_gpu_idle") == "Active"
    assert text(root, "gpu/fb_memory_usage/reserved") == reserved


def test_the_xml_carries_readings_and_processes(simulated: Simulated) -> None:
    gpu = SimGpu(
        memory_used=5 * GIB,
        util_gpu=77,
        processes=[
            SimProcess(pid=40, memory=4 * GIB, name="a <b> & c"),
            SimProcess(pid=40, kind="graphics", memory=4 * GIB),
            SimProcess(pid=41, kind="graphics", memory=None, name="Xorg"),
        ],
    )
    root = xml(simulated(Scenario(gpus=[SimGpu(), gpu])))
    shown = root.findall("gpu")[1]
    assert text(root, "attached_gpus") == "2"
    assert shown.get("id") == "00000000:11:00.0"
    assert text(shown, "fb_memory_usage/used") == "5120 MiB"
    assert text(shown, "utilization/gpu_util") == "77 %"
    assert text(shown, "pci/pci_gpu_link_info/link_widths/current_link_width") == "16x"
    processes = [[leaf.text for leaf in info] for info in shown.iter("process_info")]
    assert processes == [
        ["N/A", "N/A", "40", "C+G", "a <b> & c", "4096 MiB"],
        ["N/A", "N/A", "41", "G", "Xorg", "N/A"],
    ]


def test_a_lost_gpu_has_error_texts_and_the_others_are_complete(simulated: Simulated) -> None:
    root = xml(simulated(Scenario(gpus=[SimGpu(faults={"*": "lost"}), SimGpu()])))
    lost, good = root.findall("gpu")
    assert text(lost, "fb_memory_usage/used") == text(lost, "remapped_rows") == "GPU is lost"
    assert text(good, "fb_memory_usage/used") == "0 MiB"


SPLIT = SimGpu(
    mig=True,
    instances=[
        SimInstance(profile="3g.40gb", gi=2, uuid="MIG-2", memory_used=26 * MIB),
        SimInstance(profile="1g.10gb", gi=9, uuid="MIG-9"),
    ],
    processes=[SimProcess(pid=60, memory=MIB, gi=2, ci=0, name="python")],
)


def test_mig_instances_are_in_the_list_and_in_the_xml(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SPLIT]))
    assert smi(env, "-L").stdout.splitlines() == [
        f"GPU 0: {SPLIT.name} (UUID: GPU-00000000-0000-4000-8000-000000000000)",
        "  MIG 3g.40gb     Device  0: (UUID: MIG-2)",
        "  MIG 1g.10gb     Device  1: (UUID: MIG-9)",
    ]
    root = xml(env)
    assert text(root, "gpu/utilization/gpu_util") == "N/A"
    assert [text(mig, "gpu_instance_id") for mig in root.iter("mig_device")] == ["2", "9"]
    assert text(root, "gpu/processes/process_info/gpu_instance_id") == "2"


TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4080 ...    Off |   00000000:01:00.0  On |                  N/A |
|  0%   45C    P2             83W /  320W |    1474MiB /  16376MiB |      7%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:11:00.0 Off |                   On |
| N/A   30C    P0             70W /  700W |       0MiB /  81559MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   2  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                    0 |
| N/A   30C    P0            ERR! /  N/A  | Not Supported          |      0%   E. Process |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  1    2   0   0  |              26MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |
|                  |               0MiB /     0MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  1    9   0   1  |               0MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |
|                  |               0MiB /     0MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            2165    C+G   /usr/bin/kwin_wayland                    25MiB |
|    1    2    0               60      C   python                                    1MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_the_table_has_the_layout_of_the_real_one(simulated: Simulated) -> None:
    desktop = SimGpu(
        name="NVIDIA GeForce RTX 4080 SUPER",
        pci="00000000:01:00.0",
        memory_total=16376 * MIB,
        memory_used=1474 * MIB,
        util_gpu=7,
        fan=0,
        temperature=45,
        pstate=2,
        power_usage=83_400,
        power_limit=320_000,
        persistence=False,
        display_active=True,
        ecc=None,
        mig=None,
        processes=[
            SimProcess(pid=2165, memory=25 * MIB, name="/usr/bin/kwin_wayland"),
            SimProcess(pid=2165, kind="graphics", memory=25 * MIB),
        ],
    )
    spark = SimGpu(
        name="NVIDIA GB10",
        pci="0000000F:01:00.0",
        memory_total=None,
        power_limit=None,
        compute_mode="exclusive-process",
        faults={"PowerUsage": "unknown"},
    )
    out = smi(simulated(Scenario(gpus=[desktop, SPLIT, spark]))).stdout
    assert out.partition("\n")[2] == TABLE


@pytest.mark.parametrize(
    "driver, cuda, width, first, step",
    [
        ("440.33.01", "10.2", 79, 7, 3),
        ("470.82.01", "11.4", 79, 8, 4),
        ("535.98", "12.2", 91, 8, 4),
    ],
)
def test_the_table_of_every_generation_has_its_own_width_and_rows(
    simulated: Simulated, driver: str, cuda: str, width: int, first: int, step: int
) -> None:
    gpus = [SimGpu(memory_reserved=0, memory_used=index * GIB) for index in range(3)]
    lines = smi(simulated(Scenario(gpus=gpus, driver=driver, cuda=cuda))).stdout.splitlines()
    assert {len(line) for line in lines[1:]} <= {width, 0}
    used = [lines[first + step * index + 1].split("|")[2].split("/")[0] for index in range(3)]
    assert [cell.strip() for cell in used] == ["0MiB", "1024MiB", "2048MiB"]


@pytest.mark.parametrize(
    "scenario, code, out",
    [
        (Scenario(init="mismatch", driver="535.161.07"), 18, "NVML library version: 535.161\n"),
        (Scenario(init="mismatch", driver="470.82.01"), 18, "library version mismatch\n"),
        (Scenario(init="no-driver"), 9, "couldn't communicate with the NVIDIA driver. "),
        (Scenario(init="unknown"), 255, "Failed to initialize NVML: Unknown Error\n"),
        (Scenario(gpus=[]), 6, "No devices were found\n"),
        (
            Scenario(gpus=[SimGpu(), SimGpu(faults={"**": "lost"})]),
            15,
            "for GPU 0000:11:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
        ),
        (
            Scenario(gpus=[SimGpu(faults={"**": "unknown"})]),
            255,
            "Unable to determine the device handle for GPU 0000:10:00.0: Unknown Error\n",
        ),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-q", "-x"), ("-L",)])
def test_a_failure_has_the_drivers_text_on_stdout_and_its_exit_code(
    simulated: Simulated, scenario: Scenario, code: int, out: str, arguments: tuple[str, ...]
) -> None:
    done = smi(simulated(scenario), *arguments)
    assert out in done.stdout
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(
    "wanted, expected",
    [
        ("1", ["1"]),
        ("0,2", ["0", "2"]),
        ("GPU-00000000-0000-4000-8000-000000000002", ["2"]),
        ("0000:11:00.0", ["1"]),
    ],
)
def test_one_gpu_can_be_selected(simulated: Simulated, wanted: str, expected: list[str]) -> None:
    env = simulated(Scenario(gpus=[SimGpu(), SimGpu(), SimGpu()]))
    done = smi(env, "-i", wanted, "--query-gpu=index", "--format=csv,noheader")
    assert done.stdout.split() == expected


def test_good_gpus_can_be_selected_beside_a_lost_one(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(), SimGpu(faults={"**": "lost"})]))
    assert smi(env, "-i", "0", "-L").returncode == 0
    assert smi(env, "-i", "1", "-L").returncode == 15


def test_a_call_that_never_returns_hangs_the_program(simulated: Simulated) -> None:
    env = simulated(Scenario(gpus=[SimGpu(faults={"PowerUsage": "never"})]))
    assert query(env, "name") == [["NVIDIA H100 80GB HBM3"]]
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["nvidia-smi"], env=env, capture_output=True, timeout=0.5, check=False)
