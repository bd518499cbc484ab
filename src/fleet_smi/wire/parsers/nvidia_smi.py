"""Parse the XML of `nvidia-smi -q -x`, of every driver since 340, into GPUs."""

from xml.etree.ElementTree import Element

from msgspec.structs import replace

from fleet_smi.errors import CollectError, ReadFailed
from fleet_smi.model.snapshot import Fault, Gpu, Instance, Process
from fleet_smi.wire.parsers._nvidia_errors import classify_failure, failed_devices
from fleet_smi.wire.parsers._nvidia_gpu import (
    NvidiaSmiReading,
    deduplicate_uuids,
    fault_from_message,
    make_gpu,
    make_instance,
    parse_version,
    placeholder_uuid,
    sort_throttle_reasons,
)
from fleet_smi.wire.parsers._nvidia_list import ListedGpu, ListedInstance, parse_list
from fleet_smi.wire.parsers._nvidia_values import (
    COUNT,
    first_int,
    make_process,
    parse_bool,
    unavailable_reason,
)
from fleet_smi.wire.parsers._nvidia_xml import parse_document

__all__ = [
    "NvidiaSmiReading",
    "classify_failure",
    "failed_devices",
    "fault_from_message",
    "parse_xml",
    "placeholder_uuid",
]

# Paths of every layout, best first: the layout changed within one version of the DTD.
_PATHS: dict[str, tuple[str, ...]] = {
    "uuid": ("uuid",),
    "name": ("product_name",),
    "pci_bus_id": ("pci/pci_bus_id",),
    "memory_total_bytes": ("fb_memory_usage/total",),
    "memory_used_bytes": ("fb_memory_usage/used",),
    "busy_percent": ("utilization/gpu_util",),
    "memory_busy_percent": ("utilization/memory_util",),
    "encoder_percent": ("utilization/encoder_util",),
    "decoder_percent": ("utilization/decoder_util",),
    # Not gpu_temp_tlimit and the like: those are margins to a limit.
    "temperature_celsius": ("temperature/gpu_temp",),
    "memory_temperature_celsius": ("temperature/memory_temp",),
    "fan_percent": ("fan_speed",),
    "power_watts": (
        "gpu_power_readings/average_power_draw",
        "gpu_power_readings/instant_power_draw",
        "gpu_power_readings/power_draw",
        "power_readings/power_draw",
    ),
    "power_limit_watts": (
        "gpu_power_readings/current_power_limit",
        "power_readings/enforced_power_limit",
        "power_readings/power_limit",
    ),
    "sm_clock_mhz": ("clocks/sm_clock",),
    "sm_clock_max_mhz": ("max_clocks/sm_clock",),
    "memory_clock_mhz": ("clocks/mem_clock",),
    "memory_clock_max_mhz": ("max_clocks/mem_clock",),
    "performance_state": ("performance_state",),
    "pcie_generation": ("pci/pci_gpu_link_info/pcie_gen/current_link_gen",),
    "pcie_generation_max": ("pci/pci_gpu_link_info/pcie_gen/max_link_gen",),
    "pcie_width": ("pci/pci_gpu_link_info/link_widths/current_link_width",),
    "pcie_width_max": ("pci/pci_gpu_link_info/link_widths/max_link_width",),
    "pcie_rx_bytes_per_second": ("pci/rx_util",),
    "pcie_tx_bytes_per_second": ("pci/tx_util",),
    "persistence": ("persistence_mode",),
    "compute_mode": ("compute_mode",),
    "mig_mode": ("mig_mode/current_mig",),
    "addressing_mode": ("addressing_mode",),
    "recovery_action": ("gpu_recovery_action",),
    "reset_required": ("gpu_reset_status/reset_required",),
    "drain_and_reset": ("gpu_reset_status/drain_and_reset_recommended",),
    "pending_retirement": ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
    "pending_remap": ("remapped_rows/remapped_row_pending",),
    "remap_failed": ("remapped_rows/remapped_row_failure",),
}
# Up to 440 a total was printed; since 450 its parts are.
_ECC: dict[str, tuple[tuple[str, ...], ...]] = {
    "ecc_corrected": (("single_bit/total",), ("sram_correctable", "dram_correctable")),
    "ecc_uncorrected": (
        ("double_bit/total",),
        (
            "sram_uncorrectable",
            "sram_uncorrectable_parity",
            "sram_uncorrectable_secded",
            "dram_uncorrectable",
        ),
    ),
}
_INSTANCE_PATHS = {
    "gpu_instance_id": "gpu_instance_id",
    "compute_instance_id": "compute_instance_id",
    "memory_total_bytes": "fb_memory_usage/total",
    "memory_used_bytes": "fb_memory_usage/used",
    "busy_percent": "utilization/gpu_util",
}

_MAX_INSTANCES = 64
_DAMAGED = Fault(
    kind="unreadable",
    detail="the output of nvidia-smi breaks off or is damaged here",
    remedy="run nvidia-smi -q -x and look at its end",
)

_Owner = tuple[int | None, int | None]


