"""Scenarios for the simulated driver, built in Python and written as its scenario file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path

from sim.build import exported_functions

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

Number = int | None
"""A reading; `None` is a card that does not have it (`n/a` in the file)."""


@dataclass(kw_only=True)
class SimProcess:
    """A process on a GPU. `name` is only needed for a pid that does not run here."""

    pid: int
    kind: str = "compute"
    memory: Number = 0
    sm: Number = None
    mem: Number = None
    enc: Number = None
    dec: Number = None
    gi: Number = None
    ci: Number = None
    name: str | None = None

    def line(self) -> str:
        """Return the process as a line of the file."""
        parts = [f"process {self.pid} {self.kind} {_text(self.memory)}"]
        for option in ("sm", "mem", "enc", "dec", "gi", "ci"):
            value = getattr(self, option)
            if value is not None:
                parts.append(f"{option}={value}")
        if self.name is not None:
            parts.append(f"name={self.name}")
        return " ".join(parts)


@dataclass(kw_only=True)
class SimInstance:
    """A MIG instance of a GPU."""

    profile: str
    gi: int
    ci: int = 0
    uuid: str | None = None
    memory_total: Number = 9984 * MIB
    memory_used: Number = 0
    slices: int = 1
    compute_slices: int = 1
    multiprocessors: int = 16

    def line(self) -> str:
        """Return the instance as a line of the file."""
        parts = [f"instance {self.profile}"]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "profile" or (item.name == "uuid" and value is None):
                continue
            parts.append(f"{item.name}={_text(value)}")
        return " ".join(parts)


@dataclass(kw_only=True)
class SimGpu:
    """One GPU; by default an idle H100. Bytes, milliwatts, percent, MHz, degrees, KB/s."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str | None = None
    pci: str | None = None
    serial: str | None = "1650000000001"
    vbios: str | None = "96.00.99.00.01"
    minor: Number = None
    brand: str | None = "nvidia"
    architecture: str | None = "hopper"
    compute_capability: str = "9.0"
    cores: Number = 16896
    memory_total: Number = 81559 * MIB
    memory_used: Number = 0
    memory_reserved: Number = 480 * MIB
    bar1_total: Number = 131072 * MIB
    bar1_used: Number = 1 * MIB
    util_gpu: Number = 0
    util_memory: Number = 0
    util_encoder: Number = 0
    util_decoder: Number = 0
    util_jpeg: Number = 0
    util_ofa: Number = 0
    temperature: Number = 30
    temperature_memory: Number = 37
    temperature_shutdown: Number = 92
    temperature_slowdown: Number = 89
    temperature_max: Number = 87
    fan: Number = None
    fans: Number = 0
    power_usage: Number = 70_000
    power_limit: Number = 700_000
    power_limit_default: Number = 700_000
    power_limit_min: Number = 200_000
    power_limit_max: Number = 700_000
    clock_graphics: Number = 345
    clock_sm: Number = 345
    clock_memory: Number = 2619
    clock_video: Number = 765
    clock_max_graphics: Number = 1980
    clock_max_sm: Number = 1980
    clock_max_memory: Number = 2619
    clock_max_video: Number = 1545
    pstate: Number = 0
    throttle: str | int | None = "idle"
    ecc: bool | None = True
    ecc_corrected_volatile: Number = 0
    ecc_uncorrected_volatile: Number = 0
    ecc_corrected_aggregate: Number = 0
    ecc_uncorrected_aggregate: Number = 0
    retired_sbe: Number = None
    retired_dbe: Number = None
    retired_pending: bool | None = None
    remapped_corrected: Number = 0
    remapped_uncorrected: Number = 0
    remapped_pending: bool | None = False
    remapped_failed: bool | None = False
    recovery: str | None = "none"
    pcie_gen: Number = 5
    pcie_gen_max: Number = 5
    pcie_width: Number = 16
    pcie_width_max: Number = 16
    pcie_rx: Number = 0
    pcie_tx: Number = 0
    pcie_replay: Number = 0
    nvlink_links: Number = None
    nvlink_active: Number = 0
    nvlink_rx: Number = 0
    nvlink_tx: Number = 0
    persistence: bool | None = True
    compute_mode: str | None = "default"
    display_mode: bool | None = False
    display_active: bool | None = False
    mig: bool | None = False
    addressing: str | None = "none"
    energy: Number = 1_000_000
    processes: list[SimProcess] = field(default_factory=list)
    instances: list[SimInstance] = field(default_factory=list)
    faults: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the GPU as lines of the file."""
        lines = ["gpu"]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in _LISTS or (item.name in _NUMBERED and value is None):
                continue
            lines.append(f"{item.name} {_text(value)}")
        lines += [instance.line() for instance in self.instances]
        lines += [process.line() for process in self.processes]
        return lines + _fault_lines(self.faults)


@dataclass(kw_only=True)
class Scenario:
    """A machine: its driver, its GPUs, its faults."""

    gpus: list[SimGpu] = field(default_factory=lambda: [SimGpu()])
    driver: str = "590.48.01"
    cuda: str = "13.1"
    init: str = "ok"
    quirks: list[str] = field(default_factory=list)
    faults: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return the text of the scenario file."""
        lines = [f"driver {self.driver}", f"cuda {self.cuda}", f"init {self.init}"]
        lines += [f"quirk {quirk}" for quirk in self.quirks]
        lines += _fault_lines(self.faults)
        for gpu in self.gpus:
            lines += ["", *gpu.lines()]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Replace the file atomically: running programs reread it and must not see half of it."""
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            # Process names in tests may be any bytes.
            file.write(self.text().encode(errors="surrogateescape"))
        fresh = Path(file.name)
        fresh.chmod(0o644)  # temporary files are 0600, unreadable for other users
        fresh.replace(path)


def scenario_env(lib_dir: Path, scenario_path: Path) -> dict[str, str]:
    """Return the environment variables with which programs load the simulated driver."""
    folders = {"LD_LIBRARY_PATH": "", "PATH": os.defpath}
    first = {
        name: os.pathsep.join(filter(None, [str(lib_dir), os.environ.get(name, otherwise)]))
        for name, otherwise in folders.items()
    }
    return first | {"FLEET_SMI_SIM": str(scenario_path)}


_LISTS = {"processes", "instances", "faults"}
_NUMBERED = {"uuid", "pci", "minor"}  # where omitted, the driver numbers them by position


def _text(value: bool | int | str | None) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _fault_lines(faults: Mapping[str, str]) -> list[str]:
    # A fault in a misspelt call would never trigger, and its test would pass for no reason.
    if unknown := [call for call in faults if not _names_a_call(call)]:
        raise ValueError(f"no such NVML call: {', '.join(unknown)}")
    return [f"fault {call} {what}" for call, what in faults.items()]


@cache
def _functions() -> frozenset[str]:
    names = set(exported_functions())
    return frozenset(names | {name[:-3] for name in names if name[-3:-1] == "_v"})


def _names_a_call(call: str) -> bool:
    prefixes = ("", "nvmlDeviceGet", "nvmlSystemGet", "nvmlDevice", "nvml")
    return call in ("*", "**") or any(prefix + call in _functions() for prefix in prefixes)
