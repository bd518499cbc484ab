"""Running `nvidia-smi`: a program that fails, hangs, or has lost a device."""

import os
import select
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from fleet_smi.errors import CollectError, DriverMismatch, NotAnswering, NotPresent, ReadFailed
from fleet_smi.node.bindings import nvidia_smi, program
from fleet_smi.node.collectors.nvidia_smi import NvidiaSmiCollector
from fleet_smi.wire.parsers.nvidia_smi import classify_failure

LOST = "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system"
DOCUMENT = (
    '<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="{0}"><uuid>GPU-{0}</uuid>'
    "{1}</gpu></nvidia_smi_log>"
)
FAILURES = [
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure",
    "No devices were found",
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161",
    "Failed to initialize NVML: Unknown Error",
    "Failed to initialize NVML: GPU access blocked by the operating system",
    "Failed to initialize NVML: Insufficient Permissions",
    "Failed to initialize NVML: Driver Not Loaded",
    "Failed to initialize NVML: GPU is lost",
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.",
]


class Machine:
    """A folder with a fake `nvidia-smi` on PATH and a fake root of the file system."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "root"
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.root.mkdir()
        self._path = f"{self.folder}:{os.environ['PATH']}"
        monkeypatch.setenv("PATH", self._path)

    def runs(self, script: str) -> None:
        path = self.folder / "nvidia-smi"
        path.write_text(f'#!/bin/sh\necho "$*" >> {self.folder}/calls\n{script}\n')
        path.chmod(0o755)

    def prints(self, text: str, exit_code: int = 0) -> None:
        (self.folder / "text").write_text(text)
        self.runs(f"cat {self.folder}/text; exit {exit_code}")

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def has_device(self, address: str, uuid: str, status: str = "active") -> None:
        device = self.root / "proc/driver/nvidia/gpus" / address
        device.mkdir(parents=True)
        (device / "information").write_text(f"Model: \t NVIDIA T4\nGPU UUID: \t {uuid}\n")
        power = self.root / "sys/bus/pci/devices" / address / "power"
        power.mkdir(parents=True)
        (power / "runtime_status").write_text(status + "\n")

    def read(self) -> dict[str, object]:
        return nvidia_smi.read(str(self.root))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(program, "_stuck", {})
    return Machine(tmp_path, monkeypatch)


def test_the_xml_is_returned_as_printed(machine: Machine) -> None:
    text = DOCUMENT.format("0000:01:00.0", "ö")
    machine.prints(text)
    raw = machine.read()
    assert (raw["xml"], raw["exit_code"], raw["list"], raw["parts"]) == (text, 0, None, [])
    assert machine.calls() == ["-q -x"]


def test_the_program_is_run_without_input_and_in_the_c_locale(machine: Machine) -> None:
    machine.runs(
        f"cat > {machine.folder}/stdin; echo $LC_ALL > {machine.folder}/language\n"
        f"echo '{DOCUMENT.format('0', '')}'"
    )
    machine.read()
    assert (machine.folder / "stdin").read_text() == ""
    assert (machine.folder / "language").read_text() == "C\n"


def test_invalid_utf8_does_not_affect_the_rest(machine: Machine) -> None:
    machine.runs(r"printf '<nvidia_smi_log><gpu id=\"0\">\377</gpu></nvidia_smi_log>'")
    assert "\ufffd" in str(machine.read()["xml"])


def test_a_warning_and_an_exit_code_beside_good_xml_do_no_harm(machine: Machine) -> None:
    machine.prints(DOCUMENT.format("0", "") + "\nWARNING: infoROM is corrupted\n", 14)
    assert "WARNING" in str(machine.read()["xml"])


def test_the_list_is_run_only_for_mig_instances(machine: Machine) -> None:
    text = DOCUMENT.format("0", "<mig_device></mig_device>")
    machine.runs(f"case $1 in -L) echo listed;; *) echo '{text}';; esac")
    assert machine.read()["list"] == "listed\n"
    assert machine.calls() == ["-q -x", "-L"]


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_has_the_parsers_error_kind(machine: Machine, text: str) -> None:
    machine.prints(text, 255)
    expected = classify_failure(text)
    with pytest.raises(CollectError) as raised:
        NvidiaSmiCollector().parse(machine.read())
    assert (type(raised.value), str(raised.value)) == (type(expected), str(expected))


def test_a_mismatch_names_both_versions(machine: Machine) -> None:
    machine.prints(FAILURES[2], 18)
    version = machine.root / "sys/module/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("550.54.14\n")
    with pytest.raises(
        DriverMismatch, match=r"driver \(550\.54\.14\) and its library \(535\.161\)"
    ):
        NvidiaSmiCollector().parse(machine.read())


def test_an_unknown_failure_keeps_its_message(machine: Machine) -> None:
    machine.runs("echo 'the moon is full' >&2; exit 77")
    with pytest.raises(ReadFailed, match=r"exit 77.*the moon is full"):
        NvidiaSmiCollector().parse(machine.read())


def test_no_program_is_no_nvidia(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.folder))
    with pytest.raises(NotPresent, match="no nvidia-smi on PATH"):
        machine.read()


def test_a_program_that_cannot_be_run_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine.folder))
    (machine.folder / "nvidia-smi").write_text("not a program")
    (machine.folder / "nvidia-smi").chmod(0o755)
    with pytest.raises(ReadFailed, match="cannot be run"):
        machine.read()


def test_a_document_without_devices_is_no_nvidia(machine: Machine) -> None:
    machine.prints("<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>")
    with pytest.raises(NotPresent):
        NvidiaSmiCollector().parse(machine.read())


def test_a_document_that_breaks_off_is_passed_on(machine: Machine) -> None:
    machine.prints('<nvidia_smi_log><gpu id="0"><uuid>GPU-a</uuid>', 255)
    assert str(machine.read()["xml"]).endswith("GPU-a</uuid>")


def test_a_lost_device_does_not_hide_the_others(machine: Machine) -> None:
    machine.has_device("0000:0a:00.0", "GPU-a")
    machine.has_device("0000:0b:00.0", "GPU-b")
    machine.has_device("0000:0c:00.0", "GPU-????????")
    good = DOCUMENT.format("0a", "")
    machine.runs(
        f"case \"$*\" in *-i*0a:00.0) echo '{good}';; *0c:00.0) echo 'Insufficient Power'; exit 8;;"
        f"*) echo '{LOST}'; exit 15;; esac"
    )
    raw = machine.read()
    assert (raw["xml"], raw["parts"]) == (None, [good + "\n"])
    assert raw["failed"] == [
        {
            "pci": "0000:0b:00.0",
            "uuid": "GPU-b",
            "name": "NVIDIA T4",
            "asleep": False,
            "index": None,
            "message": "GPU is lost",
        },
        {
            "pci": "0000:0c:00.0",
            "uuid": None,
            "name": "NVIDIA T4",
            "asleep": False,
            "index": None,
            "message": "Insufficient Power",
        },
    ]
    assert machine.calls() == ["-q -x", "-q -x -i 0000:0a:00.0", "-q -x -i 0000:0c:00.0"]


def failures(raw: dict[str, object]) -> list[tuple[object, ...]]:
    """Return index, address and message of each unreadable device."""
    failed = raw["failed"]
    assert isinstance(failed, list)
    return [(device["index"], device["pci"], device["message"]) for device in failed]


@pytest.mark.parametrize("name", ["GPU ", "GPU", "GPU1: "])
def test_without_a_kernel_list_devices_are_read_by_index(machine: Machine, name: str) -> None:
    good = DOCUMENT.format("0a", "")
    lost = LOST.replace("GPU ", name, 1)
    machine.runs(
        f"case \"$*\" in *'-i 0'|*'-i 2') echo '{good}';; *'-i 3') echo 'No devices were found';"
        f"exit 6;; *) echo '{lost}'; exit 15;; esac"
    )
    raw = machine.read()
    assert raw["parts"] == [good + "\n", good + "\n"]
    assert failures(raw) == [(1, "0000:0B:00.0", "GPU is lost")]
    assert machine.calls() == ["-q -x", *(f"-q -x -i {index}" for index in range(4))]


def test_reading_by_index_stops_at_a_repeated_failure(
    machine: Machine,
) -> None:
    machine.prints(LOST, 15)
    assert failures(machine.read()) == [(0, "0000:0B:00.0", "GPU is lost")]
    assert len(machine.calls()) == 3


def test_reading_by_index_is_bounded(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_smi, "_MAX_DEVICES", 4)
    machine.runs(
        f"case \"$*\" in *-i*) echo '{DOCUMENT.format('0a', '')}';; *) echo '{LOST}';; esac"
    )
    raw = machine.read()
    assert len(raw["parts"]) == 4  # type: ignore[arg-type]
    assert failures(raw) == [(None, "0:0b:00.0", "GPU is lost")]


def test_the_output_limit_applies_to_the_sum_of_all_outputs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT_BYTES", 1000)
    good = DOCUMENT.format("0a", "x" * 500)
    machine.runs(f"case \"$*\" in *-i*) echo '{good}';; *) echo '{LOST}';; esac")
    with pytest.raises(ReadFailed, match="printed more than"):
        machine.read()
    assert len(machine.calls()) == 3


def test_a_failing_index_is_reported_if_the_others_count_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "_MAX_SECONDS", 1.0)
    good = DOCUMENT.format("0b", "").replace(">1<", ">2<")
    machine.runs(
        f"case \"$*\" in *'-i 0') echo '{good}';; *-i*) exec sleep 60;; *) echo '{LOST}';; esac"
    )
    raw = machine.read()
    assert len(raw["parts"]) == 1  # type: ignore[arg-type]
    assert failures(raw) == [(1, None, None), (None, "0:0b:00.0", "GPU is lost")]


def test_a_sleeping_device_is_not_read(machine: Machine) -> None:
    machine.has_device("0000:0a:00.0", "GPU-a", status="suspended")
    machine.has_device("0000:0b:00.0", "GPU-b")
    machine.prints(DOCUMENT.format("0b", ""))
    raw = machine.read()
    assert machine.calls() == ["-q -x -i 0000:0b:00.0"]
    assert [device["asleep"] for device in raw["failed"]] == [True]  # type: ignore[attr-defined]


def test_a_program_that_hangs_is_killed_with_all_that_it_started(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "_MAX_SECONDS", 0.3)
    alive = machine.folder / "alive"
    os.mkfifo(alive)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    machine.runs(f"exec 3> {alive}; echo here >&3; sleep 60; true")
    with pytest.raises(NotAnswering, match=r"did not answer in time"):
        machine.read()
    assert os.read(reader, 100) == b"here\n"
    # The pipe ends when the last process that holds it is gone.
    assert select.select([reader], [], [], 5)[0] and os.read(reader, 100) == b""
    os.close(reader)
    assert program._stuck == {"nvidia-smi": []}


def test_while_a_program_cannot_be_killed_no_second_one_is_started(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "_MAX_SECONDS", 0.3)
    monkeypatch.setattr(program, "_KILL_GRACE_SECONDS", 0.01)
    machine.runs("exec tail -f /dev/null")
    with monkeypatch.context() as unkillable:
        unkillable.setattr(os, "killpg", lambda pid, number: None)
        with pytest.raises(NotAnswering, match="cannot be killed"):
            machine.read()
    with pytest.raises(NotAnswering, match="still hangs") as raised:
        machine.read()
    assert raised.value.since is not None
    assert len(machine.calls()) == 1

    ((child, _),) = program._stuck["nvidia-smi"]
    os.kill(child.pid, signal.SIGKILL)
    child.wait(60)
    machine.prints(DOCUMENT.format("0", ""))
    assert machine.read()["xml"]


def test_endless_output_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT_BYTES", 10)
    machine.prints(DOCUMENT.format("0", ""))
    with pytest.raises(ReadFailed, match="printed more than"):
        machine.read()


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_program_that_prints_without_end_is_killed_before_it_fills_the_memory(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT_BYTES", 2**20)
    machine.runs(f"echo $$ > {machine.folder}/pid; exec cat /dev/zero {stream}")
    tracemalloc.start()
    with pytest.raises(ReadFailed, match="printed more than 1 MiB"):
        machine.read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 2**20
    pid = (machine.folder / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()
    assert program._stuck == {"nvidia-smi": []}


def test_a_program_that_never_stops_printing_a_little_is_killed_in_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "_MAX_SECONDS", 0.3)
    machine.runs("while echo more; do sleep 0.01; done")
    with pytest.raises(NotAnswering, match="did not answer in time"):
        machine.read()


def test_a_program_that_closes_its_output_and_stays_is_killed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "_MAX_SECONDS", 0.3)
    machine.runs("exec sleep 60 >&- 2>&-")
    with pytest.raises(NotAnswering, match="did not answer in time"):
        machine.read()
    assert program._stuck == {"nvidia-smi": []}


def test_the_binding_costs_neither_the_model_nor_its_library() -> None:
    code = (
        "import sys, fleet_smi.node.bindings.nvidia_smi\n"
        "print([m for m in sys.modules if m in ('msgspec', 'subprocess') or '.model' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert done.stdout == "[]\n"
