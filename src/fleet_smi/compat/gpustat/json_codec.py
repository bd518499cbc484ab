"""What `gpustat --json` prints: 0.3 has every number as a text, later ones have `null`."""

from typing import Any

import msgspec

from fleet_smi.compat.gpustat.builders import (
    GPU_LOST_TEXT,
    UNKNOWN_ERROR_TEXT,
    build_gpu,
    build_process,
    build_snapshot,
    text_or_none,
    unreadable_gpu,
)
from fleet_smi.errors import TruncatedReport, Undecodable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Process, Snapshot
from fleet_smi.model.stream_payload_builder import unique_processes
from fleet_smi.model.units import MIB
from fleet_smi.wire.cli_text import parse_bytes, parse_int, parse_number
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.lenient import DECODE_ERRORS
from fleet_smi.wire.limits import MAX_ITEMS, max_length

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
_UNTOLD = ("clocks", "memory errors", "MIG")

JsonObject = dict[str, Any]


def decode_json(body: bytes, host: str, taken_at: float) -> tuple[Snapshot, ...]:
    """What is told of one host, or of each of a list; `host` is whose it is, if of one alone."""
    found = _decoded(body)
    documents = found if isinstance(found, list) else [found]
    if not documents:
        raise Undecodable("is an empty list")
    return tuple(
        _snapshot(each, host if len(documents) == 1 else None, taken_at) for each in documents
    )


def gpu_to_json(gpu: Gpu) -> JsonObject:
    """One GPU as gpustat tells it."""
    if gpu.fault is not None:
        is_lost = gpu.fault.kind in ("lost", "missing")
        return {
            "index": gpu.index,
            "name": GPU_LOST_TEXT if is_lost else UNKNOWN_ERROR_TEXT,
            "processes": None,
        }
    known = {field: getattr(gpu, field) for field in (*_FIGURES, *_MEMORY)}
    whole_figures = {_FIGURES[field]: _floor(known[field]) for field in _FIGURES}
    return {
        "index": gpu.index,
        "uuid": None if gpu.uuid_is_made else gpu.uuid,
        "name": gpu.name or "",
        **whole_figures,
        **{_MEMORY[field]: _floor(known[field], MIB) for field in _MEMORY},
        "processes": processes_to_json(gpu),
    }


def processes_to_json(gpu: Gpu) -> list[JsonObject] | None:
    """Everybody on a GPU or its instances, each once; `None` when not readable."""
    processes = unique_processes(gpu)
    return None if processes is None else [_written(one) for one in processes]


def _written(process: Process) -> JsonObject:
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


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        why = describe_error(error)
        raise (
            TruncatedReport(why) if "breaks off" in why else Undecodable(f"no JSON: {why}")
        ) from None


def _snapshot(document: Any, host: str | None, taken_at: float) -> Snapshot:
    listed = document.get("gpus") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise Undecodable("is JSON, and none of gpustat: it has no list of GPUs")
    name = host or text_or_none(document.get("hostname"))
    if name is None:
        raise Undecodable("one of its hosts has no name")
    gpus = [_gpu(each, at) for at, each in enumerate(listed[: MAX_ITEMS["gpus"]])]
    driver = text_or_none(document.get("driver_version"))
    without_uuid = ["UUIDs"] if any(gpu.uuid_is_made for gpu in gpus if not gpu.fault) else []
    return build_snapshot(name, taken_at, driver, gpus, [*without_uuid, *_UNTOLD])


def _gpu(told_of_it: Any, place: int) -> Gpu:
    if not isinstance(told_of_it, dict):
        return unreadable_gpu(place, "it is told as something else than a GPU")
    index = parse_int(told_of_it.get("index"))
    index = index if index is not None and 0 <= index < 1 << 16 else place
    figures: dict[str, Any] = {
        field: parse_number(told_of_it.get(key)) for field, key in _FIGURES.items()
    }
    figures |= {field: parse_bytes(told_of_it.get(key), "MiB") for field, key in _MEMORY.items()}
    uuid, name = told_of_it.get("uuid"), told_of_it.get("name")
    return build_gpu(
        index,
        name if isinstance(name, str) else None,
        figures,
        _processes(told_of_it.get("processes")),
        text_or_none(uuid) if isinstance(uuid, str) else None,
    )


def _processes(listed: Any) -> list[Process] | None:
    if not isinstance(listed, list):
        return None
    return [_process(each) for each in listed[: MAX_ITEMS["processes"]] if isinstance(each, dict)]


def _process(told_of_it: JsonObject) -> Process:
    memory = told_of_it.get("gpu_memory_usage", told_of_it.get("used_memory"))
    return build_process(
        user=told_of_it.get("username", told_of_it.get("user")),
        name=told_of_it.get("command", told_of_it.get("comm")),
        command=_command(told_of_it.get("full_command")),
        pid=parse_int(told_of_it.get("pid")),
        gpu_memory_bytes=parse_bytes(memory, "MiB"),
        cpu_percent=parse_number(told_of_it.get("cpu_percent")),
        host_memory_bytes=parse_int(told_of_it.get("cpu_memory_usage")),
    )


def _command(words: Any) -> str | None:
    if not isinstance(words, list):
        return words if isinstance(words, str) else None
    return (
        sanitize_text(
            " ".join(word for word in words[:1024] if isinstance(word, str)), max_length("command")
        )
        or None
    )
