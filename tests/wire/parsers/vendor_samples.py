"""Sample output of `amd-smi`, `rocm-smi` and `xpu-smi`, and fake programs that print it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNIQUE_ID = 0x1A2B3C4D5E6F7081
AMD_UUID = f"GPU-{UNIQUE_ID:016x}"


def value(number: float, unit: str) -> dict[str, Any]:
    return {"value": number, "unit": unit}


def amd_smi_outputs(pid: int) -> dict[str, str]:
    """Return the output per subcommand, for one MI355X with one process."""
    static = {
        "gpu": 0,
        "asic": {"market_name": "AMD Instinct MI355X", "asic_serial": f"0x{UNIQUE_ID:X}"},
        "bus": {"bdf": "0000:05:00.0"},
        "vram": {"size": value(294896, "MB")},
        "limit": {"ppt0": {"socket_power_limit": value(1000, "W")}, "ppt1": "N/A"},
    }
    metric = {
        "gpu": 0,
        "usage": {"gfx_activity": value(87, "%")},
        "power": {"socket_power": value(812, "W")},
        "temperature": {"edge": "N/A", "hotspot": value(61, "C")},
        "mem_usage": {"total_vram": value(294896, "MB"), "used_vram": value(2048, "MB")},
    }
    info = {"name": "python", "pid": pid, "memory_usage": {"vram_mem": value(1024, "MB")}}
    process = [{"gpu": 0, "process_list": [{"process_info": info}]}]
    return {
        "static": json.dumps({"gpu_data": [static]}, indent=4),
        "metric": json.dumps({"gpu_data": [metric]}, indent=4),
        "process": json.dumps(process, indent=4),
    }


def rocm_smi_output(pid: int) -> str:
    card = {
        "Unique ID": f"0x{UNIQUE_ID:x}",
        "PCI Bus": "0000:05:00.0",
        "Card Series": "AMD Instinct MI100",
        "GPU use (%)": "42",
        "VRAM Total Memory (B)": str(32 << 30),
        "VRAM Total Used Memory (B)": str(2 << 30),
    }
    system = {f"PID{pid}": f"python, 1, {1 << 30}, 0, 0"}
    return "WARNING: AMD GPU device(s) is/are in a low-power state.\n" + json.dumps(
        {"card0": card, "system": system}
    )


def xpu_smi_outputs(pid: int) -> dict[str, str]:
    return {
        "discovery": "Device ID,Device Name,Core Clock Rate,PCI BDF Address,Memory Physical Size\n"
        '0,"Intel(R) Data Center GPU Max 1550","1600 MHz","0000:29:00.0","131072.00 MiB"\n',
        "dump": "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Memory Used (MiB)\n"
        "08:08:16.817,    0, 33.00, 281.13, 2048.00\n",
        "ps": "PID       Command             DeviceID       SHR            MEM\n"
        f"{pid}     python              0              0              1048576\n",
    }


def install_program(folder: Path, name: str, outputs: Mapping[str, str] | str) -> None:
    """Install a program that prints a text by its first argument and logs its arguments."""
    folder.mkdir(exist_ok=True)
    by_argument = {"*": outputs} if isinstance(outputs, str) else outputs
    cases = []
    for number, (argument, text) in enumerate(by_argument.items()):
        path = folder / f"{name}.{number}.txt"
        path.write_text(text)
        cases.append(f"{argument}) cat {path} ;;")
    install_script(folder, name, "case $1 in\n" + "\n".join(cases) + "\n*) exit 2 ;;\nesac")


def install_script(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$*" >>{folder}/{name}.log\n{script}\n')
    path.chmod(0o755)


def logged_calls(folder: Path, name: str) -> list[str]:
    log = folder / f"{name}.log"
    return log.read_text().splitlines() if log.exists() else []
