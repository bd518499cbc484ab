"""What both forms of gpustat tell of a GPU and of a process, as the model has it."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from fleet_smi.model.joining import with_own_uuid
from fleet_smi.model.made_pids import made_pid
from fleet_smi.model.plausible import checked, plausible, plausible_temperature
from fleet_smi.model.redact import redact
from fleet_smi.model.snapshot import CollectorRun, Fault, Gpu, Host, Process, Snapshot
from fleet_smi.model.text import clean
from fleet_smi.wire.bounds import MOST, longest
from fleet_smi.wire.printed import words

DIALECT = "gpustat"
LOST, UNKNOWN_ERROR = "((GPU is lost))", "((Unknown Error))"
_REMEDY = "reboot; if it returns, have the hardware looked at"
_UNKNOWN = frozenset({"?", "??", "--", "None"})
_UNFIT = re.compile(r"[^0-9A-Za-z._:@-]+", re.ASCII)
# It lists compute and graphics alike and does not say which is which.
_DISPLAYS = frozenset(
    {"X", "Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "plasmashell", "sway"}
)


def node_id_of(host: str) -> str:
    """What a node goes by that is known by its name alone."""
    return f"{DIALECT}-{_UNFIT.sub('_', host)[:128]}"


def snapshot_of(
    host: str, taken_at: float, driver: str | None, gpus: Iterable[Gpu], untold: Iterable[str]
) -> Snapshot:
    """The snapshot of one host, with what this way cannot tell said once."""
    node_id = node_id_of(host)
    return Snapshot(
        node_id=node_id,
        name=host,
        taken_at=taken_at,
        host=Host(driver_version=driver),
        gpus=tuple(with_own_uuid(gpu, node_id) for gpu in gpus),
        runs=(
            CollectorRun(
                name=DIALECT,
                outcome="ok",
                seconds=0.0,
                detail=f"cannot tell {', '.join(untold)}",
            ),
        ),
    )


def gpu_of(
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
    fields = checked(figures, unread)
    fields["temperature_celsius"] = plausible_temperature(
        temperature, fields.get("busy_percent"), unread
    )
    return Gpu(
        uuid=uuid or f"{DIALECT}-gpu{index}",
        uuid_is_made=uuid is None,
        index=index,
        vendor="nvidia",
        name=None if fault or name is None else clean(name, longest("name")) or None,
        processes=None if processes is None else _told_apart(processes),
        fault=fault,
        unread=unread,
        **fields,
    )


def unreadable(index: int, detail: str) -> Gpu:
    """A GPU that is there and of which nothing is understood: it never hides the others."""
    fault = Fault(kind="unreadable", detail=clean(detail, longest("detail")))
    return replace(gpu_of(index, None, {}, None), fault=fault)


def process_of(
    *,
    user: Any,
    name: Any,
    command: Any = None,
    pid: int | None,
    **figures: float | None,
) -> Process:
    """One process; one that is told without a pid goes by whose it is and what it runs."""
    known_user, known_name = told(user), told(name)
    line = told(command, longest("command"))
    fields: dict[str, Any] = {key: plausible(key, value, {}) for key, value in figures.items()}
    pid = plausible("pid", pid, {})
    return Process(
        pid=made_pid(known_user, known_name) if pid is None else pid,
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
    for one in list(processes)[: MOST["processes"]]:
        counts[one.pid] += 1
        again = counts[one.pid] > 1 and one.pid_is_made
        pid = made_pid(one.user, one.name, counts[one.pid]) if again else one.pid
        apart.append(replace(one, pid=pid))
    return tuple(apart)


def told(value: Any, limit: int = 128) -> str | None:
    """A text, unless it is one of gpustat's words for unknown."""
    text = words(value, limit)
    return None if text in _UNKNOWN else text


def _fault(name: str | None) -> Fault | None:
    if name == LOST:
        return Fault(kind="lost", detail="GPU is lost", remedy=_REMEDY)
    if name is not None and name.startswith("((") and name.endswith("))"):
        return Fault(kind="unreadable", detail=clean(name[2:-2], 128).lower())
    return None
