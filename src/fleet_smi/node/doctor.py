"""The checks of `fleet-smi doctor`: what is wrong with this machine, and the remedy. Pure."""

from collections.abc import Callable, Iterator
from typing import Any

from fleet_smi.model.doctor_result import DoctorResult, DoctorStatus
from fleet_smi.model.snapshot import (
    NOT_ANSWERING_REMEDY,
    PERSISTENCE_REMEDY,
    CollectorRun,
    Gpu,
    Snapshot,
)
from fleet_smi.model.verdict.readings import uncorrected_errors

_SLOW_SECONDS = 1.0
_Check = Callable[[Snapshot, dict[str, Any]], Iterator[DoctorResult]]


def diagnose(snapshot: Snapshot, environment: dict[str, Any]) -> tuple[DoctorResult, ...]:
    """Run every check; return their results in the order of the checks."""
    return tuple(result for check in CHECKS for result in check(snapshot, environment))


def _result(name: str, status: DoctorStatus, text: str, remedy: str | None = None) -> DoctorResult:
    return DoctorResult(id=name, status=status, words=text, remedy=remedy)


def _run(snapshot: Snapshot, name: str) -> CollectorRun | None:
    return next((run for run in snapshot.runs if run.name == name), None)


def _python(_: Snapshot, environment: dict[str, Any]) -> Iterator[DoctorResult]:
    yield _result("python.version", "PASS", f"Python {environment.get('python', 'unknown')}")


def _nvidia_driver(snapshot: Snapshot, environment: dict[str, Any]) -> Iterator[DoctorResult]:
    run = _run(snapshot, "nvidia")
    if run is None:
        return
    if run.outcome == "ok":
        yield _result("nvidia.driver", "PASS", _driver_text(snapshot))
    elif run.outcome == "failed":
        whose = "" if "NVIDIA" in run.detail else "NVIDIA driver: "
        yield _result("nvidia.driver", "FAIL", f"{whose}{run.detail}", _remedy(run))
    # Device files without a driver library: the usual mistake in a container.
    elif any(path.startswith("/dev/nvidia") for path in environment.get("devices", {})):
        yield _result(
            "nvidia.driver",
            "FAIL",
            f"there are NVIDIA devices, but {run.detail}",
            "install the driver's libraries (in a container: start it with the GPUs, --gpus all)",
        )
    else:
        yield _result("nvidia.driver", "SKIP", f"no NVIDIA GPU here: {run.detail}")


def _driver_text(snapshot: Snapshot) -> str:
    host = snapshot.host
    if host.driver_version is None and all(gpu.asleep for gpu in snapshot.gpus):
        return "the NVIDIA GPUs are asleep, and were not woken to read their driver"
    return (
        f"NVIDIA driver {host.driver_version or 'unknown'}, CUDA {host.cuda_version or 'unknown'}"
    )


def _remedy(run: CollectorRun) -> str | None:
    """The remedy; most failures already contain it in their detail."""
    return NOT_ANSWERING_REMEDY if run.fault in ("not_answering", "slow") else None


def _speed(snapshot: Snapshot, _: dict[str, Any]) -> Iterator[DoctorResult]:
    run = _run(snapshot, "nvidia")
    if run is None or run.outcome != "ok":
        return
    if run.seconds < _SLOW_SECONDS:
        yield _result("nvidia.speed", "PASS", f"the driver answers in {run.seconds * 1000:.0f} ms")
    else:
        off = any(gpu.persistence is False for gpu in snapshot.gpus)
        yield _result(
            "nvidia.speed",
            "WARN",
            f"the driver took {run.seconds:.1f} s to answer"
            + (", with persistence mode off" if off else ""),
            PERSISTENCE_REMEDY if off else "look for Xid in the kernel log (dmesg)",
        )


def _gpus(snapshot: Snapshot, _: dict[str, Any]) -> Iterator[DoctorResult]:
    run = _run(snapshot, "nvidia")
    if run is not None and run.outcome == "failed":
        return  # already reported by the check of the driver
    if not snapshot.gpus:
        remedy = "`lspci | grep -iE 'vga|3d'` shows what is installed"
        yield _result("gpus.found", "WARN", "no GPU was found", remedy)
        return
    faults = [(gpu.index, gpu.fault) for gpu in snapshot.gpus if gpu.fault]
    well = f"{len(snapshot.gpus) - len(faults)} of {len(snapshot.gpus)} GPUs are healthy"
    yield _result("gpus.found", "FAIL" if faults else "PASS", well, "see below" if faults else None)
    for index, fault in faults:
        yield _result("gpu.fault", "FAIL", f"GPU {index}: {fault.detail}", fault.remedy)


