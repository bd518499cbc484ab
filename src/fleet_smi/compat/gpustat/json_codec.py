"""Codec of `gpustat --json`; version 0.3 writes numbers as text, later ones write `null`. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from fleet_smi.compat.gpustat.builders import (
    GPU_LOST_TEXT,
    UNKNOWN_ERROR_TEXT,
    build_gpu,
    build_process,
    build_snapshot,
    failed_run,
    text_or_none,
    unreadable_gpu,
)
from fleet_smi.errors import TruncatedReport, Undecodable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Gpu, Process, Snapshot
from fleet_smi.model.stream_payload_builder import unique_processes
from fleet_smi.model.units import MIB
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.lenient import DECODE_ERRORS
from fleet_smi.wire.limits import MAX_ITEMS, max_length
from fleet_smi.wire.program_output import parse_bytes, parse_int, parse_number

_FIGURES = {
    "temperature_celsius": "temperature.gpu",
    "fan_percent": "fan.speed",
    "busy_percent": "utilization.gpu",
    "encoder_percent": "utilization.enc",
    "decoder_percent": "utilization.dec",
    "power_watts": "power.draw",
    "power_limit_watts": "enforced.power.limit",
}
_MEMORY = {"memory_used_bytes": "memory.used", "memory_total_bytes": "memory.total"}
_MISSING = ("clocks", "memory errors", "MIG")

ERRORS_KEY = "errors"
"""A key of our own: `gpustat --json` has none, and prints nothing where the driver fails."""

JsonObject = dict[str, Any]


def decode_json(body: bytes, host: str, taken_at: float) -> tuple[Snapshot, ...]:
    """Decode one host, or each of a list; `host` is the name where there is only one.

    Raise `Undecodable` if it is not the JSON of gpustat.
    """
    document = _decode(body)
    documents = document if isinstance(document, list) else [document]
    if not documents:
        raise Undecodable("is an empty list")
    return tuple(
        _snapshot(document, host if len(documents) == 1 else None, taken_at)
        for document in documents
    )


def gpu_to_json(gpu: Gpu) -> JsonObject:
    """Convert a GPU to gpustat's JSON."""
    # gpustat has no other field for a fault: the name carries it, and no figure is given. A GPU
    # that can still be read, as one that waits for a reset, keeps its figures and its users.
    if gpu.fault is not None and is_lost(gpu):
        off_the_bus = gpu.fault.kind in ("lost", "missing")
        return {
            "index": gpu.index,
            "name": GPU_LOST_TEXT if off_the_bus else UNKNOWN_ERROR_TEXT,
            "processes": None,
        }
    values = {field: getattr(gpu, field) for field in (*_FIGURES, *_MEMORY)}
    return {
        "index": gpu.index,
        "uuid": None if gpu.uuid_is_made else gpu.uuid,
        "name": gpu.name or "",
        **{_FIGURES[field]: _floor(values[field]) for field in _FIGURES},
        **{_MEMORY[field]: _floor(values[field], MIB) for field in _MEMORY},
        "processes": processes_to_json(gpu),
    }


def is_lost(gpu: Gpu) -> bool:
    """Return whether a GPU has a fault that leaves nothing to read from it."""
    if gpu.fault is None or gpu.fault.kind != "needs_reset":
        return gpu.fault is not None
    fields = (*_FIGURES, *_MEMORY)
    return not gpu.processes and all(getattr(gpu, field) is None for field in fields)


def processes_to_json(gpu: Gpu) -> list[JsonObject] | None:
    """Convert the processes of a GPU and its MIG instances, each once; `None` if not readable."""
    processes = unique_processes(gpu)
    return None if processes is None else [_process_to_json(process) for process in processes]


def _process_to_json(process: Process) -> JsonObject:
    command = process.command or process.name
    return {
        "username": process.user or (None if process.uid is None else str(process.uid)),
        "command": process.name,
        "full_command": [] if command is None else command.split(" "),
        "gpu_memory_usage": _floor(process.gpu_memory_bytes, MIB),
        "cpu_percent": process.cpu_percent,
        "cpu_memory_usage": process.host_memory_bytes,
        "pid": None if process.pid_is_made else process.pid,
    }


