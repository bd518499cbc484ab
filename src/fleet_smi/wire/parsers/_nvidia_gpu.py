"""Build one NVIDIA GPU or MIG instance from the texts that nvidia-smi prints of it."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.figures import GPU_FIGURES, Unit
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.range_check import check_memory_used, check_temperature
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Fault, Gpu, Instance, Process
from fleet_smi.model.throttle_reasons import NVIDIA_THROTTLE_REASONS
from fleet_smi.wire.parsers._nvidia_values import (
    BYTES,
    BYTES_PER_SECOND,
    CELSIUS,
    COUNT,
    MHZ,
    PERCENT,
    WATTS,
    Units,
    first_float,
    first_int,
    first_text,
    is_error_text,
    is_not_available,
    parse_bool,
    parse_quantity,
    strip_brackets,
    sum_counts,
)

# Printed texts by the model's field name, best first; a field that is not printed is missing.
Texts = Mapping[str, Sequence[str]]

REMEDY_LOST = "reboot the machine; if it is lost again, reseat or replace the card"
REMEDY_RESET = "end what runs on it, then reset it: nvidia-smi --gpu-reset -i {}"
REMEDY_REPLACE = "have the card replaced"
REMEDY_PERMISSION = "ask for access to /dev/nvidia*"
REMEDY_REBOOT = "end what runs on it, then reboot the machine"

# How nvidia-smi writes a figure of this unit: as a number with a fraction, or as a whole one.
_REAL_UNITS: dict[Unit, Units] = {"percent": PERCENT, "celsius": CELSIUS, "watts": WATTS}
_WHOLE_UNITS: dict[Unit, Units] = {
    "bytes": BYTES,
    "megahertz": MHZ,
    "count": COUNT,
    "bytes_per_second": BYTES_PER_SECOND,
}
# Errors are printed per kind of memory: their counts are added up.
_SUMMED = ("ecc_corrected", "ecc_uncorrected")
_LOST = re.compile(r"(?i)gpu is lost|fallen off the bus")
_RESET = re.compile(r"(?i)requires? reset|reset required")
_REFUSED = re.compile(r"(?i)insufficient permissions|no permission")
_INTEGRATED = re.compile(r"(?i)\b(GB10|Orin|Thor|Xavier|Tegra|nvgpu)\b")
# "Yes" in one of these fields means that the GPU is to be reset once nobody uses it.
_PENDING = {
    "pending_retirement": "memory pages are to be retired at the next reset",
    "pending_remap": "memory rows are to be remapped at the next reset",
    "drain_and_reset": "drain and reset recommended",
}


class NvidiaSmiReading(Struct, frozen=True, kw_only=True):
    """What one call of nvidia-smi printed, parsed."""

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None


def parse_version(text: str | None) -> str | None:
    """Return a version as printed, `None` for "Not Found" and "N/A"."""
    return first_text("version", (text or "",), 64, {})


def make_gpu(
    texts: Texts,
    index: int,
    *,
    throttle_reasons: tuple[str, ...] | None = None,
    processes: tuple[Process, ...] | None = None,
    unread: dict[str, str] | None = None,
) -> Gpu:
    """Build one GPU; a value out of range is left out, and `unread` says why."""
    unread = {} if unread is None else unread
    pci = next(filter(None, map(normalize_pci_address, texts.get("pci_bus_id", ()))), None)
    fault = _fault(texts, pci)
    if fault is not None and fault.kind == "lost" and not processes:
        # The empty list of a GPU that does not answer does not mean that it has no processes.
        processes = None
        unread.setdefault("processes", fault.detail)
    numbers = _reals(texts, unread) | _wholes(texts, unread)
    uuid = first_text("uuid", texts.get("uuid", ()), 128, {})
    return Gpu(
        uuid=uuid or placeholder_uuid(pci, index),
        uuid_is_made=not uuid,
        index=index,
        vendor="nvidia",
        name=first_text("name", texts.get("name", ()), 128, unread),
        pci_bus_id=pci,
        memory_shared=_is_shared(texts),
        performance_state=_performance_state(texts, unread),
        throttle_reasons=throttle_reasons,
        ecc_corrected=sum_counts("ecc_corrected", texts.get("ecc_corrected", ()), unread),
        ecc_uncorrected=sum_counts("ecc_uncorrected", texts.get("ecc_uncorrected", ()), unread),
        persistence=_switch("persistence", texts, unread),
        compute_mode=_compute_mode(texts, unread),
        mig_mode=_switch("mig_mode", texts, unread),
        processes=processes,
        fault=fault,
        ecc_contained=_errors_are_contained(texts, fault),
        reset_pending=_reset_pending(texts),
        unread=unread,
        **numbers,  # type: ignore[arg-type]
    )


def make_instance(
    texts: Texts,
    uuid: str,
    profile: str | None,
    processes: tuple[Process, ...] | None,
    *,
    uuid_is_made: bool,
) -> Instance:
    """Build one MIG instance."""
    unread: dict[str, str] = {}

    def read(field: str, units: Mapping[str, float] = COUNT) -> int | None:
        return first_int(field, texts.get(field, ()), units, unread)

    memory_total = read("memory_total_bytes", BYTES)
    return Instance(
        uuid=uuid,
        uuid_is_made=uuid_is_made,
        profile=profile,
        gpu_instance_id=read("gpu_instance_id"),
        compute_instance_id=read("compute_instance_id"),
        memory_used_bytes=check_memory_used(read("memory_used_bytes", BYTES), memory_total, unread),
        memory_total_bytes=memory_total,
        busy_percent=first_float("busy_percent", texts.get("busy_percent", ()), PERCENT, unread),
        processes=processes,
        unread=unread,
    )


def placeholder_uuid(pci: str | None, index: int) -> str:
    """Return an id for a GPU without a UUID; stable as long as it stays in its slot."""
    return f"GPU-at-{pci or index}"


def deduplicate_uuids(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Make UUIDs unique, also where one masked UUID is printed for several GPUs."""
    seen: set[str] = set()
    unique: list[Gpu] = []
    for gpu in gpus:
        uuid = gpu.uuid if gpu.uuid not in seen else f"{gpu.uuid}/{gpu.pci_bus_id or gpu.index}"
        uuid = uuid if uuid not in seen else f"{gpu.uuid}/{gpu.index}"
        seen.add(uuid)
        unique.append(gpu if uuid == gpu.uuid else replace(gpu, uuid=uuid, uuid_is_made=True))
    return tuple(unique)


