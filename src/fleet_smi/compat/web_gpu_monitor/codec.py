"""Codec of web-gpu-monitor's `load_data.csv`: one row per GPU, to and from the model. Pure.

Its `load_mem` is how busy the memory was, not how full; the file has no memory in use. A process
of unknown owner is `Zombie` there and a hidden process here. Readers of the file take a GPU
without a user for free, so one that is not free gets at least a `Zombie`.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable

from fleet_smi.errors import Undecodable
from fleet_smi.model.fleet import FleetView, JudgedGpu, NodeView
from fleet_smi.model.merge import all_processes, with_node_scoped_uuid
from fleet_smi.model.range_check import check_fields, check_range
from fleet_smi.model.snapshot import CollectorRun, Gpu, Process, Snapshot
from fleet_smi.model.synthetic_pids import synthetic_pid
from fleet_smi.model.verdict.readings import is_display
from fleet_smi.wire.cli_text import parse_int, parse_number, parse_text
from fleet_smi.wire.csv import CsvValue, encode_csv, unescape_formula
from fleet_smi.wire.limits import MAX_ITEMS, MAX_TEXT_LENGTH

COLLECTOR_NAME = "load_data"
COLUMNS = ("", "load", "load_mem", "gpu_idx", "gpu_name", "gpu_uuid", "hostname", "username")
_REQUIRED = COLUMNS[1:]
_ZOMBIE = "Zombie"
_MAX_NODES = 10_000
_MAX_HOST_LENGTH = 96  # the UUIDs of its GPUs contain it
_NOT_IN_AN_ID = re.compile(r"[^0-9A-Za-z._:@-]")
_MISSING = "does not report memory in use, power, temperature, pids and commands"

CsvRow = dict[str, str]


def encode(view: FleetView) -> str:
    """Encode the fleet; what is not measured is empty."""
    return encode_csv(
        [COLUMNS, *(_row(node, number, gpu) for node, number, gpu in _numbered(view))]
    )


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


def decode_load_data(body: bytes, taken_at: float) -> tuple[Snapshot, ...]:
    """Decode the machines of a file; a bad row does not hide the others.

    Raise `Undecodable` if it is not a load_data.csv.
    """
    nodes: dict[str, list[Gpu]] = {}
    lost: dict[str, int] = {}
    for row in _rows(body):
        host = parse_text(unescape_formula(row["hostname"].strip()), _MAX_HOST_LENGTH)
        gpu = _gpu(row)
        if host is None or (host not in nodes and len(nodes) == _MAX_NODES):
            continue
        gpus = nodes.setdefault(host, [])
        if gpu is None or len(gpus) == MAX_ITEMS["gpus"]:
            lost[host] = lost.get(host, 0) + 1
        else:
            gpus.append(gpu)
    return tuple(_snapshot(host, gpus, lost.get(host, 0), taken_at) for host, gpus in nodes.items())


def _rows(body: bytes) -> Iterable[CsvRow]:
    reader = csv.DictReader(io.StringIO(body.decode("utf-8-sig", "replace"), newline=""))
    try:
        missing = [name for name in _REQUIRED if name not in (reader.fieldnames or ())]
        if missing:
            raise Undecodable(f"not a load_data.csv: it has no column {missing[0]}")
        return [{name: row[name] or "" for name in _REQUIRED} for row in reader]
    except csv.Error as error:
        raise Undecodable(f"not a load_data.csv: {error}") from None


def _snapshot(host: str, gpus: list[Gpu], lost: int, taken_at: float) -> Snapshot:
    node_id = f"{COLLECTOR_NAME}-{_NOT_IN_AN_ID.sub('_', host)}"
    lost_note = f"; {lost} of its rows could not be read" if lost else ""
    return Snapshot(
        node_id=node_id,
        name=host,
        taken_at=taken_at,
        gpus=tuple(with_node_scoped_uuid(gpu, node_id) for gpu in gpus),
        runs=(
            CollectorRun(
                name=COLLECTOR_NAME, outcome="ok", seconds=0.0, detail=_MISSING + lost_note
            ),
        ),
    )


def _gpu(row: CsvRow) -> Gpu | None:
    unread: dict[str, str] = {}
    index = check_range("index", parse_int(row["gpu_idx"]), unread)
    if index is None:
        return None
    loads = {
        "busy_percent": parse_number(row["load"]),
        "memory_busy_percent": parse_number(row["load_mem"]),
    }
    uuid = parse_text(unescape_formula(row["gpu_uuid"].strip()))
    return Gpu(
        uuid=uuid or f"nvidia-gpu{index}",
        uuid_is_made=uuid is None,
        index=index,
        vendor="nvidia",
        name=parse_text(unescape_formula(row["gpu_name"].strip())),
        processes=tuple(_processes(unescape_formula(row["username"].strip()))),
        **check_fields(loads, unread),
        unread=unread,
    )


def _processes(users: str) -> Iterable[Process]:
    names = [name.strip() for name in users.split(",") if name.strip()]
    counts: Counter[str] = Counter()
    for name in names[: MAX_ITEMS["processes"]]:
        user = None if name == _ZOMBIE else parse_text(name, MAX_TEXT_LENGTH)
        # Numbered per name, so that a user with two processes does not become one.
        pid = synthetic_pid(user, counts[name])
        counts[name] += 1
        yield Process(pid=pid, pid_is_made=True, kind="compute", user=user, hidden=user is None)
