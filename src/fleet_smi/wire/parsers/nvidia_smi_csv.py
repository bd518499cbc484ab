"""`nvidia-smi --query-gpu`, `--query-compute-apps` (CSV) and `-L`: what is asked over SSH."""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.snapshot import Fault, Gpu, Process
from fleet_smi.wire.parsers._nvidia_errors import classify_failure, failed_devices, invalid_field
from fleet_smi.wire.parsers._nvidia_gpu import (
    THROTTLE_REASONS,
    NvidiaSmiReading,
    deduplicate_uuids,
    make_gpu,
    parse_version,
    sort_throttle_reasons,
)
from fleet_smi.wire.parsers._nvidia_list import ListedGpu, ListedInstance, parse_list
from fleet_smi.wire.parsers._nvidia_values import (
    is_not_available,
    make_process,
    parse_bool,
    unavailable_reason,
)

__all__ = [
    "APP_FIELDS",
    "FIELDS",
    "ComputeApps",
    "ListedGpu",
    "ListedInstance",
    "NvidiaSmiReading",
    "classify_failure",
    "drop_invalid_field",
    "failed_devices",
    "invalid_field",
    "parse_compute_apps",
    "parse_list",
    "parse_query_gpu",
    "with_processes",
]

MAX_OUTPUT_CHARS = 16 * 2**20
MAX_LINES = 65_536

# By the names nvidia-smi prints; best first.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "uuid": ("uuid",),
    "name": ("name",),
    "pci_bus_id": ("pci.bus_id",),
    "memory_total_bytes": ("memory.total",),
    "memory_used_bytes": ("memory.used",),
    "busy_percent": ("utilization.gpu",),
    "memory_busy_percent": ("utilization.memory",),
    "encoder_percent": ("utilization.encoder",),
    "decoder_percent": ("utilization.decoder",),
    "temperature_celsius": ("temperature.gpu",),
    "memory_temperature_celsius": ("temperature.memory",),
    "fan_percent": ("fan.speed",),
    "power_watts": ("power.draw.average", "power.draw.instant", "power.draw"),
    "power_limit_watts": ("enforced.power.limit", "power.limit"),
    "sm_clock_mhz": ("clocks.current.sm",),
    "sm_clock_max_mhz": ("clocks.max.sm",),
    "memory_clock_mhz": ("clocks.current.memory",),
    "memory_clock_max_mhz": ("clocks.max.memory",),
    "performance_state": ("pstate",),
    "ecc_corrected": ("ecc.errors.corrected.volatile.total",),
    "ecc_uncorrected": ("ecc.errors.uncorrected.volatile.total",),
    "pcie_generation": ("pcie.link.gen.current",),
    "pcie_generation_max": ("pcie.link.gen.max",),
    "pcie_width": ("pcie.link.width.current",),
    "pcie_width_max": ("pcie.link.width.max",),
    "persistence": ("persistence_mode",),
    "compute_mode": ("compute_mode",),
    "mig_mode": ("mig.mode.current",),
    "addressing_mode": ("addressing_mode",),
    "recovery_action": ("gpu_recovery_action",),
    "reset_required": ("reset_status.reset_required",),
    "drain_and_reset": ("reset_status.drain_and_reset_recommended",),
    "pending_retirement": ("retired_pages.pending",),
    "pending_remap": ("remapped_rows.pending",),
    "remap_failed": ("remapped_rows.failure",),
}
# What may be asked for under another name than the one that is printed.
_ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.max.mem": "clocks.max.memory",
    "gpu.power.draw.average": "power.draw.average",
    "gpu.power.draw.instant": "power.draw.instant",
    "gpu.power.current_limit": "enforced.power.limit",
    "gpu.power.requested_limit": "power.limit",
    "used_memory": "used_gpu_memory",
}

FIELDS: tuple[str, ...] = (
    "index",
    "uuid",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "utilization.memory",
    "temperature.gpu",
    "temperature.memory",
    "fan.speed",
    "power.draw",
    "power.limit",
    "enforced.power.limit",
    "clocks.current.sm",
    "clocks.max.sm",
    "clocks.current.memory",
    "clocks.max.memory",
    "pstate",
    "clocks_throttle_reasons.active",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "persistence_mode",
    "compute_mode",
    "retired_pages.pending",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "mig.mode.current",
    "addressing_mode",
    "gpu_recovery_action",
    "name",
)
"""What fleet-smi asks for; the name last, for it alone may hold a comma."""