def parse_xml(text: str, listing: str = "") -> NvidiaSmiReading:
    """Return the GPUs of the last whole document in `text`, or of one that breaks off.

    `listing` is the text of `nvidia-smi -L`, for the UUIDs of MIG instances. Raise a
    `CollectError` where there is no document.
    """
    root, damaged = parse_document(text)
    listed = _listed(listing)
    gpus = [_gpu(element, index, listed) for index, element in enumerate(root.findall("gpu"))]
    gpus = [
        replace(gpu, fault=gpu.fault or _DAMAGED) if gpu.index in damaged else gpu for gpu in gpus
    ]
    if not gpus and _text(root, "attached_gpus") not in ("", "0"):
        raise ReadFailed("nvidia-smi says that GPUs are attached, but lists none")
    return NvidiaSmiReading(
        gpus=deduplicate_uuids(gpus),
        driver_version=parse_version(root.findtext("driver_version")),
        cuda_version=parse_version(root.findtext("cuda_version")),
    )


def _gpu(element: Element, index: int, listed: dict[str, ListedGpu]) -> Gpu:
    texts = {
        field: [found.text or "" for path in paths if (found := element.find(path)) is not None]
        for field, paths in _PATHS.items()
    }
    # The attribute `id` is the address as well, and is whole where the elements break off.
    texts["pci_bus_id"].append(element.get("id", ""))
    texts |= {field: _ecc_texts(element, layouts) for field, layouts in _ECC.items()}
    unread: dict[str, str] = {}
    owned = _processes(element, unread)
    processes = None if owned is None else tuple(process for process, _ in owned)
    gpu = make_gpu(
        texts,
        index,
        throttle_reasons=_throttle_reasons(element, unread),
        processes=processes,
        unread=unread,
    )
    return replace(gpu, instances=_instances(element, gpu.uuid, owned, listed.get(gpu.uuid)))


def _text(element: Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _ecc_texts(element: Element, layouts: tuple[tuple[str, ...], ...]) -> list[str]:
    for tags in layouts:
        found = [element.find(f"ecc_errors/volatile/{tag}") for tag in tags]
        if texts := [leaf.text or "" for leaf in found if leaf is not None]:
            return texts
    return []


def _throttle_reasons(element: Element, unread: dict[str, str]) -> tuple[str, ...] | None:
    for container, prefix in (
        ("clocks_event_reasons", "clocks_event_reason_"),
        ("clocks_throttle_reasons", "clocks_throttle_reason_"),
    ):
        found = element.find(container)
        if found is None:
            continue
        states = {leaf.tag.removeprefix(prefix): parse_bool(leaf.text or "") for leaf in found}
        if any(state is not None for state in states.values()):
            return sort_throttle_reasons(name for name, active in states.items() if active)
        reasons = (unavailable_reason(leaf.text or "") for leaf in (found, *found))
        if reason := next(filter(None, reasons), None):
            unread["throttle_reasons"] = reason
    return None


def _processes(element: Element, unread: dict[str, str]) -> list[tuple[Process, _Owner]] | None:
    """Return each process with its MIG instance; `None` when the driver refuses the list."""
    found = element.find("processes")
    # Up to 340 only compute processes were listed.
    found = element.find("compute_processes") if found is None else found
    if found is None:
        return None
    rows = found.findall("process_info")
    message = (found.text or "").strip()
    # A text or an unknown element instead of rows: the list was refused, which is not an empty one.
    if not rows and (message or len(found)):
        if reason := unavailable_reason(message) or ("not understood" if len(found) else None):
            unread["processes"] = reason
        return None
    listed = [(process, _owner(row)) for row in rows if (process := _process(row))]
    without_pid = [row for row in rows if _process(row) is None]
    if without_pid:
        reason = unavailable_reason(_text(without_pid[0], "pid")) or "N/A"
        unread["processes"] = f"{len(without_pid)} of {len(rows)} have no pid: {reason}"
    # Rows without any pid are no empty list: processes exist, but none is known.
    return listed if listed or not without_pid else None


def _process(row: Element) -> Process | None:
    return make_process(
        _text(row, "pid"),
        row.findtext("type"),
        _text(row, "process_name"),
        _text(row, "used_memory"),
    )


def _owner(row: Element) -> _Owner:
    gpu_instance = first_int("gpu_instance_id", (_text(row, "gpu_instance_id"),), COUNT, {})
    return gpu_instance, first_int(
        "compute_instance_id", (_text(row, "compute_instance_id"),), COUNT, {}
    )


def _instances(
    element: Element,
    parent: str,
    owned: list[tuple[Process, _Owner]] | None,
    listed: ListedGpu | None,
) -> tuple[Instance, ...]:
    named = {str(instance.index): instance for instance in listed.instances} if listed else {}
    return tuple(
        _instance(device, parent, owned, named.get(_text(device, "index")))
        for device in element.findall("mig_devices/mig_device")[:_MAX_INSTANCES]
    )


def _instance(
    device: Element,
    parent: str,
    owned: list[tuple[Process, _Owner]] | None,
    listed: ListedInstance | None,
) -> Instance:
    texts = {field: (_text(device, path),) for field, path in _INSTANCE_PATHS.items()}
    owner = _owner(device)
    placeholder = f"{parent}/{texts['gpu_instance_id'][0]}/{texts['compute_instance_id'][0]}"
    uuid = _text(device, "uuid") or (listed.uuid if listed else None)
    return make_instance(
        texts,
        uuid=uuid or placeholder,
        uuid_is_made=uuid is None,
        profile=listed.profile if listed else None,
        processes=None if owned is None else tuple(p for p, of in owned if of == owner),
    )


def _listed(listing: str) -> dict[str, ListedGpu]:
    try:
        return {gpu.uuid: gpu for gpu in parse_list(listing)} if listing else {}
    except CollectError:
        return {}  # the instances then have placeholder ids, and all else is known
