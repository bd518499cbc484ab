"""What agents and masters of nvgpu 0.6 to 0.10 answer, to snapshots and back.

`GET /gpu_status` is one machine, `GET /cluster_status` a list of such or of `{"error": …}`.
A GPU has neither an index nor a UUID: its place in the list is its index.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fleet_smi.compat.json_status import (
    compute_processes,
    decode_json,
    int_or_none,
    make_gpu,
    node_id_from_name,
    program_name,
    require_list,
    require_object,
    round_or_none,
    text_or_none,
    unreadable_gpu,
)
from fleet_smi.compat.nvgpu.humanize import format_ago, shorten_command
from fleet_smi.errors import DeliveryError, Undecodable, Unreachable
from fleet_smi.model.fleet import JudgedGpu, NodeView, State
from fleet_smi.model.merge import with_node_scoped_uuid
from fleet_smi.model.range_check import check_fields, check_range, check_temperature
from fleet_smi.model.redact import redact
from fleet_smi.model.snapshot import CollectorRun, Gpu, Process, Snapshot
from fleet_smi.model.units import format_duration
from fleet_smi.model.verdict.judge import judge
from fleet_smi.model.verdict.thresholds import DEFAULT_THRESHOLDS
from fleet_smi.model.verdict.window import observe
from fleet_smi.wire.cli_text import parse_number
from fleet_smi.wire.limits import MAX_ITEMS, max_length

NvgpuMachine = Snapshot | NodeView
UNKNOWN_OWNER = "?"
_MOST_MACHINES = 10_000
_LONGEST_LIST = 64 << 10
_PID = re.compile(r"[0-9]{1,10}")


class DeviceStatus(Struct, frozen=True, kw_only=True):
    """One GPU as nvgpu tells it, in its order; what is not known is null or empty."""

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
    """A machine with its GPUs, or the error that stands in its place."""

    hostname: str | UnsetType = UNSET
    gpus: tuple[DeviceStatus, ...] | UnsetType = UNSET
    error: str | UnsetType = UNSET


def decode_gpu_status(body: bytes, taken_at: float) -> Snapshot:
    """The machine that an agent tells of, taken when it was asked; raise `Undecodable`."""
    return _snapshot(decode_json(body), taken_at)


def decode_cluster_status(body: bytes, taken_at: float) -> tuple[Snapshot | DeliveryError, ...]:
    """Every machine that a master tells of, or why it has none; raise `Undecodable`."""
    entries = decode_json(body)
    if not isinstance(entries, list):
        raise Undecodable("the status of a cluster must be a list")
    return tuple([_entry(entry, taken_at) for entry in entries[:_MOST_MACHINES]])


def encode_gpu_status(machine: NvgpuMachine) -> bytes:
    """What nvgpu's agent on that machine would answer."""
    return msgspec.json.encode(machine_status(machine))


def encode_cluster_status(nodes: Iterable[NodeView]) -> bytes:
    """What a master of these nodes would answer: silent ones are errors in their place."""
    return msgspec.json.encode([machine_status(node) for node in nodes])


def machine_status(machine: NvgpuMachine) -> MachineStatus:
    """The machine as nvgpu tells it; of a node that is silent, why nothing is told."""
    if isinstance(machine, NodeView) and machine.silent:
        return MachineStatus(error=f"Host not available ({machine.name}: {_silence(machine)})")
    rows = [_device(gpu, _own_time(machine)) for gpu in machine.gpus]
    return MachineStatus(hostname=machine.name, gpus=tuple(rows))


def _entry(entry: Any, taken_at: float) -> Snapshot | DeliveryError:
    try:
        if "error" in require_object(entry, "a machine"):
            return Unreachable(f"its master says: {text_or_none(entry['error']) or 'nothing'}")
        return _snapshot(entry, taken_at)
    except Undecodable as error:
        return error


def _snapshot(told: Any, taken_at: float) -> Snapshot:
    fields = require_object(told, "the status of a machine")
    name = text_or_none(fields.get("hostname"))
    if name is None:
        raise Undecodable("it does not tell its name")
    node_id = node_id_from_name("nvgpu", name)
    gpus = [_gpu(place, each) for place, each in enumerate(require_list(fields, "gpus"))]
    return Snapshot(
        node_id=node_id,
        name=name,
        taken_at=taken_at,
        gpus=tuple([with_node_scoped_uuid(gpu, node_id) for gpu in gpus]),
        runs=(_run(gpus),),
    )