APP_FIELDS: tuple[str, ...] = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")

_UNIT = re.compile(r"\s{0,4}\[[^\[\]]{0,16}\]$")
_COLUMN = re.compile(r"[a-z][A-Za-z0-9_]{0,60}(\.[A-Za-z0-9_]{1,60}){0,6}", re.ASCII)
_PLAIN = frozenset(("pid", "timestamp", "count", "serial", "hostname", "index", "process_name"))
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_Row = dict[str, str]


class ComputeApps(Struct, frozen=True, kw_only=True):
    """Processes by the UUID of their GPU, or its PCI address where no UUID was asked for.

    `untold` says for which GPUs the driver kept processes back, and in which words.
    """

    processes: dict[str, tuple[Process, ...]] = {}
    unavailable: dict[str, str] = {}


def parse_query_gpu(text: str, fields: Sequence[str] | None = None) -> NvidiaSmiReading:
    """Read the CSV of `--query-gpu`; without a header, `fields` are those asked for."""
    columns, lines = _table(text, fields, "--query-gpu")
    if "pid" in columns:
        raise ReadFailed("this lists processes: it is not what --query-gpu prints")
    known = {name for names in _COLUMNS.values() for name in names}
    if not known.intersection(columns):
        raise ReadFailed("no column of this says anything of a GPU")
    if not lines:
        raise ReadFailed("nvidia-smi --query-gpu printed no GPU")
    rows = [_row(line, columns, "name") for line in lines]
    gpus = (
        _gpu(row, line, index) for index, (row, line) in enumerate(zip(rows, lines, strict=True))
    )
    drivers = (parse_version(row.get("driver_version")) for row in rows if row)
    return NvidiaSmiReading(
        gpus=deduplicate_uuids(gpus), driver_version=next(filter(None, drivers), None)
    )


def parse_compute_apps(text: str, fields: Sequence[str] | None = None) -> ComputeApps:
    """Read the CSV of `--query-compute-apps`; without a header, `fields` are those asked for."""
    if fields is not None:
        fields = ["process_name" if field == "name" else field for field in fields]
    columns, lines = _table(text, fields, "--query-compute-apps")
    if "pid" not in columns or not {"uuid", "pci.bus_id"}.intersection(columns):
        raise ReadFailed("it takes gpu_uuid and pid to tell which process is on which GPU")
    processes: dict[str, list[Process]] = {}
    untold: dict[str, list[str]] = {}
    for line in lines:
        row = _row(line, columns, "process_name")
        if row is None:
            raise ReadFailed(f"a line has {line.count(',') + 1} cells, not {len(columns)}")
        key = row.get("uuid") or normalize_pci_address(row.get("pci.bus_id", ""))
        if not key:
            raise ReadFailed("a line of processes does not say which GPU they are on")
        name, memory = row.get("process_name", ""), row.get("used_gpu_memory", "")
        if process := make_process(row["pid"], "C", name, memory):
            processes.setdefault(key, []).append(process)
        else:
            untold.setdefault(key, []).append(unavailable_reason(row["pid"]) or "N/A")
    return ComputeApps(
        processes={key: tuple(found) for key, found in processes.items()},
        unavailable={key: f"{len(said)} not told: {said[0]}" for key, said in untold.items()},
    )


def with_processes(gpus: Sequence[Gpu], apps: ComputeApps) -> tuple[Gpu, ...]:
    """The same devices with their compute processes; graphics is not in that answer."""
    return tuple(_with_processes(gpu, apps) for gpu in gpus)


def drop_invalid_field(fields: Sequence[str], text: str) -> tuple[str, ...] | None:
    """The fields to ask for again when `text` refuses one; `None` when it refuses none of them."""
    refused = invalid_field(text)
    return tuple(field for field in fields if field != refused) if refused in fields else None


def _with_processes(gpu: Gpu, apps: ComputeApps) -> Gpu:
    keys = (gpu.uuid, gpu.pci_bus_id or "")
    found = next((apps.processes[key] for key in keys if key in apps.processes), ())
    untold = next((apps.unavailable[key] for key in keys if key in apps.unavailable), None)
    if untold is not None:
        unread = gpu.unread | {"processes": untold}
        return replace(gpu, processes=found or None, unread=unread)
    is_lost = gpu.fault is not None and gpu.fault.kind == "lost"
    return replace(gpu, processes=found if found or not is_lost else None)


