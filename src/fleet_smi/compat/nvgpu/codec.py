"""Codec of nvgpu 0.6 to 0.10: the JSON of its agents and masters, to and from snapshots. Pure.

`GET /gpu_status` is one machine, `GET /cluster_status` a list of machines or `{"error": …}`.
A GPU has neither an index nor a UUID: its place in the list is its index.
"""

import re
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fleet_smi.compat import json_status
from fleet_smi.compat.json_status import (
    UNKNOWN_OWNER,
    int_or_none,
    require_object,
    round_or_none,
    text_or_none,
)
from fleet_smi.compat.nvgpu.humanize import format_ago, shorten_command
from fleet_smi.compat.nvgpu.start_times import StartTimes, with_start_time
from fleet_smi.model.driver_failure import driver_error
from fleet_smi.model.fleet import JudgedGpu, NodeView, State
from fleet_smi.model.redaction.redact import redact
from fleet_smi.model.snapshot import (
    NOT_REPORTED_BY,
    Fault,
    FaultKind,
    Gpu,
    Process,
    Snapshot,
)
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict.judge import judge
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.model.verdict.window import add_sample
from fleet_smi.wire.limits import MAX_ITEMS, max_length
from fleet_smi.wire.program_output import parse_number

NvgpuMachine = Snapshot | NodeView
_MAX_LIST_LENGTH = 64 << 10  # characters of a comma-separated list, cut before it is split
_PID = re.compile(r"[0-9]{1,10}")
_NONE: StartTimes = {}
_NOT_AVAILABLE = "Host not available"
_BAD_RESPONSE = "Bad response (500: INTERNAL SERVER ERROR)"


def _fault_text(kind: FaultKind) -> str:
    return kind.replace("_", " ")


_FAULT_KINDS: dict[str, FaultKind] = {_fault_text(kind): kind for kind in get_args(FaultKind)}
_FAULT = re.compile(rf"(.{{0,160}}) \(({'|'.join(_FAULT_KINDS)})\)")


class DeviceStatus(Struct, frozen=True, kw_only=True):
    """One GPU, with nvgpu's fields in nvgpu's order; unknown values are null or empty."""

    type: str | None
    is_available: bool
    pids: str
    users: str
    running_since: str | None
    utilization: int | None
    clock_mhz: int | None
    temperature: int | None
    cmd: str | None