def _run(gpus: list[Gpu]) -> CollectorRun:
    memory = "" if any(gpu.memory_used_bytes is not None for gpu in gpus) else "memory, "
    detail = f"cannot tell {memory}power, UUIDs, or when a process was started"
    return CollectorRun(name="nvgpu", outcome="ok", seconds=0.0, detail=detail)


def _gpu(place: int, told: Any) -> Gpu:
    if not isinstance(told, dict):
        return unreadable_gpu(place)
    unread: dict[str, str] = {}
    memory = told.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    figures = {
        "busy_percent": parse_number(told.get("utilization")),
        "sm_clock_mhz": int_or_none(told.get("clock_mhz")),
        "memory_total_bytes": int_or_none(memory.get("total")),
        "memory_used_bytes": int_or_none(memory.get("used")),
    }
    figures = check_fields(figures, unread)
    heat = parse_number(told.get("temperature"))
    return make_gpu(
        place,
        **figures,
        name=text_or_none(told.get("type")),
        temperature_celsius=check_temperature(heat, figures["busy_percent"], unread),
        processes=_processes(told, unread),
        unread=unread,
    )


def _processes(told: dict[str, Any], unread: dict[str, str]) -> tuple[Process, ...] | None:
    pids = _parts(told.get("pids"))
    if not pids:
        if told.get("is_available") is True:
            return ()
        unread["processes"] = "in use, and by whom is not told"
        return None
    users = _parts(told.get("users"))
    if len(users) != len(pids):
        users = [UNKNOWN_OWNER] * len(pids)
    found = [_process(*each) for each in zip(pids, users, strict=True)]
    known = [process for process in found if process is not None]
    if len(known) < len(found):
        unread["processes"] = "not all could be read"
    return _with_command(known, text_or_none(told.get("cmd"), max_length("command")))


def _parts(value: Any) -> list[str]:
    if not isinstance(value, str) or not value:
        return []
    return value[:_LONGEST_LIST].split(",", MAX_ITEMS["processes"])[: MAX_ITEMS["processes"]]


def _process(pid_text: str, user: str) -> Process | None:
    if not _PID.fullmatch(pid_text):
        return None
    pid = check_range("pid", int(pid_text), {})
    if pid is None:
        return None
    owner = None if user == UNKNOWN_OWNER else text_or_none(user)
    return Process(pid=pid, kind="compute", user=owner, hidden=owner is None)


def _with_command(processes: list[Process], command: str | None) -> tuple[Process, ...]:
    """The command is that of the first process whose owner could be read."""
    first = next((at for at, process in enumerate(processes) if not process.hidden), None)
    if command is not None and first is not None:
        command = redact(command)
        named = replace(processes[first], name=program_name(command), command=command)
        processes[first] = named
    return tuple(processes)


def _own_time(machine: NvgpuMachine) -> float:
    """What time it is now by the machine's own clock, by which its processes were started."""
    age = machine.age_seconds if isinstance(machine, NodeView) else None
    return (machine.taken_at or 0.0) + (age or 0.0)


def _device(gpu: Gpu, now: float) -> DeviceStatus:
    processes = compute_processes(gpu)
    starts = [each.started_at for each in processes or () if each.started_at is not None]
    commands = [each.command or each.name for each in processes or () if not each.hidden]
    return DeviceStatus(
        type=gpu.name,
        is_available=processes == [] and _state(gpu, now) == "free",
        pids=",".join(
            [
                UNKNOWN_OWNER if process.pid_is_made else str(process.pid)
                for process in processes or ()
            ]
        ),
        users=",".join([process.user or UNKNOWN_OWNER for process in processes or ()]),
        running_since=format_ago(now - min(starts)) if starts else None,
        utilization=round_or_none(gpu.busy_percent),
        clock_mhz=gpu.sm_clock_mhz,
        temperature=round_or_none(gpu.temperature_celsius),
        cmd=next((shorten_command(command) for command in commands if command), None),
    )


def _state(gpu: Gpu, now: float) -> State:
    """The verdict on it; an agent has none, and judges by the one sample that it tells."""
    if isinstance(gpu, JudgedGpu):
        return gpu.verdict.state
    seen = observe(None, gpu, now, DEFAULT_THRESHOLDS)
    return judge(gpu, seen, now, DEFAULT_THRESHOLDS).state


def _silence(node: NodeView) -> str:
    if node.trouble is not None:
        return node.trouble
    if node.age_seconds is None:
        return "never heard"
    return f"silent for {format_duration(node.age_seconds)}"