def _table(text: str, fields: Sequence[str] | None, command: str) -> tuple[list[str], list[str]]:
    if len(text) > MAX_OUTPUT_CHARS:
        raise ReadFailed(f"the answer of nvidia-smi is larger than {MAX_OUTPUT_CHARS >> 20} MiB")
    if error := classify_failure(text):
        raise error
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_LINES:
        raise ReadFailed(f"nvidia-smi printed more than {MAX_LINES} lines")
    header = _header(lines[0]) if lines else None
    if fields is not None and header is not None and len(header) != len(fields):
        raise ReadFailed(f"{len(fields)} fields were asked for, and {len(header)} came back")
    columns = header if fields is None else [_printed(field) for field in fields]
    if columns is None:
        raise ReadFailed(f"this has no header of nvidia-smi {command}")
    for mark, other in (
        ("retired_pages.cause", "retired-pages"),
        ("max_memory_usage", "accounted-apps"),
    ):
        if mark in columns:
            raise ReadFailed(f"this is what --query-{other} prints, not {command}")
    return columns, lines[1:] if header is not None else lines


def _header(line: str) -> list[str] | None:
    names = [_UNIT.sub("", cell.strip()) for cell in line.split(",")]
    if not all(map(_COLUMN.fullmatch, names)):
        return None
    # A column is a dotted name, or one of a few; a lone word may as well be a value.
    typical = any("." in name or "_" in name or name in _PLAIN for name in names)
    return [_printed(name) for name in names] if typical or "uuid" in names else None


def _printed(field: str) -> str:
    field = _ALIASES.get(field.strip(), field.strip())
    # Renamed with 535; the old name may still be asked for.
    return field.replace("clocks_throttle_reasons.", "clocks_event_reasons.")


def _row(line: str, columns: Sequence[str], free: str) -> _Row | None:
    """The cells by column; a surplus belongs to the one column whose text is free."""
    cells = [cell.strip() for cell in line.split(",")]
    surplus = len(cells) - len(columns)
    if surplus > 0 and free in columns:
        at = columns.index(free)
        # As printed: the separator is a comma and a blank, a name's own comma may stand bare.
        text = ",".join(line.split(",")[at : at + surplus + 1]).strip()
        cells[at : at + surplus + 1] = [text]
    return dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else None


def _gpu(row: _Row | None, line: str, place: int) -> Gpu:
    if row is None:
        return _unreadable(line, place)
    texts = {
        field: [row[name] for name in names if name in row] for field, names in _COLUMNS.items()
    }
    index = int(row["index"]) if re.fullmatch(r"\d{1,5}", row.get("index", ""), re.ASCII) else place
    unread: dict[str, str] = {}
    reasons = _throttle_reasons(row, unread)
    return make_gpu(texts, index, throttle_reasons=reasons, unread=unread)


def _unreadable(line: str, place: int) -> Gpu:
    uuid = _UUID.search(line)
    if uuid is None:
        raise ReadFailed(f"line {place + 1} of the answer does not have the cells asked for")
    detail = "its line does not have the cells asked for"
    fault = Fault(kind="unreadable", detail=detail, remedy="run nvidia-smi -q there")
    return Gpu(uuid=uuid[0], index=place, vendor="nvidia", fault=fault)


def _throttle_reasons(row: _Row, unread: dict[str, str]) -> tuple[str, ...] | None:
    prefix = "clocks_event_reasons."
    mask = row.get(prefix + "active", "")
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", mask):
        bits = int(mask, 16)
        return tuple(name for bit, name in enumerate(THROTTLE_REASONS) if bits >> bit & 1)
    cells = {name: row[prefix + name] for name in THROTTLE_REASONS if prefix + name in row}
    states = {name: parse_bool(cell) for name, cell in cells.items()}
    if any(state is not None for state in states.values()):
        return sort_throttle_reasons(name for name, active in states.items() if active)
    said = next((text for text in (mask, *cells.values()) if not is_not_available(text)), None)
    if said is not None and (reason := unavailable_reason(said)):
        unread["throttle_reasons"] = reason
    return None
