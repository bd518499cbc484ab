"""The fleet and its people for other programs: JSON and CSV.

JSON has the model's own field names; what is not measured is `null`, times are seconds
since 1970. CSV has one row a GPU and one a MIG instance; what is not measured is empty.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fleet_smi.model.fleet import FleetView, JudgedGpu, JudgedInstance, NodeView, Summary
from fleet_smi.model.people import Person, owners
from fleet_smi.wire.csv import CsvValue, encode_csv

GpuOrInstance = JudgedGpu | JudgedInstance
_INDENT = 2


def to_json(value: Any, *, pretty: bool = False) -> bytes:
    """Any struct, or list of them, as JSON; pretty is for eyes."""
    encoded = msgspec.json.encode(value)
    return msgspec.json.format(encoded, indent=_INDENT) if pretty else encoded


def fleet_json(view: FleetView, *, pretty: bool = False) -> bytes:
    """The fleet in the shape of `GET /api/v1/fleet`."""
    return to_json(view, pretty=pretty)


def fleet_json_from_encoded(taken_at: float, summary: Summary, nodes: Sequence[bytes]) -> bytes:
    """The same, of nodes that are JSON already."""
    encoded = [msgspec.Raw(node) for node in nodes]
    return to_json({"taken_at": taken_at, "summary": summary, "nodes": encoded})


def people_json(people: Iterable[Person], *, pretty: bool = False) -> bytes:
    """The list of people in the shape of `GET /api/v1/people`."""
    return to_json({"people": tuple(people)}, pretty=pretty)


def fleet_csv(view: FleetView) -> str:
    """The fleet as RFC 4180 text with a header row."""
    return encode_csv([list(COLUMNS), *_rows(view)])


def _rows(view: FleetView) -> Iterator[list[CsvValue]]:
    for node in view.nodes:
        for gpu in node.gpus:
            parts: tuple[GpuOrInstance, ...] = (gpu, *gpu.instances)
            yield from ([column(node, gpu, part) for column in COLUMNS.values()] for part in parts)


def _text(values: Sequence[str] | None) -> str | None:
    return None if values is None else ", ".join(values)


def _own(name: str) -> Callable[[NodeView, JudgedGpu, GpuOrInstance], CsvValue]:
    """A figure of the part itself: what only a whole GPU has is empty for an instance."""
    return lambda _, __, part: getattr(part, name, None)


def _of_gpu(name: str) -> Callable[[NodeView, JudgedGpu, GpuOrInstance], CsvValue]:
    return lambda _, gpu, __: getattr(gpu, name)


COLUMNS: dict[str, Callable[[NodeView, JudgedGpu, GpuOrInstance], CsvValue]] = {
    "node": lambda node, _, __: node.name,
    "node_id": lambda node, _, __: node.node_id,
    "age_seconds": lambda node, _, __: node.age_seconds,
    "silent": lambda node, _, __: node.silent,
    "index": _of_gpu("index"),
    "uuid": _own("uuid"),
    "parent_uuid": lambda _, gpu, part: None if part is gpu else gpu.uuid,
    "profile": _own("profile"),
    "vendor": _of_gpu("vendor"),
    "name": _of_gpu("name"),
    "pci_bus_id": _of_gpu("pci_bus_id"),
    "state": lambda _, __, part: part.verdict.state,
    "reason": lambda _, __, part: part.verdict.reason,
    "notes": lambda _, __, part: "; ".join(note.words for note in part.verdict.notes),
    "since_epoch_seconds": lambda _, __, part: part.verdict.since,
    "idle_seconds": lambda _, __, part: part.verdict.idle_seconds,
    "users": lambda _, __, part: None if part.processes is None else _text(owners(part.processes)),
    "process_count": lambda _, __, part: None if part.processes is None else len(part.processes),
    "memory_used_bytes": _own("memory_used_bytes"),
    "memory_total_bytes": _own("memory_total_bytes"),
    "memory_shared": _of_gpu("memory_shared"),
    **{
        name: _own(name)
        for name in (
            "busy_percent",
            "memory_busy_percent",
            "encoder_percent",
            "decoder_percent",
            "temperature_celsius",
            "fan_percent",
            "power_watts",
            "power_limit_watts",
            "sm_clock_mhz",
            "sm_clock_max_mhz",
            "memory_clock_mhz",
            "memory_clock_max_mhz",
            "performance_state",
            "ecc_corrected",
            "ecc_uncorrected",
            "pcie_generation",
            "pcie_generation_max",
            "pcie_width",
            "pcie_width_max",
            "pcie_rx_bytes_per_second",
            "pcie_tx_bytes_per_second",
            "persistence",
            "compute_mode",
            "mig_mode",
            "asleep",
        )
    },
    "throttle_reasons": lambda _, __, part: _text(getattr(part, "throttle_reasons", None)),
    "fault": lambda _, gpu, __: gpu.fault.detail or gpu.fault.kind if gpu.fault else None,
    "driver_version": lambda node, _, __: node.host.driver_version,
}
