"""Builders of snapshots, GPUs and processes, shared by gpustat's text and JSON decoders. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from msgspec.structs import replace

from fleet_smi.model.merge import with_node_scoped_uuid
from fleet_smi.model.programs import DISPLAY_PROGRAMS
from fleet_smi.model.range_check import check_fields, check_range, check_temperature
from fleet_smi.model.redaction.redact import redact
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import (
    CollectorRun,
    Fault,
    FaultKind,
    Gpu,
    Host,
    Process,
    Snapshot,
)
from fleet_smi.model.synthetic_pids import synthetic_pid
from fleet_smi.wire.limits import MAX_ITEMS, max_length
from fleet_smi.wire.program_output import parse_text

COLLECTOR_NAME = "gpustat"
GPU_LOST_TEXT, UNKNOWN_ERROR_TEXT = "((GPU is lost))", "((Unknown Error))"
QUERY_ERROR_TEXT = "Error on querying NVIDIA devices"
_REMEDY = "reboot; if it returns, check the hardware"
# What gpustat prints for an unknown value, in its versions and options.
_FAULT_KINDS = get_args(FaultKind)
_UNKNOWN = frozenset({"?", "??", "--", "None"})
_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._@-]+", re.ASCII)


def node_id_from_host(host: str) -> str:
    """Return "gpustat-" and the host name, as the id of a node that reports no id."""
    return f"{COLLECTOR_NAME}-{_NOT_IN_AN_ID.sub('_', host)[:128]}"


def build_snapshot(
    host: str,
    taken_at: float,
    driver: str | None,
    gpus: Iterable[Gpu],
    unavailable: Iterable[str],
    failed_runs: Sequence[CollectorRun] = (),
) -> Snapshot:
    """Build the snapshot of a host; `unavailable` lists what this format does not carry.

    `failed_runs` are what could not be read on the host, and why.
    """
    node_id = node_id_from_host(host)
    return Snapshot(
        node_id=node_id,
        name=host,
        taken_at=taken_at,
        host=Host(driver_version=driver),
        gpus=tuple(with_node_scoped_uuid(gpu, node_id) for gpu in gpus),
        runs=(
            *failed_runs,
            CollectorRun(
                name=COLLECTOR_NAME,
                outcome="ok",
                seconds=0.0,
                detail=f"does not report {', '.join(unavailable)}",
            ),
        ),
    )


def failed_run(detail: str, name: str = "nvidia", fault: Any = None) -> CollectorRun:
    """Build the run of a collector that failed on the host.

    By default that of NVIDIA's driver, which is all that gpustat reads.
    """
    return CollectorRun(
        name=sanitize_text(name, max_length("name")),
        outcome="failed",
        seconds=0.0,
        detail=sanitize_text(detail, max_length("detail")),
        fault=fault if fault in _FAULT_KINDS else None,
    )


def build_gpu(
    index: int,
    name: str | None,
    figures: dict[str, Any],
    processes: Iterable[Process] | None,
    uuid: str | None = None,
) -> Gpu:
    """Build a GPU from `figures`, named as the fields of `Gpu`; invalid ones become `unread`.

    A driver error in place of the name becomes a fault. Without a UUID it gets a synthetic one.
    `figures` is modified.
    """
    fault = _fault(name)
    unread: dict[str, str] = {}
    # Apart from the other figures: whether a temperature is plausible depends on the load.
    temperature = figures.pop("temperature_celsius", None)
    fields = check_fields(figures, unread)
    fields["temperature_celsius"] = check_temperature(
        temperature, fields.get("busy_percent"), unread
    )
    return Gpu(
        uuid=uuid or f"{COLLECTOR_NAME}-gpu{index}",
        uuid_is_made=uuid is None,
        index=index,
        vendor="nvidia",
        name=None if fault or name is None else sanitize_text(name, max_length("name")) or None,
        processes=None if processes is None else _with_unique_pids(processes),
        reported_by=COLLECTOR_NAME,
        fault=fault,
        unread=unread,
        **fields,
    )


def unreadable_gpu(index: int, detail: str) -> Gpu:
    """Build a GPU whose entry cannot be decoded, so that it is listed and hides no other."""
    fault = Fault(kind="unreadable", detail=sanitize_text(detail, max_length("detail")))
    return replace(build_gpu(index, None, {}, None), fault=fault)


def build_process(
    *,
    user: Any,
    name: Any,
    command: Any = None,
    pid: int | None,
    **figures: float | None,
) -> Process:
    """Build a process; without a pid it gets a synthetic one from its user and name."""
    known_user, known_name = text_or_none(user), text_or_none(name)
    line = text_or_none(command, max_length("command"))
    fields: dict[str, Any] = {key: check_range(key, value, {}) for key, value in figures.items()}
    pid = check_range("pid", pid, {})
    return Process(
        pid=synthetic_pid(known_user, known_name) if pid is None else pid,
        pid_is_made=pid is None,
        # gpustat lists compute and graphics processes without saying which is which.
        kind="graphics" if known_name in DISPLAY_PROGRAMS else "compute",
        user=known_user,
        name=None if known_name is None else redact(known_name),
        command=None if line is None else redact(line),
        hidden=known_user is None and known_name is None,
        **fields,
    )


def _with_unique_pids(processes: Iterable[Process]) -> tuple[Process, ...]:
    """Give equal processes without a pid different synthetic pids, so that none is lost."""
    counts = Counter[int]()
    unique = []
    for process in list(processes)[: MAX_ITEMS["processes"]]:
        counts[process.pid] += 1
        count = counts[process.pid]
        # A real pid is never changed, even if it is listed twice.
        is_repeated = count > 1 and process.pid_is_made
        pid = synthetic_pid(process.user, process.name, count) if is_repeated else process.pid
        unique.append(replace(process, pid=pid))
    return tuple(unique)


def text_or_none(value: Any, max_length: int = 128) -> str | None:
    """Return sanitised text, or `None` for one of gpustat's placeholders for unknown."""
    text = parse_text(value, max_length)
    return None if text in _UNKNOWN else text


def _fault(name: str | None) -> Fault | None:
    if name == GPU_LOST_TEXT:
        return Fault(kind="lost", detail="GPU is lost", remedy=_REMEDY)
    # gpustat prints a driver error in place of the name, in double brackets.
    if name is not None and name.startswith("((") and name.endswith("))"):
        return Fault(kind="unreadable", detail=sanitize_text(name[2:-2], 128).lower())
    return None
