"""What an older system answers about a machine in JSON, taken apart without trusting any of it."""

import re
from pathlib import PurePosixPath
from typing import Any

import msgspec

from fleet_smi.errors import Undecodable
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Fault, Gpu, Process
from fleet_smi.wire.cli_text import parse_number
from fleet_smi.wire.error_text import describe_error
from fleet_smi.wire.limits import MAX_ITEMS, MAX_TEXT_LENGTH
from fleet_smi.wire.report import MAX_REPORT_BYTES

_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._:@-]")
_LONGEST_ID_NAME = 128


def decode_json(body: bytes) -> Any:
    """The value in these bytes; raise `Undecodable`."""
    if len(body) > MAX_REPORT_BYTES:
        raise Undecodable(f"an answer of more than {MAX_REPORT_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"its answer is not understood: {describe_error(error)}") from None


def require_object(value: Any, description: str) -> dict[str, Any]:
    """An object; raise `Undecodable` for anything else."""
    if not isinstance(value, dict):
        raise Undecodable(f"{description} must be an object")
    return value


def require_list(parent: dict[str, Any], key: str) -> list[Any]:
    """The list of this name; raise `Undecodable` when there is none."""
    value = parent.get(key)
    if not isinstance(value, list):
        raise Undecodable(f"it has no list of {key}")
    return value[: MAX_ITEMS.get(key, len(value))]


def text_or_none(value: Any, max_length: int = MAX_TEXT_LENGTH) -> str | None:
    """A text made harmless; `None` where there is none."""
    return sanitize_text(value, max_length) or None if isinstance(value, str) else None


def int_or_none(value: Any) -> int | None:
    """A whole number, or `None`."""
    figure = parse_number(value)
    return None if figure is None or not figure.is_integer() else int(figure)


def node_id_from_name(dialect: str, name: str) -> str:
    """The id of a node that is known by nothing but its name."""
    return f"{dialect}-{_NOT_IN_AN_ID.sub('-', name)[:_LONGEST_ID_NAME]}"


def make_gpu(index: int, **fields: Any) -> Gpu:
    """A GPU that is known by its place alone."""
    return Gpu(uuid=f"nvidia-gpu{index}", uuid_is_made=True, index=index, vendor="nvidia", **fields)


def unreadable_gpu(index: int) -> Gpu:
    """A GPU of which nothing is understood but that it is there."""
    return make_gpu(index, fault=Fault(kind="unreadable", detail="its status is no object"))


def program_name(command: str | None) -> str | None:
    """The program of a command line, for those who may see no more of it."""
    words = (command or "").split(maxsplit=1)
    return text_or_none(PurePosixPath(words[0]).name) if words else None


def compute_processes(gpu: Gpu) -> list[Process] | None:
    """The processes that compute on a GPU or on a part of it; `None` where it is not known."""
    lists = [gpu.processes, *[part.processes for part in gpu.instances]]
    known = [processes for processes in lists if processes is not None]
    if not known:
        return None
    return [process for each in known for process in each if process.kind != "graphics"]


def round_or_none(figure: float | None) -> int | None:
    """A figure for a format that has whole numbers alone."""
    return None if figure is None else round(figure)
