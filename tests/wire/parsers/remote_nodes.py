"""Fake nodes for the ssh script: trees of files, and programs with fixed output."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fleet_smi.hub.ssh_script import build_script
from fleet_smi.model.snapshot import CollectorRun, Gpu, Snapshot
from fleet_smi.wire.parsers.remote_shell import parse_script_output
from fleet_smi.wire.report import Report
from tests.machines import MISSING_FOLDER
from tests.node.file_trees import Content

MARK = "0123456789abcdef"
PROCESS = (
    "<process_info><pid>7</pid><type>C</type><process_name>x</process_name>"
    "<used_memory>10 MiB</used_memory></process_info>"
)
OTHER_PROCESS = "\n" + PROCESS.replace("<pid>7<", "<pid>8<")
DOCUMENT = f"""<nvidia_smi_log><attached_gpus>1</attached_gpus>
<gpu id="00000000:02:00.0"><uuid>GPU-2</uuid><product_name>H100</product_name>
<processes>
{PROCESS}
</processes></gpu></nvidia_smi_log>"""


def run_script(
    env: Mapping[str, str], shell: list[str] | None = None, root: str = "", timeout_seconds: int = 5
) -> bytes:
    """Run the ssh script in a shell and return its output."""
    # Without the fleet-smi of this virtual environment, which the script would prefer.
    folders = [folder for folder in env["PATH"].split(":") if "venv" not in folder]
    return subprocess.run(
        shell or ["sh"],
        input=build_script(MARK, timeout_seconds, root),
        stdout=subprocess.PIPE,
        env={**env, "PATH": ":".join(folders), "HOME": MISSING_FOLDER},
        check=True,
    ).stdout


def only_snapshot(report: Report) -> Snapshot:
    (only,) = report.snapshots
    return only


def gpu_run(found: Snapshot) -> CollectorRun:
    return next(run for run in found.runs if run.name == "nvidia_smi")


def install_fake_nvidia_smi(folder: Path, text: str) -> dict[str, str]:
    """Install an nvidia-smi that runs this shell code; return an environment that finds it."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def only_gpu(body: bytes) -> Gpu:
    (gpu,) = only_snapshot(parse_script_output(body, MARK)).gpus
    return gpu


def proc_stat(pid: int, name: bytes, state: str = "S") -> bytes:
    return b"%d (%s) %s 1" % (pid, name, state.encode()) + b" 0" * 17 + b" 500 0 100 0 0\n"


def machine_files(pid: int, command: bytes = b"", name: bytes = b"python") -> dict[str, Content]:
    """Return the files of a machine with one process."""
    return {
        "proc/uptime": "5000.00 100.00\n",
        "proc/stat": "cpu0 1 2\nbtime 1750000000\n",
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        f"proc/{pid}/stat": proc_stat(pid, name),
        f"proc/{pid}/status": "Name:\tx\nUid:\t1000\t0\t0\t0\nVmRSS:\t  12 kB\n",
        f"proc/{pid}/cgroup": "0::/user.slice\n",
        f"proc/{pid}/cmdline": command,
    }


def device_files(address: str, state: str) -> dict[str, Content]:
    return {
        f"proc/driver/nvidia/gpus/{address}/information": f"Model: H100\nGPU UUID: GPU-{address}\n",
        f"sys/bus/pci/devices/{address}/power/runtime_status": f"{state}\n",
    }


def install_fake_fleet_smi(folder: Path, text: str) -> dict[str, str]:
    """Install a fleet-smi that runs this shell code; return an environment that finds it."""
    env = install_fake_nvidia_smi(folder, "exit 9")
    shutil.move(folder / "nvidia-smi", folder / "fleet-smi")
    (folder / "fleet-smi").write_text(f"#!/bin/sh\n{text}\n")
    return env