def sort_throttle_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    """Sort reasons in the order of NVML's bits, unknown ones last."""
    order = {name: position for position, name in enumerate(NVIDIA_THROTTLE_REASONS)}
    return tuple(sorted(set(reasons), key=lambda name: (order.get(name, len(order)), name)))


def fault_from_message(message: str, pci: str | None = None) -> Fault:
    """Return the fault of a GPU for which the driver prints only this message."""
    detail = sanitize_text(message, 200) or "no answer"
    if _RESET.search(message):
        return Fault(kind="needs_reset", detail=detail, remedy=_reset_remedy(pci))
    if _REFUSED.search(message):
        detail = f"the device could not be opened: {detail.lower()}"
        return Fault(kind="unreadable", detail=detail, remedy=REMEDY_PERMISSION)
    return Fault(kind="lost", detail=detail, remedy=REMEDY_LOST)


def _reals(texts: Texts, unread: dict[str, str]) -> dict[str, float | None]:
    values: dict[str, float | None] = {
        figure.field: first_float(
            figure.field, texts.get(figure.field, ()), _REAL_UNITS[figure.unit], unread
        )
        for figure in GPU_FIGURES
        if figure.unit in _REAL_UNITS
    }
    values["temperature_celsius"] = check_temperature(
        values["temperature_celsius"], values["busy_percent"], unread
    )
    return values