class MachineStatus(Struct, frozen=True, kw_only=True):
    """A machine with its GPUs, or the error in its place."""

    hostname: str | UnsetType = UNSET
    gpus: tuple[DeviceStatus, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET


def decode_gpu_status(body: bytes, taken_at: float, known_starts: StartTimes = _NONE) -> Snapshot:
    """Decode the response of an agent; raise `Undecodable`.

    `known_starts` are the start times by its earlier response, which stay while they can be true.
    """
    return _snapshot(json_status.decode_json(body), taken_at, known_starts)


def encode_gpu_status(machine: NvgpuMachine) -> bytes:
    """Encode the response of an nvgpu agent on that machine; raise `Unmet` if its driver fails."""
    json_status.require_driver(machine)
    return msgspec.json.encode(machine_status(machine))


def encode_cluster_status(machines: Iterable[NvgpuMachine]) -> bytes:
    """Encode the response of a master of these machines, with an error for each silent one."""
    return msgspec.json.encode([machine_status(machine) for machine in machines])


def machine_status(machine: NvgpuMachine) -> MachineStatus:
    """Convert a machine to nvgpu's fields, or to an error if it is silent or its driver fails.

    The error is the text of nvgpu's own master: scripts compare it.
    """
    if isinstance(machine, NodeView) and machine.silent:
        return MachineStatus(error=_NOT_AVAILABLE)
    if not machine.gpus and driver_error(machine) is not None:
        return MachineStatus(error=_BAD_RESPONSE)
    rows = [_device(gpu, _machine_time(machine)) for gpu in machine.gpus]
    return MachineStatus(hostname=machine.name, gpus=tuple(rows))


def _snapshot(status: Any, taken_at: float, known_starts: StartTimes) -> Snapshot:
    fields = require_object(status, "the status of a machine")
    listed = json_status.require_list(fields, "gpus")
    gpus = [_gpu(index, device, taken_at, known_starts) for index, device in enumerate(listed)]
    # nvgpu 0.10 reports memory, older versions do not.
    memory = "" if any(gpu.memory_used_bytes is not None for gpu in gpus) else "memory, "
    missing = f"{memory}power, UUIDs, or the start of each process"
    return json_status.build_snapshot("nvgpu", fields, taken_at, gpus, missing=missing)


def _gpu(index: int, device: Any, taken_at: float, known_starts: StartTimes) -> Gpu:
    if not isinstance(device, dict):
        return json_status.unreadable_gpu(index)
    unread: dict[str, str] = {}
    memory = device.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    if not memory:
        unread["memory_used_bytes"] = f"{NOT_REPORTED_BY}nvgpu"
    figures = {
        "busy_percent": parse_number(device.get("utilization")),
        "sm_clock_mhz": int_or_none(device.get("clock_mhz")),
        "memory_total_bytes": int_or_none(memory.get("total")),
        "memory_used_bytes": int_or_none(memory.get("used")),
    }
    processes = _processes(device, unread)
    if processes:
        since = device.get("running_since")
        processes = with_start_time(processes, since, index, taken_at, known_starts)
    name, fault = _name_and_fault(device.get("type"))
    gpu = json_status.build_gpu(
        index,
        figures,
        name=name,
        temperature=device.get("temperature"),
        processes=processes,
        unread=unread,
    )
    return gpu if fault is None else replace(gpu, fault=fault)


def _name_and_fault(device_type: Any) -> tuple[Any, Fault | None]:
    """Split a name that an agent of fleet-smi has written, which has a fault behind it."""
    match = _FAULT.fullmatch(device_type) if isinstance(device_type, str) else None
    if match is None:
        return device_type, None
    return match[1], Fault(kind=_FAULT_KINDS[match[2]], detail=match[2])


def _processes(device: dict[str, Any], unread: dict[str, str]) -> tuple[Process, ...] | None:
    pids = _split(device.get("pids"))
    if not pids:
        # In use without a pid is not idle: nvgpu saw a user that it could not list.
        if device.get("is_available") is True:
            return ()
        unread["processes"] = "in use, but no process is listed"
        return None
    users = _split(device.get("users"))
    if len(users) != len(pids):
        # Lists of different length cannot be paired: a wrong owner is worse than none.
        users = [UNKNOWN_OWNER] * len(pids)
    entries = [_process(pid, user) for pid, user in zip(pids, users, strict=True)]
    processes = [process for process in entries if process is not None]
    if len(processes) < len(entries):
        unread["processes"] = "not all could be read"
    return _with_command(processes, text_or_none(device.get("cmd"), max_length("command")))


def _split(value: Any) -> list[str]:
    if not isinstance(value, str) or not value:
        return []
    return value[:_MAX_LIST_LENGTH].split(",", MAX_ITEMS["processes"])[: MAX_ITEMS["processes"]]


def _process(pid_text: str, user: str) -> Process | None:
    if not _PID.fullmatch(pid_text):
        return None
    pid = json_status.pid_or_none(int(pid_text))
    if pid is None:
        return None
    owner = json_status.user_or_none(user)
    return Process(pid=pid, kind="compute", user=owner, hidden=owner is None)


def _with_command(processes: list[Process], command: str | None) -> tuple[Process, ...]:
    """Give the one command that nvgpu reports to the first process whose owner it could read."""
    first = next((at for at, process in enumerate(processes) if not process.hidden), None)
    if command is not None and first is not None:
        command = redact(command)
        name = json_status.program_name(command)
        processes[first] = replace(processes[first], name=name, command=command)
    return tuple(processes)


def _machine_time(machine: NvgpuMachine) -> float:
    """Return the current time by the machine's own clock, which dates its processes too."""
    age = machine.age_seconds if isinstance(machine, NodeView) else None
    return (machine.taken_at or 0.0) + (age or 0.0)


def _device(gpu: Gpu, now: float) -> DeviceStatus:
    processes = json_status.compute_processes(gpu)
    listed = processes or ()
    # Processes on our side may be unreadable (`None`), which nvgpu's format cannot express:
    # such a GPU is never available.
    starts = [process.started_at for process in listed if process.started_at is not None]
    commands = [process.command or process.name for process in listed if not process.hidden]
    return DeviceStatus(
        type=_type(gpu),
        is_available=processes == [] and _state(gpu, now) == "free",
        pids=",".join(
            [UNKNOWN_OWNER if process.pid_is_made else str(process.pid) for process in listed]
        ),
        users=",".join([process.user or UNKNOWN_OWNER for process in listed]),
        running_since=format_ago(now - min(starts)) if starts else None,
        utilization=round_or_none(gpu.busy_percent),
        clock_mhz=gpu.sm_clock_mhz,
        temperature=round_or_none(gpu.temperature_celsius),
        cmd=next((shorten_command(command) for command in commands if command), None),
    )


def _type(gpu: Gpu) -> str | None:
    """Return the name; a fault goes with it, because nvgpu has no other field for it."""
    if gpu.fault is None:
        return gpu.name
    return f"{gpu.name or 'GPU'} ({_fault_text(gpu.fault.kind)})"


def _state(gpu: Gpu, now: float) -> State:
    """Return the hub's verdict; an agent has none and judges by this one sample."""
    if isinstance(gpu, JudgedGpu):
        return gpu.verdict.state
    window = add_sample(None, gpu, now, DEFAULT_THRESHOLDS)
    return judge(gpu, window, now, DEFAULT_THRESHOLDS).state


def error_reason(node: NodeView) -> str:
    """Return why there is no current status of a node, for people who read the list."""
    if not node.silent:
        return driver_error(node) or "unknown"
    if node.trouble is not None:
        return node.trouble
    if node.age_seconds is None:
        return "never reported"
    return f"silent for {format_duration(node.age_seconds)}"