def _memory_errors(snapshot: Snapshot, _: dict[str, Any]) -> Iterator[DoctorResult]:
    for gpu in snapshot.gpus:
        if errors := uncorrected_errors(gpu):
            yield _result(
                "gpu.memory",
                # A contained error ended the process that met it, and harms no other.
                "WARN" if gpu.ecc_contained else "FAIL",
                f"GPU {gpu.index}: {errors} uncorrectable memory errors",
                "drain and reset it: nvidia-smi --gpu-reset",
            )
        if gpu.reset_pending is not None and gpu.fault is None:
            yield _result(
                "gpu.reset",
                "WARN",
                f"GPU {gpu.index}: {gpu.reset_pending}",
                "once nobody uses it: nvidia-smi --gpu-reset",
            )


def _persistence(snapshot: Snapshot, environment: dict[str, Any]) -> Iterator[DoctorResult]:
    readable = [gpu for gpu in snapshot.gpus if gpu.persistence is not None]
    off = [gpu.index for gpu in readable if not gpu.persistence]
    if not readable:
        yield from _persistence_of_silent_driver(snapshot, environment)
    elif not off:
        yield _result("nvidia.persistence", "PASS", "persistence mode is on")
    # The daemon holds the devices open, whatever the driver's own mode says.
    elif environment.get("persistence_daemon"):
        yield _result("nvidia.persistence", "PASS", "the persistence daemon runs")
    else:
        yield _result(
            "nvidia.persistence",
            "WARN",
            f"persistence mode is off on GPU {_numbers(off)}: each sample wakes the driver",
            "systemctl enable --now nvidia-persistenced (or: nvidia-smi -pm 1)",
        )


def _persistence_of_silent_driver(
    snapshot: Snapshot, environment: dict[str, Any]
) -> Iterator[DoctorResult]:
    """A driver that does not answer cannot say its mode: the daemon's absence can."""
    run = _run(snapshot, "nvidia")
    if run is None or run.fault not in ("slow", "not_answering"):
        return
    if not environment.get("persistence_daemon"):
        yield _result(
            "nvidia.persistence",
            "WARN",
            "no persistence daemon runs: with persistence mode off the driver starts slowly",
            "systemctl enable --now nvidia-persistenced (or: nvidia-smi -pm 1)",
        )


def _numbers(indexes: list[int]) -> str:
    return ", ".join(map(str, indexes))


def _permissions(_: Snapshot, environment: dict[str, Any]) -> Iterator[DoctorResult]:
    devices: dict[str, bool] = environment.get("devices", {})
    closed = [path for path, may in devices.items() if not may]
    if closed:
        yield _result(
            "devices.permission",
            "WARN",
            f"no permission to open {', '.join(closed[:4])}{' …' if len(closed) > 4 else ''}",
            "join the group that owns them (often `video` or `render`), then log in again",
        )
    elif devices:
        yield _result("devices.permission", "PASS", "the device files can be opened")


def _process_visibility(snapshot: Snapshot, environment: dict[str, Any]) -> Iterator[DoctorResult]:
    # Newer kernels write the mode as a word.
    if environment.get("hidepid") not in (None, "0", "off") and environment.get("user") != 0:
        yield _result(
            "processes.visible",
            "WARN",
            "/proc hides other users' processes (hidepid)",
            "run the agent with the group named by gid= of that mount, or as root",
        )
    hidden = sum(process.hidden for gpu in snapshot.gpus for process in gpu.processes or ())
    if hidden and environment.get("in_container"):
        yield _result(
            "processes.namespace",
            "WARN",
            f"{_processes(hidden)} cannot be seen from inside this container",
            "start it in the host's pid namespace: --pid=host",
        )
    elif hidden:
        yield _result(
            "processes.hidden", "WARN", f"{_processes(hidden)} on the GPUs cannot be seen from here"
        )
    elif any(gpu.processes for gpu in snapshot.gpus):
        yield _result("processes.visible", "PASS", "every process on the GPUs can be seen")


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _links(snapshot: Snapshot, _: dict[str, Any]) -> Iterator[DoctorResult]:
    for gpu in snapshot.gpus:
        if _is_narrow(gpu):
            yield _result(
                "gpu.link",
                "WARN",
                f"GPU {gpu.index}: PCIe runs {gpu.pcie_width} of {gpu.pcie_width_max} lanes wide",
                "reseat the card; check the slot and the BIOS",
            )


def _is_narrow(gpu: Gpu) -> bool:
    # The generation drops to save power when idle; the width does not.
    return bool(gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max)


def _collectors(snapshot: Snapshot, _: dict[str, Any]) -> Iterator[DoctorResult]:
    for run in snapshot.runs:
        if run.outcome == "failed" and run.name != "nvidia":
            yield _result(f"collector.{run.name}", "FAIL", f"{run.name}: {run.detail}")


CHECKS: tuple[_Check, ...] = (
    _python,
    _nvidia_driver,
    _speed,
    _gpus,
    _memory_errors,
    _persistence,
    _permissions,
    _process_visibility,
    _links,
    _collectors,
)