def _wholes(texts: Texts, unread: dict[str, str]) -> dict[str, int | None]:
    values: dict[str, int | None] = {
        figure.field: first_int(
            figure.field, texts.get(figure.field, ()), _WHOLE_UNITS[figure.unit], unread
        )
        for figure in GPU_FIGURES
        if figure.unit in _WHOLE_UNITS and figure.field not in _SUMMED
    }
    if values["memory_total_bytes"] == 0:
        # A total of 0 means that it has no memory of its own: neither full nor empty.
        values |= {"memory_total_bytes": None, "memory_used_bytes": None}
    values["memory_used_bytes"] = check_memory_used(
        values["memory_used_bytes"], values["memory_total_bytes"], unread
    )
    return values


def _is_shared(texts: Texts) -> bool:
    # Printed as "N/A", not as an error: the memory of a lost GPU is unreadable, not the host's.
    totals = texts.get("memory_total_bytes", ())
    has_none = all(is_not_available(text) or parse_quantity(text, BYTES) == 0 for text in totals)
    if not totals or not has_none or _first_match(texts, _LOST):
        return False
    integrated = any(map(_INTEGRATED.search, texts.get("name", ())))
    return integrated or any(
        strip_brackets(mode) == "ATS" for mode in texts.get("addressing_mode", ())
    )


def _performance_state(texts: Texts, unread: dict[str, str]) -> str | None:
    state = first_text("performance_state", texts.get("performance_state", ()), 16, unread)
    if state is None or re.fullmatch(r"P\d{1,2}", state, re.ASCII):
        return state
    unread["performance_state"] = state
    return None


def _compute_mode(texts: Texts, unread: dict[str, str]) -> str | None:
    mode = first_text("compute_mode", texts.get("compute_mode", ()), 40, unread)
    return None if mode is None else re.sub(r"[\s.]+", "_", mode.lower())


def _switch(field: str, texts: Texts, unread: dict[str, str]) -> bool | None:
    for text in texts.get(field, ()):
        if is_error_text(text):
            unread[field] = sanitize_text(strip_brackets(text), 80)
        elif (state := parse_bool(text)) is not None:
            return state
    return None


def _fault(texts: Texts, pci: str | None) -> Fault | None:
    if message := _first_match(texts, _LOST) or _first_match(texts, _RESET):
        return fault_from_message(message, pci)
    for action in texts.get("recovery_action", ()):
        if _is_action(action) and not _is_drain(action):
            detail = f"the driver asks for recovery: {sanitize_text(strip_brackets(action), 80)}"
            reboot = "reboot" in action.lower()
            remedy = REMEDY_REBOOT if reboot else _reset_remedy(pci)
            return Fault(kind="needs_reset", detail=detail, remedy=remedy)
    if any(map(parse_bool, texts.get("remap_failed", ()))):
        detail = "memory rows could not be remapped"
        return Fault(kind="needs_reset", detail=detail, remedy=REMEDY_REPLACE)
    if any(map(parse_bool, texts.get("reset_required", ()))):
        return Fault(kind="needs_reset", detail="reset required", remedy=_reset_remedy(pci))
    return None


def _is_action(text: str) -> bool:
    return not is_not_available(text) and not is_error_text(text)


def _is_drain(action: str) -> bool:
    """Whether the driver recommends a reset once nobody uses it; until then it can be used."""
    return "drain" in action.lower()


def _reset_pending(texts: Texts) -> str | None:
    pending = [
        detail for field, detail in _PENDING.items() if any(map(parse_bool, texts.get(field, ())))
    ]
    actions = filter(_is_action, texts.get("recovery_action", ()))
    pending += [sanitize_text(strip_brackets(text), 80) for text in actions if _is_drain(text)]
    return pending[0] if pending else None


def _errors_are_contained(texts: Texts, fault: Fault | None) -> bool | None:
    # The cards that can remap rows contain errors, too.
    remaps = any(parse_bool(text) is not None for text in texts.get("pending_remap", ()))
    return fault is None if remaps else None


def _reset_remedy(pci: str | None) -> str:
    return REMEDY_RESET.format(pci or "<id>")


def _first_match(texts: Texts, pattern: re.Pattern[str]) -> str | None:
    printed = (text for field in texts for text in texts[field])
    return next((strip_brackets(text) for text in printed if pattern.search(text)), None)
