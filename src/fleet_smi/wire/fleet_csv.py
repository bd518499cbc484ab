"""CSV encoding of the fleet: one row per GPU and one per MIG instance.

The columns of figures come from the registry in `model/figures.py`; what is not measured is
an empty cell.
"""

from collections.abc import Callable, Iterator, Sequence

from fleet_smi.model.figures import GPU_FIGURES
from fleet_smi.model.fleet import FleetView, JudgedDevice, JudgedGpu, NodeView
from fleet_smi.model.people import owners
from fleet_smi.wire.csv import CsvValue, encode_csv

ColumnReader = Callable[[NodeView, JudgedGpu, JudgedDevice], CsvValue]
"""Reads one cell: of the node, of the GPU, or of the row's own device, a GPU or an instance."""


def fleet_csv(view: FleetView) -> str:
    """Encode the fleet as RFC 4180 text with a header row."""
    return encode_csv([list(COLUMNS), *_rows(view)])


def _rows(view: FleetView) -> Iterator[list[CsvValue]]:
    for node in view.nodes:
        for gpu in node.gpus:
            devices: tuple[JudgedDevice, ...] = (gpu, *gpu.instances)
            for device in devices:
                yield [read(node, gpu, device) for read in COLUMNS.values()]


def _joined(values: Sequence[str] | None) -> str | None:
    return None if values is None else ", ".join(values)


def _of_device(field: str) -> ColumnReader:
    """Read a field of the row's own device: what only a whole GPU has is empty for an instance."""
    return lambda _, __, device: getattr(device, field, None)


def _of_gpu(field: str) -> ColumnReader:
    return lambda _, gpu, __: getattr(gpu, field)


_LEADING_COLUMNS: dict[str, ColumnReader] = {
    "node": lambda node, _, __: node.name,
    "node_id": lambda node, _, __: node.node_id,
    "age_seconds": lambda node, _, __: node.age_seconds,
    "silent": lambda node, _, __: node.silent,
    "index": _of_gpu("index"),
    "uuid": _of_device("uuid"),
    "parent_uuid": lambda _, gpu, device: None if device is gpu else gpu.uuid,
    "profile": _of_device("profile"),
    "vendor": _of_gpu("vendor"),
    "name": _of_gpu("name"),
    "pci_bus_id": _of_gpu("pci_bus_id"),
    "state": lambda _, __, device: device.verdict.state,
    "reason": lambda _, __, device: device.verdict.reason,
    "notes": lambda _, __, device: "; ".join(note.words for note in device.verdict.notes),
    "since_epoch_seconds": lambda _, __, device: device.verdict.since,
    "idle_seconds": lambda _, __, device: device.verdict.idle_seconds,
    "users": lambda _, __, device: (
        None if device.processes is None else _joined(owners(device.processes))
    ),
    "process_count": lambda _, __, device: (
        None if device.processes is None else len(device.processes) + device.more_processes
    ),
}
# Columns that are no figures, by the figure that they follow. Spreadsheets refer to columns by
# position, so these stay where they are and a new figure's column comes after all of them.
_COLUMNS_AFTER: dict[str, dict[str, ColumnReader]] = {
    "memory_total_bytes": {"memory_shared": _of_gpu("memory_shared")},
    "memory_clock_max_mhz": {"performance_state": _of_device("performance_state")},
    "pcie_tx_bytes_per_second": {
        "persistence": _of_device("persistence"),
        "compute_mode": _of_device("compute_mode"),
        "mig_mode": _of_device("mig_mode"),
        "asleep": _of_device("asleep"),
        "throttle_reasons": lambda _, __, device: _joined(
            getattr(device, "throttle_reasons", None)
        ),
        "fault": lambda _, gpu, __: gpu.fault.detail or gpu.fault.kind if gpu.fault else None,
        "driver_version": lambda node, _, __: node.host.driver_version,
    },
}


def _columns() -> dict[str, ColumnReader]:
    columns = dict(_LEADING_COLUMNS)
    for figure in GPU_FIGURES:
        if figure.csv:
            columns[figure.field] = _of_device(figure.field)
        columns |= _COLUMNS_AFTER.get(figure.field, {})
    columns["site"] = lambda node, _, __: node.site
    return columns


COLUMNS = _columns()
"""How each column is read, by its name and in order."""
