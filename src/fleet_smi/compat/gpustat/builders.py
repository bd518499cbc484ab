"""What both forms of gpustat tell of a GPU and of a process, as the model has it."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from fleet_smi.model.merge import with_node_scoped_uuid
from fleet_smi.model.range_check import check_fields, check_range, check_temperature
from fleet_smi.model.redact import redact
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Host, Process, Snapshot
from fleet_smi.model.synthetic_pids import synthetic_pid
from fleet_smi.wire.cli_text import parse_text
from fleet_smi.wire.limits import MAX_ITEMS, max_length

COLLECTOR_NAME = "gpustat"
GPU_LOST_TEXT, UNKNOWN_ERROR_TEXT = "((GPU is lost))", "((Unknown Error))"
_REMEDY = "reboot; if it returns, have the hardware looked at"
_UNKNOWN = frozenset({"?", "??", "--", "None"})
_UNFIT = re.compile(r"[^0-9A-Za-z._:@-]+", re.ASCII)
# It lists compute and graphics alike and does not say which is which.
_DISPLAYS = frozenset(
    {"X", "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell", "sway"}
)


def node_id_from_host(host: str) -> str:
    """What a node goes by that is known by its name alone."""
    return f"{COLLECTOR_NAME}-{_UNFIT.sub('_', host)[:128]}"


def build_snapshot(
    host: str, taken_at: float, driver: str | None, gpus: Iterable[Gpu], unavailable: Iterable[str]
) -> Snapshot:
    """The snapshot of one host, with what this way cannot tell said once."""
    node_id = node_id_from_host(host)
    return Snapshot(
        node_id=node_id,
        name=host,
        taken_at=taken_at,
        host=Host(driver_version=driver),
        gpus=tuple(with_node_scoped_uuid(gpu, node_id) for gpu in gpus),
        runs=(
            CollectorRun(
                name=COLLECTOR_NAME,
                outcome="ok",
                seconds=0.0,
                detail=f"cannot tell {', '.join(unavailable)}",
            ),
        ),
    )


def build_gpu(
    index: int,
    name: str | None,
    figures: dict[str, Any],
    processes: Iterable[Process] | None,
    uuid: str | None = None,
) -> Gpu:
    """One GPU; `figures` are by the model's names and in its units."""
    fault = _fault(name)
    unread: dict[str, str] = {}
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
        processes=None if processes is None else _told_apart(processes),
        fault=fault,
        unread=unread,
        **fields,
    )


def unreadable_gpu(index: int, detail: str) -> Gpu:
    """A GPU that is there and of which nothing is understood: it never hides the others."""
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
    """One process; one that is told without a pid goes by whose it is and what it runs."""
    known_user, known_name = text_or_none(user), text_or_none(name)
    line = text_or_none(command, max_length("command"))
    fields: dict[str, Any] = {key: check_range(key, value, {}) for key, value in figures.items()}
    pid = check_range("pid", pid, {})
    return Process(
        pid=synthetic_pid(known_user, known_name) if pid is None else pid,
        pid_is_made=pid is None,
        kind="graphics" if known_name in _DISPLAYS else "compute",
        user=known_user,
        name=known_name,
        command=None if line is None else redact(line),
        hidden=known_user is None and known_name is None,
        **fields,
    )


def _told_apart(processes: Iterable[Process]) -> tuple[Process, ...]:
    """Two without a pid that are alike are still two."""
    counts = Counter[int]()
    apart = []
    for one in list(processes)[: MAX_ITEMS["processes"]]:
        counts[one.pid] += 1
        again = counts[one.pid] > 1 and one.pid_is_made
        pid = synthetic_pid(one.user, one.name, counts[one.pid]) if again else one.pid
        apart.append(replace(one, pid=pid))
    return tuple(apart)


def text_or_none(value: Any, max_length: int = 128) -> str | None:
    """A text, unless it is one of gpustat's words for unknown."""
    text = parse_text(value, max_length)
    return None if text in _UNKNOWN else text


def _fault(name: str | None) -> Fault | None:
    if name == GPU_LOST_TEXT:
        return Fault(kind="lost", detail="GPU is lost", remedy=_REMEDY)
    if name is not None and name.startswith("((") and name.endswith("))"):
        return Fault(kind="unreadable", detail=sanitize_text(name[2:-2], 128).lower())
    return None