def _floor(value: float | None, unit: int = 1) -> int | None:
    return None if value is None else int(value // unit)


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        reason = describe_error(error)
        raise (
            TruncatedReport(reason)
            if "breaks off" in reason
            else Undecodable(f"not JSON: {reason}")
        ) from None


def _snapshot(document: Any, host: str | None, taken_at: float) -> Snapshot:
    listed = document.get("gpus") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise Undecodable("is JSON, but not of gpustat: it has no list of GPUs")
    name = host or text_or_none(document.get("hostname"))
    if name is None:
        raise Undecodable("one of its hosts has no name")
    gpus = [_gpu(device, position) for position, device in enumerate(listed[: MAX_ITEMS["gpus"]])]
    driver = text_or_none(document.get("driver_version"))
    without_uuid = ["UUIDs"] if any(gpu.uuid_is_made for gpu in gpus if not gpu.fault) else []
    errors = _failed_runs(document.get(ERRORS_KEY))
    return build_snapshot(name, taken_at, driver, gpus, [*without_uuid, *_MISSING], errors)


def failed_runs_to_json(runs: Iterable[CollectorRun]) -> list[JsonObject]:
    """Convert what could not be read on a node, and why."""
    return [
        {"name": run.name, "detail": run.detail, "fault": run.fault}
        for run in runs
        if run.outcome == "failed"
    ]


def _failed_runs(listed: Any) -> list[CollectorRun]:
    entries = listed[: MAX_ITEMS["runs"] - 1] if isinstance(listed, list) else []
    return [
        failed_run(str(entry.get("detail")), str(entry.get("name")), entry.get("fault"))
        for entry in entries
        if isinstance(entry, dict)
    ]


def _gpu(device: Any, position: int) -> Gpu:
    if not isinstance(device, dict):
        return unreadable_gpu(position, "its entry is not an object")
    index = parse_int(device.get("index"))
    # An index that cannot be one must not hide the GPU: its place in the list serves instead.
    index = index if index is not None and 0 <= index < 1 << 16 else position
    figures: dict[str, Any] = {
        field: parse_number(device.get(key)) for field, key in _FIGURES.items()
    }
    figures |= {field: parse_bytes(device.get(key), "MiB") for field, key in _MEMORY.items()}
    uuid, name = device.get("uuid"), device.get("name")
    return build_gpu(
        index,
        name if isinstance(name, str) else None,
        figures,
        _processes(device.get("processes")),
        text_or_none(uuid) if isinstance(uuid, str) else None,
    )


def _processes(listed: Any) -> list[Process] | None:
    # null is a list that gpustat could not read, which is not the same as an empty one.
    if not isinstance(listed, list):
        return None
    return [
        _process(fields) for fields in listed[: MAX_ITEMS["processes"]] if isinstance(fields, dict)
    ]


def _process(fields: JsonObject) -> Process:
    # The second name of each pair is that of gpustat 0.3.
    memory = fields.get("gpu_memory_usage", fields.get("used_memory"))
    return build_process(
        user=fields.get("username", fields.get("user")),
        name=fields.get("command", fields.get("comm")),
        command=_command(fields.get("full_command")),
        pid=parse_int(fields.get("pid")),
        gpu_memory_bytes=parse_bytes(memory, "MiB"),
        cpu_percent=parse_number(fields.get("cpu_percent")),
        host_memory_bytes=parse_int(fields.get("cpu_memory_usage")),
    )


def _command(arguments: Any) -> str | None:
    if not isinstance(arguments, list):
        return arguments if isinstance(arguments, str) else None
    return (
        sanitize_text(
            " ".join(word for word in arguments[:1024] if isinstance(word, str)),
            max_length("command"),
        )
        or None
    )
