"""Lenient decoding of the JSON status of older systems (nvgpu, gpu-cluster-monitor).

Every function takes hostile input: any value may have any type, and a bad field never hides the
rest. Pure.
"""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec.structs import replace

from fleet_smi.errors import Undecodable, Unmet
from fleet_smi.model.driver_failure import driver_error
from fleet_smi.model.fleet import NodeView
from fleet_smi.model.merge import with_node_scoped_uuid
from fleet_smi.model.range_check import check_fields, check_range, check_temperature
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Host, Process, Snapshot
from fleet_smi.model.stream_payload_builder import unique_processes
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.limits import MAX_ITEMS, MAX_TEXT_LENGTH
from fleet_smi.wire.program_output import parse_number
from fleet_smi.wire.report import MAX_REPORT_BYTES

UNKNOWN_OWNER = "?"
"""The user name that both systems write for a process whose owner they could not read."""
_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._@-]")
_MAX_NAME_IN_ID = 128
_NO_HOST = Host()


def decode_json(body: bytes) -> Any:
    """Decode a response; raise `Undecodable` if it is too large or not JSON."""
    if len(body) > MAX_REPORT_BYTES:
        raise Undecodable(f"its response is larger than {MAX_REPORT_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"its response cannot be decoded: {describe_error(error)}") from None


def require_object(value: Any, description: str) -> dict[str, Any]:
    """Return the value if it is an object; raise `Undecodable` otherwise."""
    if not isinstance(value, dict):
        raise Undecodable(f"{description} must be an object")
    return value


def require_list(parent: dict[str, Any], key: str) -> list[Any]:
    """Return the list under `key`, cut to its limit; raise `Undecodable` if there is none."""
    value = parent.get(key)
    if not isinstance(value, list):
        raise Undecodable(f"it has no list of {key}")
    return value[: MAX_ITEMS.get(key, len(value))]


def text_or_none(value: Any, max_length: int = MAX_TEXT_LENGTH) -> str | None:
    """Return the sanitised text, or `None` if it is empty or not a text."""
    return sanitize_text(value, max_length) or None if isinstance(value, str) else None


def int_or_none(value: Any) -> int | None:
    """Return a whole number, or `None` for anything else."""
    number = parse_number(value)
    return None if number is None or not number.is_integer() else int(number)


def user_or_none(value: Any) -> str | None:
    """Return the name of a user, or `None` where the owner is unknown."""
    user = text_or_none(value)
    return None if user == UNKNOWN_OWNER else user


def build_snapshot(
    system: str,
    fields: dict[str, Any],
    taken_at: float,
    gpus: Iterable[Gpu],
    *,
    missing: str,
    host: Host = _NO_HOST,
) -> Snapshot:
    """Build the snapshot of a machine that is known by its `hostname` alone.

    `missing` says what the format of this system does not carry. Raise `Undecodable` if the
    machine has no name.
    """
    # A node of gpu-cluster-monitor answers before its first reading, with everything empty.
    name = text_or_none(fields.get("hostname"))
    if name is None:
        raise Undecodable("it has no hostname: it may not have read its GPUs yet")
    node_id = f"{system}-{_NOT_IN_AN_ID.sub('-', name)[:_MAX_NAME_IN_ID]}"
    run = CollectorRun(name=system, outcome="ok", seconds=0.0, detail=f"does not report {missing}")
    return Snapshot(
        node_id=node_id,
        name=name,
        taken_at=taken_at,
        host=host,
        gpus=tuple(
            [replace(with_node_scoped_uuid(gpu, node_id), reported_by=system) for gpu in gpus]
        ),
        runs=(run,),
    )


def build_gpu(
    index: int,
    figures: dict[str, float | None],
    *,
    name: Any,
    temperature: Any,
    processes: tuple[Process, ...] | None,
    unread: dict[str, str],
) -> Gpu:
    """Build a GPU that is known by its index alone; figures out of range go to `unread`."""
    checked: dict[str, Any] = check_fields(figures, unread)
    return _gpu(
        index,
        **checked,
        name=text_or_none(name),
        temperature_celsius=check_temperature(
            parse_number(temperature), checked["busy_percent"], unread
        ),
        processes=processes,
        unread=unread,
    )


def unreadable_gpu(index: int) -> Gpu:
    """Build a GPU that exists but whose status cannot be decoded, so that it is not hidden."""
    return _gpu(index, fault=Fault(kind="unreadable", detail="its status is not an object"))


def _gpu(index: int, **fields: Any) -> Gpu:
    return Gpu(uuid=f"nvidia-gpu{index}", uuid_is_made=True, index=index, vendor="nvidia", **fields)


def pid_or_none(value: int | None) -> int | None:
    """Return a pid within range, or `None`."""
    return check_range("pid", value, {})


def program_name(command: str | None) -> str | None:
    """Return the program of a command line, for viewers who may not see its arguments."""
    arguments = (command or "").split(maxsplit=1)
    return text_or_none(PurePosixPath(arguments[0]).name) if arguments else None


def compute_processes(gpu: Gpu) -> list[Process] | None:
    """List the compute processes of a GPU and its instances, each once; `None` if unreadable."""
    # One unreadable list hides nothing: processes that were seen are still in use.
    processes = unique_processes(gpu)
    if processes is None:
        return None
    return [process for process in processes if process.kind != "graphics"]


def require_driver(machine: Snapshot | NodeView) -> None:
    """Raise `Unmet` where no GPU is listed because the driver fails: both systems fail then."""
    error = None if machine.gpus else driver_error(machine)
    if error is not None:
        raise Unmet(error)


def round_or_none(value: float | None) -> int | None:
    """Round a figure for a format of whole numbers; unknown (`None`) stays unknown."""
    return None if value is None else round(value)
