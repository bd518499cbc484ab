"""Encoder of web-gpu-monitor's `load_data.csv`: one row per GPU. Pure.

Its `load_mem` is how busy the memory was, not how full; the file has no memory in use. A process
of unknown owner is `Zombie` there. Readers of the file take a GPU
without a user for free, so one that is not free gets at least a `Zombie`.
"""

from collections.abc import Iterable

from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.merge import all_processes
from fleet_smi.model.snapshot import Process
from fleet_smi.model.verdict.readings import is_display
from fleet_smi.wire.csv import CsvValue, encode_csv

COLUMNS = ("", "load", "load_mem", "gpu_idx", "gpu_name", "gpu_uuid", "hostname", "username")
_ZOMBIE = "Zombie"


def encode(view: FleetView) -> str:
    """Encode the fleet; what is not measured is empty."""
    rows = [COLUMNS, *(_row(node, number, gpu) for node, number, gpu in _numbered(view))]
    # As web-gpu-monitor writes it: a shell script would read "alice\r" from RFC 4180's lines.
    return encode_csv(rows).replace("\r\n", "\n")


def _numbered(view: FleetView) -> Iterable[tuple[NodeView, int, JudgedGpu]]:
    return ((node, number, gpu) for node in view.nodes for number, gpu in enumerate(node.gpus))


def _row(node: NodeView, number: int, gpu: JudgedGpu) -> list[CsvValue]:
    users = _users(gpu) or ([] if gpu.verdict.state == "free" else [_ZOMBIE])
    return [number, *_loads(node, gpu), gpu.index, gpu.name, gpu.uuid, node.name, ", ".join(users)]


def _loads(node: NodeView, gpu: JudgedGpu) -> tuple[int | None, int | None]:
    """Return the current loads; figures of a silent node are out of date and left empty."""
    if node.silent or gpu.verdict.state == "unknown":
        return None, None
    return _percent(gpu.busy_percent), _percent(gpu.memory_busy_percent)


def _percent(value: float | None) -> int | None:
    return None if value is None else round(value)


def _users(gpu: JudgedGpu) -> list[str]:
    """List the owner of each compute process; a comma in a name would split it in two."""
    # By pid: a process may be listed under the GPU and under its MIG instance.
    processes = {process.pid: process for process in all_processes(gpu) if not is_display(process)}
    return [_user(process).replace(",", " ") for process in processes.values()]


def _user(process: Process) -> str:
    if process.user:
        return process.user
    return _ZOMBIE if process.uid is None else str(process.uid)
